"""The memory of this host and of this process."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SHARED = Path("/dev/shm")  # where Linux has the files of memory that processes share
CONTAINER_MEMORY = "/sys/fs/cgroup/memory.max"


def memory_bytes() -> int:
    """The memory of this machine, or what a container allows if that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open(CONTAINER_MEMORY) as file:
            allowed = file.read().strip()
    except OSError:
        return physical
    return min(physical, int(allowed)) if allowed.isdigit() else physical


def peak_bytes() -> int:
    """The largest resident memory of this process so far.

    Not `resource.getrusage`: its maximum includes the process that started this one, up to exec.
    """
    with open("/proc/self/status") as file:
        (peak,) = (line.split()[1] for line in file if line.startswith("VmHWM:"))
    return 1024 * int(peak)


def shared_bytes_free() -> int:
    """What is left of the memory for files that processes share."""
    return shutil.disk_usage(SHARED).free if SHARED.is_dir() else 0


def shared_words() -> str:
    """How much of it there is, in words."""
    if not SHARED.is_dir():
        return f"there is no {SHARED}"
    found = shutil.disk_usage(SHARED)
    return f"{SHARED} has {found.free / 1e6:.1f} of {found.total / 1e6:.1f} MB free"
