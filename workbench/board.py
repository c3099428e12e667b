"""A board on which every PE of this host chalks up how far it has come, for the launcher to see.

A file of one slot per PE, mapped into memory by all: writing a slot costs well under a microsecond
and no message, so it may be done every round. On other hosts the file does not exist, and their
launcher's own watch must do.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

SLOT = struct.Struct("<qqdq")  # pid, step, time of the last change, phase
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
        self.pes = pes
        if not path.exists():
            path.write_bytes(bytes(SLOT.size * pes))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SLOT.size * pes)
        self.pid = os.getpid()

    def beat(self, pe: int, step: int) -> None:
        """Note that a PE of this process begins a step."""
        SLOT.pack_into(self.memory, SLOT.size * pe, self.pid, step, time.time(), RUNNING)

    def finish(self, pe: int) -> None:
        """Note that a PE has made its last step and now validates and writes."""
        step = self.slot(pe).step
        SLOT.pack_into(self.memory, SLOT.size * pe, self.pid, step, time.time(), FINISHING)

    def slot(self, pe: int) -> Slot:
        """What a PE has written last."""
        return Slot(*SLOT.unpack_from(self.memory, SLOT.size * pe))

    def slots(self) -> list[Slot]:
        """All slots."""
        return [self.slot(pe) for pe in range(self.pes)]


class NoBoard:
    """Where nobody watches."""

    def beat(self, pe: int, step: int) -> None:
        """Do nothing."""

    def finish(self, pe: int) -> None:
        """Do nothing."""
