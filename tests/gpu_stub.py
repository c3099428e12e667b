"""A GPU as far as Python's packages can tell: NVIDIA's driver and CuPy are replaced.

`test_gpu_stub.py` and `benchmarks/gpu/host.py` run the apps over it. The driver counts calls:
launches, marks, waits of streams, copies to and from the host or within the device,
synchronizations, and queries. Delays are from a file, and counted where calls spend them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent / "gpu"
STUB = FOLDER / "stub"
LIBRARY = "libcuda.so.1"
COUNTED = "launches", "marks", "waits", "copies", "synchronizations", "queries"
COSTS = "MINIAPPS_STUB_COSTS"  # names a file of delays: see libcuda.c
TIMES = "spent_ns", "worked_ns", "waited_ns"  # the host in calls, the GPU, the host for the GPU


def compile_driver(folder: Path) -> None:
    """Compile the driver into a folder."""
    compiler = ["cc", "-shared", "-fPIC", "-w", "-o", str(folder / LIBRARY)]
    subprocess.run([*compiler, str(STUB / "libcuda.c"), "-ldl"], check=True)


def environment(folder: Path) -> dict[str, str]:
    """The variables with which a process uses the driver in a folder."""
    paths = {"LD_LIBRARY_PATH": [folder], "PYTHONPATH": [STUB / "python", FOLDER, FOLDER.parent]}
    found = {}
    for name, own in paths.items():
        before = [os.environ[name]] if name in os.environ else []
        found[name] = ":".join(map(str, [*own, *before]))
    return found | {"MINIAPPS_CUDA_TOOLKIT": "stub:Stub"}


def calls(names: tuple[str, ...] = COUNTED) -> dict[str, int]:
    """The calls so far, by what is counted, in a process that uses the driver; or `TIMES`."""
    driver = ctypes.CDLL(LIBRARY)
    return {name: ctypes.c_long.in_dll(driver, name).value for name in names}
