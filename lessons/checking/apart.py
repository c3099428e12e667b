"""Runs one submission apart from all others, and ends it if it takes too much.

A process of its own (`inside`) starts the submission's processes. Where the kernel allows it, it is
shut in first (`lessons.checking.sandbox`). This process gives it the tasks through a pipe and reads
what the programs returned from another one; it runs nothing that comes from there.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from miniapps.devices import system
from miniapps.lessons.checking import running, sandbox
from miniapps.lessons.checking.running import End, Ended, Returned, Task
from miniapps.workbench.errors import explained
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.run.processes import family, process_state, remove_orphans
from miniapps.workbench.run.scratch import scratch_folder

LOOK_S = 0.05
ENDING_S = 10.0  # for the kernel to end all processes of a namespace
MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may take. Times in seconds, sizes in bytes.

    ``cpu_s``, ``memory`` and ``file_size`` hold for each of its processes, the rest for all.
    """

    wall_s: float = 120.0
    cpu_s: int = 60
    memory: int = 1024 * MIB
    all_memory: int = 3072 * MIB
    processes: int = 100
    folder: int = 256 * MIB  # the folder that it may write to
    file_size: int = 64 * MIB
    answer: int = 128 * MIB  # what its processes return


class Order(NamedTuple):
    """What the process inside is told."""

    tasks: tuple[Task, ...]
    program: bytes
    scratch: Path
    limits: Limits
    shut_in: bool
    hidden: tuple[Path, ...]


@dataclass(frozen=True)
class Apart:
    """How submissions are run.

    ``hidden``: folders that they must not see; ``shut_in``: whether the kernel shuts them in.
    """

    hidden: tuple[Path, ...]
    shut_in: bool
    limits: Limits = Limits()

    def run(self, tasks: Sequence[Task]) -> list[End]:
        """Run tasks of one program, as `running.run`, which stops where a limit is reached."""
        with scratch_folder("miniapps-mark-") as folder:
            program = tasks[0].program
            scratch = folder.resolve()
            inner = tuple(task._replace(program=scratch / program.name) for task in tasks)
            order = Order(
                inner, program.read_bytes(), scratch, self.limits, self.shut_in, self.hidden
            )
            lines, trouble = exchange(order)
        ends: list[End] = []
        with suppress(ValueError, TypeError, KeyError, AttributeError, MemoryError, OverflowError):
            for line in lines:
                ends += [decoded(part) for part in json.loads(line)]
        left = len(tasks) - len(ends)
        if left > 0 and not any(isinstance(end, Ended) for end in ends):
            ended = Ended(trouble or "it ended the process that ran it")
            ends.append(ended)
        return [*ends, *[None] * left][: len(tasks)]


def exchange(order: Order) -> tuple[list[bytes], str]:
    """Start the process inside and watch it; returns its lines, and the limit that it reached."""
    command = [*running.PROCESS, "inside"]
    before, since = set(family(os.getpid())), time.time()
    environment = os.environ | {"TMPDIR": str(order.scratch), "HOME": str(order.scratch)}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as process:
        reader = Reader(process, order.limits.answer)
        writer = threading.Thread(target=_write, args=(process, pickle.dumps(order)), daemon=True)
        reader.start()
        writer.start()
        try:
            trouble = watched(process, reader, order.limits, order.scratch)
        finally:
            end(process)
            end_all(os.getpid(), spared=before)
            if not order.shut_in:
                remove_orphans(since)
        reader.join()
    return reader.lines, trouble


class Reader(threading.Thread):
    """Reads lines from a process, up to a number of bytes."""

    def __init__(self, process: subprocess.Popen[bytes], most: int) -> None:
        super().__init__(daemon=True)
        assert process.stdout is not None
        self.file, self.left, self.lines = process.stdout, most, list[bytes]()

    def run(self) -> None:
        """Read until the end, or until there is too much; then the last line is left out."""
        with suppress(ValueError, OSError):
            while line := self.file.readline(self.left + 1):
                self.left -= len(line)
                if self.left < 0:
                    return
                if line.endswith(b"\n"):
                    self.lines.append(line)


def _write(process: subprocess.Popen[bytes], order: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError), process.stdin:
        process.stdin.write(order)


def watched(process: subprocess.Popen[bytes], reader: Reader, limits: Limits, scratch: Path) -> str:
    """Wait for a process to end; returns the limit that it reached first, in words, if any."""
    end = time.monotonic() + limits.wall_s
    while process.poll() is None:
        pids = family(process.pid)
        if len(pids) > limits.processes:
            return f"it started more than {limits.processes} processes"
        if memory_of(pids) > limits.all_memory:
            return f"it took more than {limits.all_memory // MIB} MiB of memory"
        if written(scratch) > limits.folder:
            return f"it wrote more than {limits.folder // MIB} MiB"
        if reader.left < 0:
            return f"it returned more than {limits.answer // MIB} MiB"
        if time.monotonic() > end:
            return f"it was not ready after {limits.wall_s:g} s"
        time.sleep(LOOK_S)
    return ""


def memory_of(pids: Sequence[int]) -> int:
    """The memory of processes in bytes; what they share is counted once."""
    own, shared = 0, 0
    for pid in pids:
        lines = system.text(f"/proc/{pid}/status").splitlines()
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        own += int(found.get("RssAnon", "0").split()[0])
        shared = max(shared, int(found.get("RssShmem", "0").split()[0]))
    return (own + shared) * 1024


def written(folder: Path) -> int:
    """The bytes of a folder's files; those of a process that is shut in are not seen here."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process inside and all that it has started.

    The process that is stopped first cannot start others, nor answer as if all had ended well. In a
    namespace of processes, the kernel ends all with the first one, and only then that one itself.
    """
    _send(signal.SIGSTOP, [process.pid])
    first = family(process.pid)[1:2]
    _send(signal.SIGKILL, first)
    end_all(process.pid)
    _wait(first)
    process.kill()
    process.wait()


def end_all(pid: int, spared: Set[int] = frozenset()) -> None:
    """End all processes that a process has started, also if they go on starting others.

    They are stopped before they are killed, until no new ones appear. While processes end, the
    kernel may leave others out of its lists, so it looks again. ``spared``: not these.
    """
    ended: set[int] = set()
    while found := _stopped(pid, spared | ended):
        _send(signal.SIGKILL, found)
        _wait(found)
        for child in found:
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        ended |= found


def _stopped(pid: int, spared: Set[int]) -> set[int]:
    """Stop all processes that a process has started, but these, until no new ones appear."""
    known: set[int] = set()
    while new := set(family(pid)[1:]) - known - spared:
        _send(signal.SIGSTOP, new)
        known |= new
    return known


def _wait(pids: Iterable[int]) -> None:
    """Wait until processes have ended."""
    deadline = time.monotonic() + ENDING_S
    while any(process_state(pid) not in "XZ" for pid in pids) and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def inside() -> int:
    """What the process inside does: runs the tasks, and prints a line for each launch."""
    order: Order = pickle.loads(sys.stdin.buffer.read())
    if order.shut_in:
        limits = order.limits
        sandbox.enter(order.scratch, limits.folder, order.hidden, limits.processes)
    else:
        sandbox.adopt()
    sandbox.limit(order.limits.cpu_s, order.limits.memory, order.limits.file_size)
    os.chdir(order.scratch)
    if order.tasks:
        order.tasks[0].program.write_bytes(order.program)
    try:
        for together in running.launches(order.tasks):
            print(json.dumps([coded(end) for end in running.run(together)]), flush=True)
    except (OSError, MemoryError) as error:
        print(json.dumps([{"ended": f"it left no room for results: {explained(error)}"}]))
    return VALID


def obstacle(hidden: tuple[Path, ...]) -> str:
    """Why submissions cannot be shut in here; empty if they can."""
    with scratch_folder("miniapps-mark-") as folder:
        order = Order((), b"", folder.resolve(), Limits(), True, hidden)
        done = subprocess.run(
            [*running.PROCESS, "inside"],
            input=pickle.dumps(order),
            capture_output=True,
            check=False,
        )
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"the process ended with status {done.returncode}"


def coded(end: End) -> Any:
    """The end of a task, for JSON."""
    if end is None or isinstance(end, str):
        return end
    return {
        "kinds": end.kinds,
        "values": [None if value is None else _coded(value) for value in end.values],
        "traffic": [traffic._asdict() for traffic in end.traffic],
    }


def _coded(value: np.ndarray) -> list[Any]:
    return [value.dtype.str, value.shape, base64.b64encode(value.tobytes()).decode()]


def decoded(part: Any) -> End:
    """The end of a task, from what `coded` made; raises some error if that is damaged."""
    if part is None or isinstance(part, str):
        return part
    if "ended" in part:
        return Ended(part["ended"])
    values = tuple(None if value is None else _decoded(*value) for value in part["values"])
    traffic = tuple(running.traffic_of(answer) for answer in part["traffic"])
    if not len(part["kinds"]) == len(values) == len(traffic):
        raise ValueError("not as many of each")
    return Returned(tuple(map(str, part["kinds"])), values, traffic)


def _decoded(kind: str, shape: list[int], data: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(data), np.dtype(kind)).reshape(shape)
