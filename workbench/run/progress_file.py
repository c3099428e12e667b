"""The progress file: every PE of this host writes its current step for the launching process.

The file has one slot per PE and is mapped into memory by the launching process and all PEs. Writing
a slot takes less than a microsecond and no message, so PEs do it every round. Fields are written
one by one, because the launching process may read at any time and `struct.pack_into` would clear a
slot first. PEs on other hosts have no such file; only mpiexec or charmrun monitors them.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import drivers
from drivers.job import RunError
from miniapps.contract import MessageError, StepError

ERRORS = "errors"  # file beside the progress file, with a line from each PE that failed
SLOT = struct.Struct("=qqdq")  # pid, step, time of the last change, phase
FIELDS = 4
STARTING, RUNNING, FINISHING = range(3)


class Slot(NamedTuple):
    """The contents of one PE's slot."""

    pid: int
    step: int
    changed: float
    phase: int


class ProgressFile:
    """The progress file mapped into memory; a `drivers.job.Watcher`."""

    def __init__(self, path: Path, pes: int) -> None:
        self.path, self.pes = path, pes
        if not path.exists():
            path.write_bytes(bytes(SLOT.size * pes))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SLOT.size * pes)
        self.integers = memoryview(self.memory).cast("q")
        self.reals = memoryview(self.memory).cast("d")
        self.pid = os.getpid()

    def heartbeat(self, pe: int, step: int) -> None:
        """Store that a PE of this process begins a step."""
        self._write(pe, step, RUNNING)

    def finish(self, pe: int) -> None:
        """Store that a PE has made its last step, and now validates and writes output."""
        self._write(pe, self.slot(pe).step, FINISHING)

    def _write(self, pe: int, step: int, phase: int) -> None:
        """Write a slot, the phase last: a reader that sees the phase sees the other fields too."""
        at = FIELDS * pe
        self.integers[at] = self.pid
        self.integers[at + 1] = step
        self.reals[at + 2] = time.time()
        self.integers[at + 3] = phase

    def slot(self, pe: int) -> Slot:
        """The current contents of a PE's slot."""
        return Slot(*SLOT.unpack_from(self.memory, SLOT.size * pe))

    def slots(self) -> list[Slot]:
        """All slots."""
        return [self.slot(pe) for pe in range(self.pes)]

    def fail(self, error: Exception) -> None:
        """Write for the launching process, in one line, why this process failed."""
        mine = [pe for pe, slot in enumerate(self.slots()) if slot.pid == self.pid]
        where = f"PE {mine[0]}, " if mine and self.pes > 1 else ""
        with self.path.with_name(ERRORS).open("a") as file:
            file.write(where + explained(error) + "\n")

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (self.path, self.pes)


def reopened(path: Path, pes: int) -> ProgressFile | NoProgressFile:
    """Map the progress file in another process; `NoProgressFile` on another host."""
    return ProgressFile(path, pes) if path.exists() else NoProgressFile()


class NoProgressFile:
    """The watcher of a process without a progress file."""

    def heartbeat(self, pe: int, step: int) -> None:
        """Do nothing."""

    def finish(self, pe: int) -> None:
        """Do nothing."""

    def fail(self, error: Exception) -> None:
        """Print on stderr why this process failed."""
        if drivers.rank() == 0 or not isinstance(error, RunError):  # all ranks raise RunErrors
            where = f"rank {drivers.rank()}, " if drivers.launchers() else ""
            print(f"miniapps: {where}{explained(error)}", file=sys.stderr)


def explained(error: Exception) -> str:
    """The error that ended a run, in one line; with a traceback on stderr if it is unexpected.

    The line begins with the error's notes: the block and the step in which it was raised.
    """
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError):
        what = f"out of memory: {error}"
    elif isinstance(error, RunError | MessageError | StepError | OSError):
        what = str(error)
    else:
        traceback.print_exception(error)
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    return " ".join(f"{where}{what}".split())
