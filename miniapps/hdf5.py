"""Reads HDF5 files that others may have written.

libhdf5 ends the process, or never returns, on about one in 2500 randomly damaged files. So a file
is read in a child process first, within limits of memory and time. If the child survives, the
caller reads the file itself. The time of a core is limited, too: it shows an endless loop sooner,
because slow disks and busy machines do not count.

A file may also take its data from other files of the machine, by links, external storage or virtual
datasets. None of these is followed.
"""

from __future__ import annotations

import faulthandler
import math
import os
import posixpath
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from miniapps.devices import system

DENSEST = 1032  # bytes that a byte can stand for: the limit of deflate, HDF5's usual compression
SPARE_MEMORY = 1 << 28  # bytes, for libraries and for files that hold little
SPARE_S, BYTES_PER_S = 20.0, 5e6  # of the time limit: slow disks and busy machines
SPARE_CORE_S = 2.0  # of the limit of core time, where `BYTES_PER_S` are allowed for, too
OUT_OF_MEMORY = 3  # exit status of the child


class Unreadable(Exception):
    """A file that must not be read; the text says why, in one line."""


def damage(error: Exception) -> str:
    """What is wrong with a file, from the error that reading it raised, in one line.

    The words of h5py and of the project tell it; those that Python has for a value of another type,
    or for a missing attribute, are about a program.
    """
    if isinstance(error, TypeError | AttributeError | IndexError | NameError | AssertionError):
        return "it has another structure"
    what = error.args[0] if isinstance(error, KeyError) and error.args else error
    return " ".join(str(what).split()) or "it has another structure"


def require_readable(path: Path, read: Callable[[], object]) -> None:
    """Call ``read`` in a child process, which reads all that will be needed of a file.

    Raises Unreadable if the child crashes or exceeds its limits: memory `DENSEST` times the size of
    the file, and time in proportion to it. Exceptions of ``read`` are not passed on, because the
    caller's own reading raises them again.
    """
    size = path.stat().st_size
    core_seconds = math.ceil(SPARE_CORE_S + size / BYTES_PER_S)
    child = os.fork()
    if child == 0:
        _read_and_exit(read, SPARE_MEMORY + DENSEST * size, core_seconds)
    seconds = SPARE_S + size / BYTES_PER_S
    status = _waited(child, seconds)
    if status is None:
        raise Unreadable(f"is damaged: reading it takes more than {seconds:.0f} s")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        if name == "SIGXCPU":
            raise Unreadable(f"is damaged: reading it takes more than {core_seconds} s of a core")
        raise Unreadable(f"is damaged: reading it ends the HDF5 library by {name}")
    if os.WEXITSTATUS(status) == OUT_OF_MEMORY:
        raise Unreadable(f"is damaged: reading it needs more than {DENSEST} times its size")


def require_stored(path: Path, *datasets: Any) -> None:
    """Raise Unreadable if a dataset claims more data than a file of this size can hold."""
    most = DENSEST * path.stat().st_size
    for data in datasets:
        if data.nbytes > most:
            raise Unreadable(f"{data.name} claims {data.nbytes} bytes, more than the file can hold")


def require_own_data(file: Any) -> None:
    """Raise Unreadable unless all data that an open file shows lie in itself.

    Soft links may lead to places within the top-level group that they are in. All links and
    datasets are visited, so that nothing is read before.
    """
    waiting, seen = [file["/"]], set[Any]()
    while waiting:
        group = waiting.pop()
        for name in group:
            found = _owned(group, name)
            if found is not None and (address := _address(found)) not in seen:
                seen.add(address)
                waiting.append(found)


def _owned(group: Any, name: str) -> Any:
    """The group that a name of a group stands for, None if it is no group. Raises Unreadable."""
    import h5py

    link, path = group.get(name, getlink=True), posixpath.join(group.name, name)
    if isinstance(link, h5py.SoftLink):
        target = posixpath.join(group.name, link.path)
        inside = target.split("/")[1:2] == path.split("/")[1:2] != [name]
        _refuse(not inside, path, f"is a link to {link.path}")
        return None
    _refuse(not isinstance(link, h5py.HardLink), path, "is a link to another file")
    found = group[name]
    if isinstance(found, h5py.Dataset):
        _refuse(found.external is not None, path, "has its data in another file")
        _refuse(found.is_virtual, path, "is a virtual dataset, of data of other files")
    return found if isinstance(found, h5py.Group) else None


def _refuse(wrong: bool, path: str, why: str) -> None:
    """Raise Unreadable about an object of a file."""
    if wrong:
        raise Unreadable(f"{path} {why}; only data in the file itself are read")


def _address(group: Any) -> Any:
    """Where a group lies in its file, by whichever of its names it was opened."""
    import h5py

    return h5py.h5o.get_info(group.id).addr


def _waited(child: int, seconds: float) -> int | None:
    """The wait status of a child; None if it was killed because it took longer than allowed."""
    in_time = False
    try:
        with system.waited_for(child) as wait:
            in_time = wait(seconds)
    finally:  # an interrupt by the user ends the child, too
        if not in_time:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    return status if in_time else None


def _read_and_exit(read: Callable[[], object], memory: int, core_seconds: int) -> NoReturn:
    """End this process after reading, without a word and without a core file."""
    status = 0
    try:
        faulthandler.disable()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        pages = int((system.text("/proc/self/statm").split() or ["0"])[0])
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, core_seconds)
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
        read()
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:  # also after any other exception, which the caller will see again
        os._exit(status)


def _limit(what: int, most: int) -> None:
    """Limit a resource of this process; a lower limit that it already has, stays."""
    least, hard = resource.getrlimit(what)
    limits = (limit for limit in (least, hard, most) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(what, (min(limits), hard))
