"""Starts the ranks of the file driver, and makes and removes the folder of their messages.

``python launch.py -n RANKS [--dir FOLDER] [--cores LIST] -- PROGRAM...`` starts the program once
per rank. If one ends with another status than 0, the others are killed, and that is the status.
With ``--hosts a:2,b:2 --remote-shell PATH`` it starts itself on each host, with ``--part``.

It imports the standard library only, so it starts in 20 ms and runs wherever Python does.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

# Environment variables of a rank: its number, the number of ranks, and the folder of messages.
RANK, RANKS, FOLDER = "MINIAPPS_FILE_RANK", "MINIAPPS_FILE_RANKS", "MINIAPPS_FILE_FOLDER"
LOCAL_RANK = "MINIAPPS_FILE_LOCAL_RANK"  # its number on its host
PREFIX = "miniapps-messages-"  # of the names of such folders
LOCK = "lock"  # file in it: locked as long as the process that owns the folder lives
MEMORY = Path("/dev/shm")
END_S, POLL_S = 5.0, 0.02  # for ranks on other hosts to end after a failure
# Reads a pipe that only the owner has open for writing. When that ends, however it ends, this
# removes the folder; ranks that are still alive may write while it does.
GUARD = """trap "" HUP INT TERM
read -r _
until rm -rf -- "$0" || [ $((n += 1)) = 50 ]; do sleep 0.1; done
"""


def usual_folder() -> Path:
    """The folder for messages on one host: in memory, else that for temporary files."""
    return MEMORY if in_memory() else Path(tempfile.gettempdir())


def in_memory() -> bool:
    """Whether messages can be files in memory."""
    return os.access(MEMORY, os.W_OK | os.X_OK)


@contextmanager
def owned(within: Path, name: str | None = None) -> Iterator[Path]:
    """Make a folder for messages that exists no longer than this context and this process.

    ``name``: the end of its name, which no folder must have; None: chosen.
    """
    made = Path(tempfile.mkdtemp(prefix=".miniapps-", dir=within))
    with (made / LOCK).open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # before others can see the folder by its name
        lock.write(mark(made))
        lock.flush()
        folder = within / f"{PREFIX}{name or made.name.rpartition('-')[2]}"
        made.rename(folder)
        try:
            guard = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:  # too many processes: nobody else removes it
            shutil.rmtree(folder)
            raise
        with guard:  # closes the pipe at its end, and waits
            yield folder


def mark(folder: Path) -> str:
    """What the lock of a folder says that this program has made; no copy of it has this mark."""
    return f"{PREFIX}{folder.lstat().st_ino}"


def remove_stale(within: Path) -> list[Path]:
    """Remove the folders whose owners are dead; returns them.

    That happens only if an owner and its guard are killed together.
    """
    stale = []
    for folder in within.glob(f"{PREFIX}*"):
        with (
            suppress(OSError, ValueError),
            (folder / LOCK).open("r+", encoding="utf-8") as lock,
        ):  # of other users, or just gone
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.read() == mark(folder):
                shutil.rmtree(folder)
                stale.append(folder)
    return stale


def start(rank: int, first: int, asked: argparse.Namespace, folder: Path) -> int:
    """Start a rank, on its core if there is one for each; returns the process.

    ``first``: the first rank of this host.
    """
    local = rank - first
    if asked.cores:
        os.sched_setaffinity(0, {asked.cores[local]})  # which the rank inherits
    own = {RANK: str(rank), RANKS: str(asked.ranks), FOLDER: str(folder), LOCAL_RANK: str(local)}
    return spawned(asked.program, own)


def spawned(command: list[str], own: dict[str, str], pipe: int | None = None) -> int:
    """Start a command with some more variables; returns the process. ``pipe``: what it reads."""
    no_input = os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0
    source = no_input if pipe is None else (os.POSIX_SPAWN_DUP2, pipe, 0)
    return os.posix_spawnp(command[0], command, os.environ | own, file_actions=[source])


def start_on_hosts(asked: argparse.Namespace, folder: Path, pipe: int) -> dict[int, str]:
    """Start this launcher on each host, for the ranks there; returns processes and hosts.

    ``pipe``: its end has them end their ranks.
    """
    found, first = {}, 0
    for word in asked.hosts.split(","):
        host, _, count = word.partition(":")
        script = [sys.executable, "-I", "-S", __file__, "-n", str(asked.ranks)]
        part = ["--part", f"{first}:{first + int(count)}", "--dir", str(folder)]
        words = shlex.join([*script, *part, "--", *asked.program])
        found[spawned([asked.remote_shell, host, words], {}, pipe)] = f"host {host}"
        first += int(count)
    return found


def wait(ranks: dict[int, str]) -> int:
    """Wait until all ranks have ended, or one has failed; returns the exit status.

    ``ranks``: from process to what it is.
    """
    while ranks:
        process, found = os.wait()
        status = os.waitstatus_to_exitcode(found)
        rank = ranks.pop(process, None)  # None: the guard
        if rank is not None and status:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            print(f"{rank}, PID {process} ended with {how}", file=sys.stderr, flush=True)
            return 128 - status if status < 0 else status
    return 0


def launch(asked: argparse.Namespace) -> int:
    """Start all ranks and wait for them; returns the exit status. None of them is left."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else the kernel tells no status of a rank
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: it stays ignored
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    with nullcontext(asked.dir) if asked.part else owned(asked.dir) as folder:
        return launch_on_hosts(asked, folder) if asked.hosts else launch_here(asked, folder)


def launch_here(asked: argparse.Namespace, folder: Path) -> int:
    """Start the ranks of this host; the end of the input ends those of a part of a run."""
    ranks: dict[int, str] = {}
    first, end = asked.part or (0, asked.ranks)
    if asked.part:
        threading.Thread(target=end_with_input, daemon=True).start()
    try:
        for rank in range(first, end):
            ranks[start(rank, first, asked, folder)] = f"rank {rank}"
        return wait(ranks)
    finally:
        kill(ranks)


def launch_on_hosts(asked: argparse.Namespace, folder: Path) -> int:
    """Start the ranks of all hosts; the folder must stay until the last of them has ended.

    Else ranks that find no folder any more would report that, and not what has ended the run.
    """
    hosts: dict[int, str] = {}
    reading, writing = os.pipe()
    try:
        hosts = start_on_hosts(asked, folder, reading)
        return wait(hosts)
    finally:
        os.close(writing)
        end = time.monotonic() + END_S
        while hosts and time.monotonic() < end:
            for process in list(hosts):
                if os.waitpid(process, os.WNOHANG)[0]:
                    del hosts[process]
            time.sleep(POLL_S)
        kill(hosts)


def end_with_input() -> None:
    """End this process, and so its ranks, when nothing has its input open for writing any more."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def kill(processes: Iterable[int]) -> None:
    """Kill processes that may have ended."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def numbers(text: str) -> list[int]:
    """The numbers in a list such as ``0,2``."""
    return [int(word) for word in text.split(",")]


def part(text: str) -> tuple[int, int]:
    """The ranks from one to another, which is not among them, such as ``2:4``."""
    first, _, end = text.partition(":")
    return int(first), int(end)


def main() -> int:
    """Read the command line and start the ranks; returns the exit status."""
    parser = argparse.ArgumentParser(description="Starts ranks that exchange files.")
    parser.add_argument("-n", type=int, dest="ranks", required=True, help="number of ranks")
    parser.add_argument("--dir", type=Path, default=usual_folder(), help="where messages are")
    parser.add_argument("--cores", type=numbers, help="a core for each rank, such as 0,2")
    parser.add_argument("--hosts", help="their ranks, such as a:2,b:2")
    parser.add_argument("--remote-shell", help="what starts a command on a host")
    parser.add_argument("--part", type=part, help="the ranks to start, on one of several hosts")
    parser.add_argument("program", nargs="+", help="what to start, after --")
    asked = parser.parse_args()
    if asked.cores and len(asked.cores) < asked.ranks:
        parser.error(f"argument --cores: has fewer cores than the {asked.ranks} ranks")
    try:
        return launch(asked)
    except OSError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
