"""What Linux tells in /proc and /sys, any of which may be missing, and the end of a child process.

Containers hide files, or show others in their place, so each reading has a value for *not known*.
"""

from __future__ import annotations

import os
import resource
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path

LONGEST = 2**24  # bytes of a file that are read
AT_ONCE = 2**16  # of them: files of /proc/sys refuse larger reads than 4 MiB
GROUPS = Path("/sys/fs/cgroup")
FEW = {  # limits of this process with which a run may fail if they are lower, and what each says
    resource.RLIMIT_NOFILE: (64, "a process may open {} files here (ulimit -n)"),
    resource.RLIMIT_NPROC: (128, "a user may have {} processes and threads here (ulimit -u)"),
    resource.RLIMIT_AS: (1 << 30, "a process may have {} bytes of addresses here (ulimit -v)"),
}
POLL_S = 0.02  # between two looks at a child where the kernel tells nobody of its end


def text(path: str | Path) -> str:
    """The text of a file, at most `LONGEST` bytes; empty if it cannot be read.

    Bytes that are not UTF-8, such as those of file names, are kept as `os.fsdecode` keeps them.
    """
    try:
        with open(path, "rb") as file:
            parts = islice(iter(partial(file.read, AT_ONCE), b""), LONGEST // AT_ONCE)
            return b"".join(parts).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def stat_of(process: int | str) -> tuple[str, list[str]]:
    """The name of a process, and the words after it in its ``stat``, from the state's letter on.

    Both are empty if it does not exist, or if nothing is told of it.
    """
    name, _, rest = text(f"/proc/{process}/stat").partition("(")[2].rpartition(")")
    return name, rest.split()


def age_s() -> float | None:
    """Seconds since this process was started; None where that cannot be known."""
    words = stat_of("self")[1]
    if len(words) < 20 or not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    started_s = int(words[19]) / os.sysconf("SC_CLK_TCK")
    # Not /proc/uptime: in some containers that is the age of the container.
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    return age if age >= 0.0 else None


# Limits of control groups --------------------------------------------------------------------


def own_groups(controller: str) -> Iterator[Path]:
    """The folders of this process's control groups, of either version, inner ones first."""
    for line in text("/proc/self/cgroup").splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        if names and controller not in names.split(","):
            continue
        for top in (GROUPS / names, GROUPS / controller) if names else (GROUPS,):
            folder = top / path.strip("/")
            yield from (top, *(one for one in (folder, *folder.parents) if top in one.parents))


def cpu_quota() -> float | None:
    """How many cores' time this process may use at most; None if no quota is known."""
    found = []
    for folder in own_groups("cpu"):
        words = text(folder / "cpu.max").split() or [
            text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")
        ]
        if len(words) == 2 and all(map(str.isdigit, words)) and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found, default=None)


def memory_limit() -> int | None:
    """The bytes that this process may use at most; None if no limit is known."""
    files = ("memory.max", "memory.limit_in_bytes")
    words = [text(folder / file).strip() for folder in own_groups("memory") for file in files]
    return min((int(word) for word in words if word.isdigit()), default=None)


def low_limits() -> str:
    """What to add to the reason of a failure: limits that are low here; usually nothing.

    What fails for them seldom names them.
    """
    limits = ((resource.getrlimit(number)[0], *few) for number, few in FEW.items())
    low = ["; " + what.format(limit) for limit, few, what in limits if 0 <= limit < few]
    return "".join(low)


# The end of a child process ------------------------------------------------------------------


def tells_of_ends() -> bool:
    """Whether this Python and the kernel let a process wait for the end of another one."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # another system; a kernel or a container that refuses it
        return False
    return True


@contextmanager
def waited_for(child: int) -> Iterator[Callable[[float], bool]]:
    """Yields a function that waits for some seconds, or until a child process ends if earlier.

    It says whether the child has ended, which is still to be waited for by `os.waitpid`.
    """
    file = None
    with suppress(AttributeError, OSError):
        file = os.pidfd_open(child)
    try:
        yield (lambda seconds: _looked(child, seconds)) if file is None else _polled(file)
    finally:
        if file is not None:
            os.close(file)


def _polled(file: int) -> Callable[[float], bool]:
    polled = select.poll()
    polled.register(file, select.POLLIN)
    return lambda seconds: bool(polled.poll(1000 * seconds))


def _looked(child: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not _has_ended(child):
        left = end - time.monotonic()
        if left <= 0.0:
            return False
        time.sleep(min(left, POLL_S))
    return True


def _has_ended(child: int) -> bool:
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has been waited for already
        return True
