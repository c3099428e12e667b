"""The processes of a run on this host, as Linux shows them in /proc, and what they leave behind."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from miniapps.devices import system
from miniapps.drivers.exits import Terminated
from miniapps.workbench import inherited

ENDING = signal.SIGTERM, signal.SIGHUP
STOPPING = signal.SIGUSR1, signal.SIGTERM  # end a run that writes checkpoints after one more
STOPPED_S = 3.0  # a process that is stopped for longer is not only slowed down
SUSPENDED_S = 2.0  # between two checks: this process was suspended, and so, perhaps, the run
SHARED = Path("/dev/shm")  # where MPI libraries keep the memory that ranks share
# Names of their files: MPICH's and Open MPI's. Others may be a user's data, or installed libraries.
SEGMENTS = "mpich_shm_*", "sm_segment.*", "vader_segment.*"
# MPICH starts one on each host, which describes the host in a file that only its end removes.
PROXY, TOPOLOGIES = "hydra_pmi_proxy", Path("/tmp/hydra_hwloc_xmlfile_*")
PROXY_S = 1.0  # for its end
MAPPING_S = 1.0  # between the creation of such a file and its mapping, at most


def process_state(pid: int) -> str:
    """The kernel's state letter of a process; X if it does not exist, R if only that is known."""
    words = system.stat_of(pid)[1]
    return words[0] if words else "R" if exists(pid) else "X"


def exists(pid: int) -> bool:
    """Whether there is a process, be it a zombie, with this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        pass
    return pid > 0


class Stopped:
    """Notices processes that were stopped by SIGSTOP.

    Tools such as cpulimit and gang schedulers stop processes for a moment: that only slows them
    down.
    """

    def __init__(self) -> None:
        self.since: dict[int, float] = {}
        self.checked = 0.0

    def check(self, now: float, pids: Iterable[int]) -> list[int]:
        """Those of some processes, and of all reported before, that stay stopped."""
        if now - self.checked > SUSPENDED_S:
            self.since.clear()
        self.checked = now
        stopped = [pid for pid in {*self.since, *pids} if process_state(pid) == "T"]
        self.since = {pid: self.since.get(pid, now) for pid in stopped}
        return [pid for pid, since in self.since.items() if now - since > STOPPED_S]


def end_with(file: int) -> None:
    """Have the kernel kill this process when the other end of a pipe or socket is closed.

    So it ends even while compiled code keeps Python's lock. ``file`` must be open in this process
    alone: the kernel knows one process for it. Kills it at once if the other end is closed already.
    """
    fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)
    polled = select.poll()
    polled.register(file, 0)  # a hang-up is reported without being asked for
    if polled.poll(0):
        os.kill(os.getpid(), signal.SIGKILL)


def _terminate(number: int, _: object) -> NoReturn:
    raise Terminated(128 + number)


def end_by_signals() -> None:
    """Make SIGTERM and SIGHUP end this process as Ctrl-C does: it cleans up first.

    One that is ignored stays so, as under nohup. Only the main thread can do this; in another
    thread of a user's program nothing changes.
    """
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if not _is_ignored(number):
                signal.signal(number, _terminate)


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) in (signal.SIG_IGN, inherited.ignore)


@contextmanager
def stopped_by_signals(stop: Callable[[], None], stoppable: bool) -> Iterator[None]:
    """Call ``stop`` by the first SIGUSR1 or SIGTERM; by the next one this process ends as usual.

    Do nothing unless ``stoppable``. A signal that is ignored stays so. Other threads than the main
    one cannot do this.
    """
    if not stoppable or threading.current_thread() is not threading.main_thread():
        yield
        return
    caught = [number for number in STOPPING if not _is_ignored(number)]

    def once(*_: object) -> None:
        for number in caught:
            signal.signal(number, _terminate)
        stop()

    with signals_kept(STOPPING):
        for number in caught:
            signal.signal(number, once)
        yield


@contextmanager
def signals_kept(numbers: Iterable[int] = ENDING) -> Iterator[None]:
    """Restore the handlers of signals at the end; usually those that `end_by_signals` changes."""
    kept = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in kept.items():
                signal.signal(number, handler)


def name_of(pid: int) -> str:
    """The name of a process's program; empty if it does not exist."""
    return system.text(f"/proc/{pid}/comm").strip()


def words_of(pid: int) -> list[str]:
    """The command line of a process; empty if it does not exist or has ended."""
    return system.text(f"/proc/{pid}/cmdline").split("\0")[:-1]


def family(pid: int) -> list[int]:
    """A process and all its descendants, parents first; those that have ended are left out."""
    found = [pid]
    for parent in found:
        found += map(int, system.text(f"/proc/{parent}/task/{parent}/children").split())
    return found


def processes_with(name: str, value: str) -> list[int]:
    """The processes of this user whose environment has a variable of this value."""
    wanted = os.fsencode(f"{name}={value}")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def parent_of(pid: int) -> int:
    """The parent of a process; 0 if it does not exist."""
    words = system.stat_of(pid)[1]
    return int(words[1]) if words else 0


def remove_shared_files() -> None:
    """Remove the files of shared memory of this process, which MPI_Abort leaves."""
    remove(shared_files(os.getpid()))


def shared_files(pid: int) -> set[Path]:
    """The files of MPI's shared memory that a process has mapped."""
    lines = system.text(f"/proc/{pid}/maps").splitlines()
    paths = {Path(line.split(None, 5)[5]) for line in lines if f" {SHARED}/" in line}
    segments = (path for path in paths if any(map(path.match, SEGMENTS)))
    return {path for path in segments if path.parent == SHARED and path.exists()}


def orphans(since: float) -> set[Path]:
    """MPI's files of shared memory that no process has mapped: left by ranks that were killed.

    And files of MPICH's proxies that no rank knows. Only those created after ``since``, in seconds
    since the epoch, by this user.
    """
    found = _segments(since) | {*_made(TOPOLOGIES, since)}
    if found:  # a process may use one that it has just created; another may be dying with one
        time.sleep(MAPPING_S)
        mapped = (shared_files(int(one.name)) for one in Path("/proc").glob("[0-9]*"))
        unmapped = _segments(since).difference(*mapped)
        found &= unmapped | {*_made(TOPOLOGIES, since)} - _topologies()
    return found


def _segments(since: float) -> set[Path]:
    """MPI's files of shared memory that this user has created since then."""
    return {file for name in SEGMENTS for file in _made(SHARED / name, since)}


def _topologies() -> set[Path]:
    """The files of MPICH's proxies that ranks know, by a variable of their environment."""
    known = set()
    for one in Path("/proc").glob("[0-9]*"):
        for word in system.text(str(one / "environ")).split("\0"):
            if word.startswith("HWLOC_XMLFILE="):
                known.add(Path(word.partition("=")[2]))
    return known


def remove_orphans(since: float) -> None:
    """Remove the files that `orphans` finds."""
    remove(orphans(since))


def remove(left: Iterable[Path]) -> None:
    """Remove the files that processes have left, where this process may.

    A process that is shut in sees the files of other runs in a /tmp that it cannot write, but not
    the processes that use them.
    """
    for file in left:
        with suppress(OSError):
            file.unlink()


def _made(pattern: Path, since: float) -> Iterator[Path]:
    """The files with such names that this user has created since then."""
    for file in pattern.parent.glob(pattern.name):
        with suppress(OSError):
            status = file.stat()
            if status.st_uid == os.getuid() and status.st_ctime >= since:
                yield file


def end_proxies(pids: Iterable[int]) -> None:
    """Let MPICH's proxies among some processes end their ranks and remove their files."""
    proxies = [pid for pid in pids if name_of(pid) == PROXY]
    for pid in proxies:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)
    end = time.monotonic() + PROXY_S
    while time.monotonic() < end and any(process_state(pid) not in "XZ" for pid in proxies):
        time.sleep(0.01)
