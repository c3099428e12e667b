"""``miniapps doctor``: what works, grouped by what the user wants to use, and what is missing.

Each driver is tested by a small echo run whose messages must arrive, because a driver may be
installed and still not work.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from miniapps import drivers
from miniapps.devices import system, variables
from miniapps.devices.cuda import driver_info as nvidia
from miniapps.drivers.descriptor import Driver, pip_install, program
from miniapps.parameters import InputError
from miniapps.workbench import environment
from miniapps.workbench.exit_status import FAILED, VALID
from miniapps.workbench.plural import counted
from miniapps.workbench.run import record, versions
from miniapps.workbench.run.batch import solve
from miniapps.workbench.run.cases import Case, spec_of
from miniapps.workbench.run.memory import require_shared_of
from miniapps.workbench.run.processes import remove_orphans

GPU_PACKAGES = {"numba-cuda": ("numba-cuda",), "CuPy": ("cupy-cuda13x", "cupy")}
ASK_LIMIT_S = 60
DISTRIBUTION = "parallel-miniapps"


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    works: bool
    found: str
    cost: str  # what the user loses if it does not work, and what to do
    needed: bool = True  # else the group works without it, only less well


class Group(NamedTuple):
    """What one use of the program needs."""

    name: str
    losses: str  # what the user loses if it does not work
    findings: Iterable[Finding]


def doctor(launcher: str | None = None) -> int:
    """Print the findings; returns VALID if the drivers with one PE work, else FAILED.

    ``launcher``: an mpiexec in place of the one of this Python. Raises InputError if it is none.
    """
    every = drivers.found().values()
    needed = {f"driver {driver.name}" for driver in every if driver.one_pe}
    if launcher:
        for driver in every:
            if driver.program:
                driver.launcher_path(launcher)  # before anything is printed
    status = VALID
    for group in groups(launcher):
        findings = list(group.findings)
        works = all(finding.works for finding in findings if finding.needed)
        print(f"{group.name}: {'works' if works else f'does not work: {group.losses}'}")
        said: set[str] = set()  # advice is given once in a group
        for finding in findings:
            print(f"  {'ok' if finding.works else 'no'}  {finding.what}: {finding.found}")
            if not finding.works and finding.cost and finding.cost not in said:
                print(f"      without it: {finding.cost}")
                said.add(finding.cost)
            status = FAILED if finding.what in needed and not finding.works else status
        print()
    return status


def groups(launcher: str | None) -> Iterator[Group]:
    """Findings by what the user wants to use."""
    every = drivers.found().values()
    yield Group("CPU, one process", "no runs at all", cpu())
    for driver in every:
        if not driver.one_process:
            yield Group(driver.name, driver.without, several_processes(driver, launcher))
    yield Group("GPU", "no --device gpu", gpu())
    yield Group("Environment", "", set_by_user())


def cpu() -> Iterator[Finding]:
    """What every run needs."""
    host = record.host()
    memory = host["memory_bytes"] / 2**30
    yield Finding("Python", True, f"{platform.python_version()} at {sys.executable}", "")
    allowed = counted(len(environment.core_numbers()), "core")
    yield Finding("machine", True, f"{host['processor']}, {allowed}, {memory:.0f} GiB", "")
    yield from cpu_quota()
    yield watching()
    every = drivers.found().values()
    yield from packages([name for driver in every for name in driver.modules])
    yield kernel_cache()
    yield from (driver_works(driver) for driver in every if driver.one_process)


def cpu_quota() -> Iterator[Finding]:
    """How much of the cores a control group allows, if it allows less than all of them."""
    quota, there = system.cpu_quota(), len(environment.core_numbers())
    if quota is not None and quota < there:
        found = f"the time of {quota:g} of {counted(there, 'core')}, by the control group"
        most = counted(environment.whole_cores(), "PE")
        cost = f"runs on more than {most} are oversubscribed"
        yield Finding("CPU quota", False, found, cost, needed=False)


def watching() -> Finding:
    """How this process learns that another one has ended."""
    told = system.tells_of_ends()
    found = "the kernel tells" if told else "no pidfd_open in this Python or container"
    cost = f"a run is looked at {1 / system.POLL_S:.0f} times a second, which costs its PEs time"
    return Finding("end of processes", told, found, cost, needed=False)


def packages(optional: Iterable[str]) -> Iterator[Finding]:
    """The packages of which a record names the version, but for the ``optional`` ones."""
    for package, version in versions.versions().items():
        if package != "python" and package not in optional:
            cost = f"nothing works; install it: {pip_install(package)}"
            yield Finding(package, version != "not installed", version, cost)


def several_processes(driver: Driver, launcher: str | None) -> Iterator[Finding]:
    """What a driver with processes of its own needs."""
    for package, version in versions.versions().items():
        if package in driver.modules and version != "not installed":
            yield Finding(package, True, version, "")
    if driver.program:
        found = driver.launcher_path(launcher) if launcher else program(driver.program)
        cost = f"--driver {driver.name} needs --launcher PATH or srun"
        yield Finding(driver.program, found is not None, found or "not found", cost)
    yield driver_works(driver, launcher if driver.program else None)


def extra(name: str) -> list[str]:
    """The packages that this project's metadata list as an extra; empty if it has none."""
    mark = re.compile(rf"""extra == ['"]{name}['"]""")
    try:
        listed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [line.partition(";")[0].strip() for line in listed if mark.search(line)]


def kernel_cache() -> Finding:
    """Whether compiled kernels can be stored for later runs."""
    usual = Path(__file__).parents[1] / "kernels" / "__pycache__"
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or usual)
    made_in = next(one for one in (folder, *folder.parents) if one.exists())
    writable = os.access(made_in, os.W_OK)
    cost = "kernels are kept in a home, or in /tmp if there is none; else every start compiles"
    return Finding("kernel cache", writable, str(folder), cost, needed=False)


def driver_works(driver: Driver, launcher: str | None = None) -> Finding:
    """Whether messages arrive under a driver, with one PE per core, at most two PEs."""
    name, cost = driver.name, driver.without
    reason = driver.lacks_modules() if launcher else driver.unavailable()
    if reason is not None:
        return Finding(f"driver {name}", False, reason, cost)
    case = Case(name, 1 if driver.one_pe else min(2, environment.cores()))
    spec = spec_of("echo", case, "tiny")
    try:
        result = solve(spec, launcher)
        if isinstance(result, str):  # with a launcher, this was not checked before
            require_shared_of("run", spec)
    except InputError as error:
        return Finding(f"driver {name}", False, str(error), cost)
    if isinstance(result, str):
        return Finding(f"driver {name}", False, f"a run failed: {result}", cost)
    library = " ".join(result["versions"].get(name, "").split())
    found = f"{counted(case.pes, 'PE')}, messages arrive" + (f"; {library}" if library else "")
    return Finding(f"driver {name}", result["valid"], found, cost)


def gpu() -> Iterator[Finding]:
    """What ``--device gpu`` needs, and whether runtimes send messages from GPU memory."""
    nvidia_driver, needed = nvidia.library(), "no --device gpu"
    cuda, number = nvidia.cuda_version(nvidia_driver), nvidia.driver_version()
    found = f"version {number or 'unknown'}, for CUDA {'.'.join(map(str, cuda or ('unknown',)))}"
    there = cuda is not None or number is not None
    enough = cuda is not None and cuda >= nvidia.NEEDED
    least = f"{needed}, which needs a driver for CUDA {'.'.join(map(str, nvidia.NEEDED))} or later"
    yield Finding("NVIDIA driver", enough, found if there else "not found", least)
    seen = [f"{gpu.name}, {gpu.memory_bytes / 2**30:.0f} GiB" for gpu in nvidia.seen()]
    yield Finding("GPU", bool(seen), "; ".join(seen) or "none", needed)
    for name, packages in GPU_PACKAGES.items():
        installed = filter(None, map(versions.version, packages))
        version = next(installed, "not installed")
        install = f"{needed}; install it: {pip_install(*extra('gpu'))}"
        yield Finding(name, version != "not installed", version, install)
    yield kernel_compiler()
    for driver in drivers.found().values():
        if driver.gpu_aware:
            yield gpu_aware(driver)


def set_by_user() -> Iterator[Finding]:
    """Variables that are set and change what others measure; a record lists them, too."""
    found = environment.set_variables()
    if not found:
        yield Finding("variables", True, "none is set that changes results or speed", "")
    for name, value in found.items():
        yield Finding(f"{name}={value}", True, str(variables.changed_by(name)), "")


def kernel_compiler() -> Finding:
    """Whether NVIDIA's kernel compiler is found, by the same search as in numba-cuda."""
    what = "CUDA compiler"
    cost = (
        f"no --device gpu; install it: {pip_install(*extra('gpu'))}, or set CUDA_PATH to its folder"
    )
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
    command, began = [sys.executable, "-m", driver.gpu_aware], time.time()
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=ASK_LIMIT_S
        )
        aware, why = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        found = f"{driver.runtime} could not be started to ask"
        return Finding(what, False, found, cost, needed=False)
    finally:
        remove_orphans(began)  # Open MPI leaves the memory of one process that no launcher started
    return Finding(what, aware, why, cost, needed=False)
