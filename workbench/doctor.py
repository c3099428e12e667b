"""``miniapps doctor``: what is installed, what works, and what cannot be used without the rest.

Each driver is tested by a small echo run whose messages must arrive, because a driver may be
installed and still not work.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import drivers
from devices.cuda import driver_info as nvidia
from drivers.descriptor import Driver, program
from miniapps.parameters import InputError
from workbench import environment
from workbench.exit_status import FAILED, VALID
from workbench.plural import counted
from workbench.run import record
from workbench.run.batch import solve
from workbench.run.cases import Case, spec_of

GPU_PACKAGES = {"numba-cuda": ("numba-cuda",), "CuPy": ("cupy-cuda13x", "cupy")}
ASK_LIMIT_S = 60


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    works: bool
    found: str
    cost: str  # what the user loses if it does not work


def doctor() -> int:
    """Print the findings; returns VALID if the serial driver works, else FAILED."""
    table = Table("", "what", "found", "without it", title="miniapps doctor")
    findings = list(examine())
    for finding in findings:
        mark = "[green]ok[/]" if finding.works else "[red]no[/]"
        cost = "" if finding.works else finding.cost
        table.add_row(mark, finding.what, escape(finding.found), escape(cost))
    Console().print(table)
    needed = [f"driver {driver.name}" for driver in drivers.found().values() if driver.one_pe]
    return VALID if all(f.works for f in findings if f.what in needed) else FAILED


def examine() -> Iterator[Finding]:
    """All findings, quick ones first."""
    host = record.host()
    memory = host["memory_bytes"] / 2**30
    yield Finding("Python", True, f"{platform.python_version()} at {sys.executable}", "")
    yield Finding(
        "machine", True, f"{host['processor']}, {host['cores']} cores, {memory:.0f} GiB", ""
    )
    optional = {name for driver in drivers.found().values() for name in driver.modules}
    for package, version in record.versions().items():
        if package != "python" and (package not in optional or version != "not installed"):
            cost = "install the project again: pip install -e ."
            yield Finding(package, version != "not installed", version, cost)
    yield kernel_cache()
    for found in drivers.found().values():
        yield from launcher(found)
        yield driver(found)
    yield from gpu()


def kernel_cache() -> Finding:
    """Whether compiled kernels can be stored for later runs."""
    folder = Path(
        os.environ.get("NUMBA_CACHE_DIR", Path(__file__).parents[1] / "kernels" / "__pycache__")
    )
    writable = os.access(folder if folder.exists() else folder.parent, os.W_OK)
    return Finding("kernel cache", writable, str(folder), "every start compiles, for some seconds")


def launcher(driver: Driver) -> Iterator[Finding]:
    """Whether a driver's launcher is installed, if it needs one."""
    if driver.program:
        found = program(driver.program)
        cost = f"--driver {driver.name} needs --launcher PATH or srun"
        yield Finding(driver.program, found is not None, found or "not found", cost)


def driver(driver: Driver) -> Finding:
    """Whether messages arrive under a driver, with one PE per core, at most two PEs."""
    name, cost = driver.name, driver.without
    reason = driver.unavailable()
    if reason is not None:
        return Finding(f"driver {name}", False, reason, cost)
    case = Case(name, 1 if driver.one_pe else min(2, environment.cores()))
    try:
        result = solve(spec_of("echo", case, "tiny"))
    except InputError as error:
        return Finding(f"driver {name}", False, str(error), cost)
    if isinstance(result, str):
        return Finding(f"driver {name}", False, f"a run failed: {result}", cost)
    library = result["versions"].get(name, "")
    found = f"{counted(case.pes, 'PE')}, messages arrive" + (f"; {library}" if library else "")
    return Finding(f"driver {name}", result["valid"], found, cost)


def gpu() -> Iterator[Finding]:
    """What ``--device gpu`` needs, and whether runtimes send messages from GPU memory."""
    nvidia_driver, needed = nvidia.library(), "no --device gpu"
    cuda, number = nvidia.cuda_version(nvidia_driver), nvidia.driver_version()
    found = f"version {number or 'unknown'}, for CUDA {'.'.join(map(str, cuda or ('unknown',)))}"
    there = cuda is not None or number is not None
    enough = cuda is not None and cuda >= nvidia.NEEDED
    least = f"{needed}: it takes one for CUDA {'.'.join(map(str, nvidia.NEEDED))} or later"
    yield Finding("NVIDIA driver", enough, found if there else "not found", least)
    seen = [f"{gpu.name}, {gpu.memory_bytes / 2**30:.0f} GiB" for gpu in nvidia.gpus(nvidia_driver)]
    yield Finding("GPU", bool(seen), "; ".join(seen) or "none", needed)
    for name, packages in GPU_PACKAGES.items():
        versions = filter(None, map(record.version, packages))
        version = next(versions, "not installed")
        install = f"{needed}: pip install -e '.[gpu]'"
        yield Finding(name, version != "not installed", version, install)
    yield kernel_compiler()
    for driver in drivers.found().values():
        if driver.gpu_aware:
            yield gpu_aware(driver)


def kernel_compiler() -> Finding:
    """Whether NVIDIA's kernel compiler is found, by the same search as in numba-cuda."""
    what = "CUDA compiler"
    cost = "no --device gpu: pip install -e '.[gpu]', or set CUDA_PATH to its folder"
    try:
        from cuda import pathfinder

        found = pathfinder.load_nvidia_dynamic_lib("nvvm").abs_path
    except (ImportError, RuntimeError):  # numba-cuda or the library is missing
        return Finding(what, False, "NVVM not found", cost)
    return Finding(what, True, found, cost)


def gpu_aware(driver: Driver) -> Finding:
    """Whether a runtime sends from device memory; a subprocess starts the runtime to find out."""
    what = f"GPU-aware {driver.runtime}"
    cost = f"--device gpu under {driver.name} copies messages through the host"
    command = [sys.executable, "-m", driver.gpu_aware]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_LIMIT_S)
        aware, why = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return Finding(what, False, f"{driver.runtime} could not be started to ask", cost)
    return Finding(what, aware, why, cost)
