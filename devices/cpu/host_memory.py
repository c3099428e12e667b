"""The memory of this host and of this process."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from pathlib import Path

from miniapps.devices import system

SHARED = Path("/dev/shm")  # where Linux has the files of memory that processes share
COUNTERS = Path("/proc/vmstat")  # of the kernel
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # in <malloc.h>


def memory_bytes() -> int:
    """The memory of this machine, or what a container allows if that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    allowed = system.memory_limit()
    return physical if allowed is None else min(physical, allowed)


def peak_bytes() -> int:
    """The largest resident memory of this process so far.

    `resource.getrusage` is used only where Linux does not tell: its maximum includes the process
    that started this one, up to exec.
    """
    lines = system.text("/proc/self/status").splitlines()
    peak = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    kibibytes = int(peak[0]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * kibibytes


def keep_freed() -> None:
    """Keep up to 256 MiB that this process frees for the next messages, if the C library is glibc.

    By default it gives most of it back to the system, and new memory costs a page fault per 4 KiB.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option and not os.environ.keys() & {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}:
        set_option(TRIM_THRESHOLD, 256 << 20)
        set_option(MMAP_THRESHOLD, 32 << 20)  # the most that it allows


def shared_bytes_free(folder: Path = SHARED) -> int:
    """What is left of the memory, or of the disk, for files in a folder that processes share."""
    if not folder.is_dir():
        return 0
    found = shutil.disk_usage(folder)
    return found.free if found.total else memory_bytes()  # of no size: as much as there is


def shared_words(folder: Path = SHARED) -> str:
    """How much of it there is, in words."""
    if not folder.is_dir():
        return f"there is no {folder}"
    found = shutil.disk_usage(folder)
    return f"{folder} has {found.free / 1e6:.1f} of {found.total / 1e6:.1f} MB free"


def out_of_memory_kills() -> int:
    """How many processes of this host the kernel has killed so far because memory ran out."""
    lines = system.text(COUNTERS).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
