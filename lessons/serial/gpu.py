"""What a simulated GPU notes of a program, and what it does not let a kernel do."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from miniapps.lessons.lesson import Kernels

WARP = 32  # threads that load together
LINE = 128  # bytes that are loaded at once
MOST_THREADS = 128  # of a block
MOST_SHARED = 48 * 1024  # bytes of a block
Place = tuple[int, int, int]  # x, y, z
Cell = tuple[int, int]  # the array's memory, and bytes from its start


class KernelError(Exception):
    """A kernel does what must not be done on a GPU; says what, in words."""


class Access(NamedTuple):
    """Who uses a cell: a block, a thread of it, and how many barriers that thread has passed."""

    block: Place
    thread: Place
    phase: int

    def ordered(self, other: Access) -> bool:
        """Whether it is certain which of two accesses comes first."""
        same_block = self.block == other.block
        return same_block and (self.thread == other.thread or self.phase != other.phase)

    def __str__(self) -> str:
        return f"thread {self.thread[:2]} of block {self.block[:2]}"


Known = dict[Cell, list[Access]]


class Accesses:
    """Who has read and written which cells."""

    def __init__(self) -> None:
        self.readers: Known = {}
        self.writers: Known = {}

    def read(self, cell: Cell, by: Access, name: str) -> None:
        """Note that a cell is read. Raises KernelError if it may be written before or after."""
        self._refuse(self.writers, cell, by, f"reads {name}", "writes it")
        self.readers.setdefault(cell, []).append(by)

    def write(self, cell: Cell, by: Access, name: str, changes: bool) -> None:
        """Note that a cell is written. Raises KernelError if the order of accesses matters.

        ``changes``: whether the cell gets another value than it has.
        """
        self._refuse(self.readers, cell, by, f"writes {name}", "reads it")
        if changes:
            self._refuse(self.writers, cell, by, f"writes {name}", "writes another value")
        self.writers.setdefault(cell, []).append(by)

    @staticmethod
    def _refuse(known: Known, cell: Cell, by: Access, does: str, did: str) -> None:
        """Raise KernelError if another access to the cell is not ordered."""
        for other in known.get(cell, ()):
            if not by.ordered(other):
                raise KernelError(f"a race: {by} {does}, and {other} {did}, in any order")


class Gpu:
    """Notes on one case."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin a new case."""
        self.running: Any = None  # the thread, see `lessons.serial.simulator`
        self.loads = self.stores = 0  # of cells in arrays that are not shared
        self.warp_loads = self.lines = 0
        self.blocks = 0
        self.threads: Place = (0, 0, 0)  # of a block, in the last launch
        self.copied_in = self.copied_out = 0  # arrays copied to the GPU, and back
        self.accesses, self.shared_accesses = Accesses(), Accesses()
        self.touched: dict[tuple[int, int], set[Cell]] = {}  # lines, by warp and number of the load

    def kernels(self) -> Kernels:
        """What kernels did in this case."""
        columns, rows, _ = self.threads
        touched = self.loads, self.stores, self.warp_loads, self.lines
        return Kernels(*touched, self.blocks, rows, columns, self.copied_in, self.copied_out)

    def begin_launch(self, grid: Place, threads: Place) -> None:
        """Note a launch. Raises KernelError if no GPU makes it."""
        if not all(grid) or not all(threads):
            raise KernelError(f"it launches {grid[:2]} blocks of {threads[:2]} threads, so none")
        if math.prod(threads) > MOST_THREADS:
            raise KernelError(f"its blocks have {threads[:2]} threads, more than {MOST_THREADS}")
        self.threads = threads
        self.blocks += math.prod(grid)
        self.accesses = Accesses()

    def begin_block(self) -> None:
        """Note that another block begins."""
        self.shared_accesses = Accesses()
        self.touched = {}

    def load(self, cell: Cell, thread_id: int, number: int) -> None:
        """Note which line a thread's load touches; ``number``: of the thread's loads so far."""
        self.loads += 1
        known = self.touched.setdefault((thread_id // WARP, number), set())
        line = cell[0], cell[1] // LINE
        self.warp_loads += not known
        self.lines += line not in known
        known.add(line)


GPU = Gpu()
