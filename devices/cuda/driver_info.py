"""What NVIDIA's driver reports about itself and its GPUs, found without a GPU library of Python.

CUDA does not work in a process that was forked from one in which it was opened, and the runtime of
charm forks when it starts. So `seen` asks for the GPUs in a process of its own, which is this file
as a program: it prints them as JSON.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

VERSION_FILE = Path("/proc/driver/nvidia/version")
LIBRARY = "libcuda.so.1"
NAME_BYTES = 256
NEEDED = (13, 0)  # the CUDA version of the Python packages for kernels


class Gpu(NamedTuple):
    """One GPU."""

    name: str
    memory_bytes: int


def driver_version(file: Path = VERSION_FILE) -> str | None:
    """Return the version of the kernel module, such as 580.65.06; None if it is not loaded."""
    try:  # not `devices.system`: this file is also run alone
        told = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", told)
    return found[1] if found else None


def library() -> Any:
    """Return the driver's library; None if there is none."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return None


def cuda_version(driver: Any) -> tuple[int, int] | None:
    """Return the newest CUDA version that a driver's library supports; None if unknown."""
    number = ctypes.c_int()
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(number)) or not number.value:
        return None
    return number.value // 1000, number.value % 1000 // 10


def seen() -> list[Gpu]:
    """Return the GPUs that a new process can see; does not open CUDA in this one."""
    if library() is None:
        return []
    command = [sys.executable, "-I", "-S", __file__]  # without other packages: it starts in 15 ms
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return [Gpu(*found) for found in json.loads(done.stdout)] if done.returncode == 0 else []


def gpus(driver: Any) -> list[Gpu]:
    """Return the GPUs that this process can see; none if the driver does not work. Opens CUDA."""
    count = ctypes.c_int()
    if driver is None or driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [_gpu(driver, number) for number in range(count.value)]


def _gpu(driver: Any, number: int) -> Gpu:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(NAME_BYTES)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, NAME_BYTES, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return Gpu(name.value.decode(), memory.value)


if __name__ == "__main__":
    print(json.dumps(gpus(library())))
