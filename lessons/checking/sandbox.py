"""Shuts this process in, by Linux's namespaces: no network, and nothing to read or write of others.

Only Linux has these, and not every system lets ordinary users make them; containers often do not.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
# Of <sched.h>: mounts, host name, shared memory, users, processes, network.
NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
NO_SUID, NO_DEVICES, NO_PROGRAMS, BIND, PRIVATE = 2, 4, 8, 0x1000, 0x40000 | 0x4000
SET_ATTRIBUTES, HERE, ALL_BELOW, READ_ONLY = 442, -100, 0x8000, 1  # mount_setattr(2)
INTERFACE_UP = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # with SIOCSIFFLAGS
SET_FLAGS = 0x8914
END_WITH_PARENT, ADOPT, NO_NEW_RIGHTS = 1, 36, 38  # prctl(2)
CAPABILITIES = struct.pack("Ii", 0x20080522, 0), bytes(24)  # capset(2): none
USER = 1000  # this user, as processes inside see it; not 0, so that a new program gets no rights
SHARED = Path("/dev/shm")
RELEASE = tuple(int(part) for part in os.uname().release.split(".")[:2])  # of the kernel
COUNTS_INSIDE, NUMBERS_INSIDE = (5, 14), (6, 14)  # releases; see `_limit_processes`
LEAST_NUMBERS = 400  # the kernel refuses less; it does not reuse the numbers below 300


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError if it fails."""
    if getattr(LIBC, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def limit(cpu_s: int, memory: int, file_size: int) -> None:
    """Limit each process: seconds of CPU time, bytes of its own memory, bytes of a file.

    What processes share, as MPI's libraries do, is not counted as memory.
    """
    os.nice(19)  # whoever watches these processes must get a core, however many there are
    for number, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(number, (most, most))


def enter(scratch: Path, size: int, hidden: Sequence[Path], processes: int) -> None:
    """Go on in a process that is shut in; the present one ends with it. Raises OSError.

    ``scratch``: the only folder that can be written to, beside /dev/shm; both are new, empty, in
    memory, and hold ``size`` bytes each. ``hidden``: folders that look empty. ``processes``: how
    many there may be; some kernels allow more, see `_limit_processes`. When the first process
    inside ends, the kernel ends all others.
    """
    user, group = os.getuid(), os.getgid()
    call("unshare", NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
    Path("/proc/self/uid_map").write_text(f"{USER} {user} 1", encoding="utf-8")
    Path("/proc/self/gid_map").write_text(f"{USER} {group} 1", encoding="utf-8")
    call("prctl", END_WITH_PARENT, signal.SIGKILL)
    inside = os.fork()
    if inside:
        _wait(inside)
    call("prctl", END_WITH_PARENT, signal.SIGKILL)
    _furnish(scratch, size, hidden)
    _limit_processes(processes)
    call("prctl", NO_NEW_RIGHTS, 1, 0, 0, 0)
    call("capset", *CAPABILITIES)


def _limit_processes(most: int) -> None:
    """Have the kernel refuse to start more processes, as far as it can.

    An ordinary user's processes are counted for each namespace since Linux 5.14; before, the limit
    would count all processes of the user. Those of root are never counted, but since Linux 6.14 a
    namespace has a largest process number of its own; before, this would change the machine's.
    """
    if RELEASE >= COUNTS_INSIDE:
        resource.setrlimit(resource.RLIMIT_NPROC, (2 * most, 2 * most))
    if RELEASE >= NUMBERS_INSIDE:
        with suppress(OSError):
            Path("/proc/sys/kernel/pid_max").write_text(
                str(max(2 * most, LEAST_NUMBERS)), encoding="utf-8"
            )


def adopt() -> None:
    """Become the parent of processes whose own has ended, so that they are found and ended."""
    call("prctl", ADOPT, 1)
    call("prctl", END_WITH_PARENT, signal.SIGKILL)


def _wait(inside: int) -> None:
    """End as the process inside does."""
    _, status = os.waitpid(inside, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _furnish(scratch: Path, size: int, hidden: Sequence[Path]) -> None:
    """Make the namespaces usable: a loopback, what can be seen, and what can be written to."""
    socket.sethostname("localhost")  # launchers look up the host's name, and find the loopback
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, INTERFACE_UP)
    _mount(None, Path("/"), None, PRIVATE)
    attributes = struct.pack("QQQQ", READ_ONLY, 0, 0, 0)
    call("syscall", SET_ATTRIBUTES, HERE, b"/", ALL_BELOW, attributes, len(attributes))
    _mount("proc", Path("/proc"), "proc", NO_SUID | NO_DEVICES | NO_PROGRAMS)
    for folder in hidden:
        _mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, "size=4096,mode=500")
    for folder in (scratch, SHARED):
        _mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, f"size={size},mode=700")


def _mount(source: str | None, target: Path, kind: str | None, flags: int, data: str = "") -> None:
    """As mount(2)."""
    of = [None if text is None else os.fsencode(text) for text in (source, str(target), kind)]
    call("mount", *of, flags, data.encode())


def needs(folder: Path) -> str:
    """What a folder contains that processes inside need; empty if nothing."""
    needed = {
        "this program": Path(__file__).resolve(),
        "the Python that runs it": Path(sys.prefix).resolve(),
        "the folder of temporary files": Path(tempfile.gettempdir()).resolve(),
    }
    return next((name for name, path in needed.items() if folder in (path, *path.parents)), "")
