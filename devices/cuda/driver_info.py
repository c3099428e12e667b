"""What the NVIDIA driver says of itself and its GPUs, without any GPU library of Python."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any, NamedTuple

VERSION_FILE = Path("/proc/driver/nvidia/version")
LIBRARY = "libcuda.so.1"
NAME_BYTES = 256
NEEDED = (13, 0)  # the CUDA of which Python's packages for kernels are


class Gpu(NamedTuple):
    """One GPU."""

    name: str
    memory_bytes: int


def driver_version(file: Path = VERSION_FILE) -> str | None:
    """The version of the kernel module, as in 580.65.06; None where there is none."""
    try:
        found = re.search(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", file.read_text())
    except OSError:
        return None
    return found[1] if found else None


def library() -> Any:
    """The driver's library; None where there is none."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return None


def cuda_version(driver: Any) -> tuple[int, int] | None:
    """The newest CUDA that a driver's library supports; None where it does not say."""
    number = ctypes.c_int()
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(number)) or not number.value:
        return None
    return number.value // 1000, number.value % 1000 // 10


def gpus(driver: Any) -> list[Gpu]:
    """The GPUs that a driver's library shows to this process; none where it does not work."""
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
