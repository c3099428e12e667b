"""The memory of this host and of this process."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SHARED = Path("/dev/shm")  # where Linux has the files of memory that processes share
COUNTERS = Path("/proc/vmstat")  # of the kernel
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


def shared_bytes_free(folder: Path = SHARED) -> int:
    """What is left of the memory, or of the disk, for files in a folder that processes share."""
    return shutil.disk_usage(folder).free if folder.is_dir() else 0


def shared_words(folder: Path = SHARED) -> str:
    """How much of it there is, in words."""
    if not folder.is_dir():
        return f"there is no {folder}"
    found = shutil.disk_usage(folder)
    return f"{folder} has {found.free / 1e6:.1f} of {found.total / 1e6:.1f} MB free"


def out_of_memory_kills() -> int:
    """How many processes of this host the kernel has killed so far because memory ran out."""
    try:
        text = COUNTERS.read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))
