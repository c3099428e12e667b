"""A board on which every PE of this host chalks up how far it has come, for the launcher to see.

A file of one slot per PE, mapped into memory by all: writing a slot costs well under a microsecond
and no message, so it may be done every round. Each field is written in one go, for the launcher
reads at any time (`struct.pack_into` clears a slot first). On other hosts the file does not exist,
and their launcher's own watch must do.
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

ERRORS = "errors"  # file beside the board, with a line from each PE that failed
SLOT = struct.Struct("=qqdq")  # pid, step, time of the last change, phase
FIELDS = 4
STARTING, RUNNING, FINISHING = range(3)


class Slot(NamedTuple):
    """What one PE has written."""

    pid: int
    step: int
    changed: float
    phase: int


class Board:
    """The mapped file; a `drivers.job.Watcher`."""

    def __init__(self, path: Path, pes: int) -> None:
        self.path, self.pes = path, pes
        if not path.exists():
            path.write_bytes(bytes(SLOT.size * pes))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SLOT.size * pes)
        self.integers = memoryview(self.memory).cast("q")
        self.reals = memoryview(self.memory).cast("d")
        self.pid = os.getpid()

    def beat(self, pe: int, step: int) -> None:
        """Note that a PE of this process begins a step."""
        self._write(pe, step, RUNNING)

    def finish(self, pe: int) -> None:
        """Note that a PE has made its last step and now validates and writes."""
        self._write(pe, self.slot(pe).step, FINISHING)

    def _write(self, pe: int, step: int, phase: int) -> None:
        """Fill in a slot, the phase last: who reads it finds the rest."""
        at = FIELDS * pe
        self.integers[at] = self.pid
        self.integers[at + 1] = step
        self.reals[at + 2] = time.time()
        self.integers[at + 3] = phase

    def slot(self, pe: int) -> Slot:
        """What a PE has written last."""
        return Slot(*SLOT.unpack_from(self.memory, SLOT.size * pe))

    def slots(self) -> list[Slot]:
        """All slots."""
        return [self.slot(pe) for pe in range(self.pes)]

    def fail(self, error: Exception) -> None:
        """Leave a line on why this process cannot go on, for the launcher to find."""
        with self.path.with_name(ERRORS).open("a") as file:
            file.write(explained(error) + "\n")

    def __reduce__(self) -> tuple[Any, ...]:
        return rejoined, (self.path, self.pes)


def rejoined(path: Path, pes: int) -> Board | NoBoard:
    """The board as another process sees it; on another host there is none."""
    return Board(path, pes) if path.exists() else NoBoard()


class NoBoard:
    """Where nobody watches."""

    def beat(self, pe: int, step: int) -> None:
        """Do nothing."""

    def finish(self, pe: int) -> None:
        """Do nothing."""

    def fail(self, error: Exception) -> None:
        """Say on stderr why this process cannot go on."""
        if drivers.rank() == 0 or not isinstance(error, RunError):  # RunErrors: on all alike
            print(f"miniapps: {explained(error)}", file=sys.stderr)


def explained(error: Exception) -> str:
    """What ended a run, in one line; for what nobody foresaw, a traceback on stderr too."""
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    if isinstance(error, RunError | MessageError | StepError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"
