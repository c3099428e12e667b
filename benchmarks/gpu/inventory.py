"""What a machine has of what kernels on a GPU need, a line each.

    python -m benchmarks.gpu.inventory

Imports packages one by one and catches every failure, so it runs where most of them are missing.
Exit status: 0, or 1 if something is missing that is needed besides a GPU.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from miniapps.devices.cuda import driver_info as nvidia

ROOT = Path(__file__).resolve().parents[2]

CARRIED = {"numba-cuda": "numba.cuda", "cuda-bindings": "cuda.bindings.driver"}
CARRIED |= {"cuda-core": "cuda.core", "mpi4py": "mpi4py", "charm4py": "charmrun"}
CARRIED |= {"pytest-xdist": "xdist", "pytest-timeout": "pytest_timeout", "hypothesis": "hypothesis"}
FROM_IMAGE = {"numpy": "numpy", "numba": "numba", "scipy": "scipy", "h5py": "h5py"}
FROM_IMAGE |= {"rich": "rich", "matplotlib": "matplotlib", "pytest": "pytest"}
FROM_IMAGE |= {"cupy-cuda13x": "cupy"}
LIBRARIES = "nvvm", "nvJitLink", "nvrtc"
PROGRAMS = "compute-sanitizer", "ncu", "nvidia-smi", "mpiexec", "cc", "make"
GIB = 2**30


class Found(NamedTuple):
    """What was found, and whether something is missing that is needed."""

    name: str
    words: str
    missing: bool = False


def machine() -> Iterator[Found]:
    """Python, cores, memory, space on the disk."""
    yield Found("Python", f"{platform.python_version()} at {sys.executable}")
    yield Found("cores", str(len(os.sched_getaffinity(0))))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    yield Found("memory", f"{memory:.0f} GiB; {shutil.disk_usage(ROOT).free / GIB:.0f} GiB of disk")


def packages(wanted: dict[str, str]) -> Iterator[Found]:
    """Versions of packages that can be imported, and why others cannot be."""
    for name, module in wanted.items():
        try:
            importlib.import_module(module)
            yield Found(name, importlib.metadata.version(name))
        except Exception as error:  # a package may fail to load in any manner
            yield Found(name, f"missing: {type(error).__name__}: {error}".splitlines()[0], True)


def gpus() -> list[Found]:
    """The GPUs and their driver; none if there is none."""
    driver = nvidia.library()
    cuda = nvidia.cuda_version(driver)
    takes = "unknown" if cuda is None else ".".join(map(str, cuda))
    version = f"driver {nvidia.driver_version() or 'unknown'}, CUDA {takes}"
    return [
        Found("GPU", f"{gpu.name}, {gpu.memory_bytes / GIB:.0f} GiB, {version}", old(cuda))
        for gpu in nvidia.seen()
    ]


def old(cuda: tuple[int, int] | None) -> bool:
    """Whether a driver is too old for the packages."""
    return cuda is None or cuda < nvidia.NEEDED


def libraries(needed: bool) -> Iterator[Found]:
    """The files of the libraries that compile and link, from wheels or the folder CUDA_HOME."""
    yield Found("CUDA_HOME", os.environ.get("CUDA_HOME", "not set"))
    for name in LIBRARIES:
        try:
            from cuda.pathfinder import load_nvidia_dynamic_lib

            yield Found(name, load_nvidia_dynamic_lib(name).abs_path or "found")
        except Exception as error:
            yield Found(name, f"not found ({type(error).__name__})", needed)


def programs() -> Iterator[Found]:
    """The paths of programs, of which some checks use some."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    places += [str(Path(os.environ[name], "bin")) for name in ("CUDA_HOME",) if name in os.environ]
    for name in PROGRAMS:
        yield Found(name, shutil.which(name, path=os.pathsep.join(places)) or "not found")


def inventory() -> Iterator[Found]:
    """Everything."""
    there = gpus()
    yield from machine()
    yield from packages(FROM_IMAGE | CARRIED)
    yield from there or [Found("GPU", "none with a working driver")]
    yield from libraries(needed=bool(there))
    yield from programs()


def main() -> int:
    """Print all lines; returns the exit status."""
    missing = []
    for found in inventory():
        print(f"{found.name:18} {found.words}", flush=True)
        missing += [found.name] if found.missing else []
    if missing:
        print(f"gpu-first: missing or too old: {', '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
