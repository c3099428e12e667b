"""A block's particles: a structure of arrays on the block's device, with room to grow.

There are eight arrays of 8-byte numbers. Only the first ``count`` entries of an array are in use.
Arrays grow and shrink one at a time, so that never needs a second copy of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import sub
from typing import Any

import numpy as np

from miniapps.arrays import arrived
from miniapps.devices.backend import Memory
from miniapps.kernels.pic.counters import COUNTERS, FORESEEN, OWNERS, clean_counters
from miniapps.kernels.pic.interface import PicKernels

FLOATS = ("x", "y", "vx", "vy", "charge")
UNITS = ("cell", "cell", "cell step-1", "cell step-1", "1")  # of these
ORIGINS = ("cells", "motions")  # where particles began, and how they move
INTEGERS = ("ids", *ORIGINS)
NAMES = FLOATS + INTEGERS  # in the order in which kernels take them
ROOM = 16  # arrays are 1/16 larger than needed
SPARE = 1.25  # arrays shrink if they are more than so many times as large as needed
FEWEST = 64  # the least size of an array: no array is empty
Arguments = tuple[Any, ...]  # of a kernel
SORT_AT = 8  # sort when 1/8 of the particles may be out of order


class Particles:
    """The particles of one block; the quantities are those of `kernels.pic.interface`.

    ``arrays``: all eight, in the order in which kernels take them. ``counters``: those of the last
    push, see `kernels.pic.counters`.
    """

    x: Any
    y: Any
    vx: Any
    vy: Any
    charge: Any
    ids: Any
    cells: Any
    motions: Any

    def __init__(self, device: Memory) -> None:
        self.device = device
        self.count = 0
        self.unsorted = 0  # particles that may be out of order
        for name in NAMES:
            setattr(self, name, device.empty((FEWEST,), np.float64 if name in FLOATS else np.int64))
        self._begin_counting()
        self._make_room()

    def __getstate__(self) -> dict[str, Any]:
        """The particles, almost without unused entries: eight arrays."""
        used = slice(max(FEWEST, self.count))
        state = {name: self.device.leaving(getattr(self, name), used) for name in NAMES}
        return state | {
            "device": self.device,
            "count": self.count,
            "unsorted": self.unsorted,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put the arrays back on the device, with room to grow."""
        device = state["device"]
        # Copies own their memory, without which an array cannot grow on the CPU.
        arrays = {name: arrived(device, state[name], np.array) for name in NAMES}
        self.__dict__.update(state | arrays)
        self._begin_counting()
        self._make_room()

    def _begin_counting(self) -> None:
        """Make counters of nothing."""
        self.counters = self.device.to_device(clean_counters())
        self.copy = self.device.host_copy(self.counters)
        self.is_copied = False  # since the last `seen`
        self.foreseen = [0] * OWNERS  # emigrants per owner, in all rounds so far

    def _make_room(self) -> None:
        """Allocate work space for owners, for gaps of emigrants, and for sorting."""
        self.arrays = tuple(getattr(self, name) for name in NAMES)
        room, empty = self.x.shape[0], self.device.empty
        self.owners = empty((room,), np.uint8)
        self.gaps = empty((FEWEST + room // ROOM,), np.int64)
        self.places = empty((room,), np.int32)
        self.spare = empty((room,), np.uint64)

    def on_host(self, name: str) -> np.ndarray:
        """One quantity of all particles, (count,), on the host."""
        return self.device.to_host(getattr(self, name))[: self.count]

    def reserve(self, kernels: PicKernels, count: int) -> None:
        """Make room for ``count`` particles."""
        if count > self.x.shape[0]:
            self._resize(kernels, count)

    def release(self, kernels: PicKernels) -> None:
        """Give memory back where many have left: a front of particles passes through all blocks."""
        if FEWEST + SPARE * self.count < self.x.shape[0]:
            self._resize(kernels, self.count)

    def _resize(self, kernels: PicKernels, count: int) -> None:
        """Have arrays with room for ``count`` particles, and some more."""
        room = max(FEWEST, count + count // ROOM)
        for name in NAMES:
            setattr(self, name, kernels.resized(getattr(self, name), self.count, room))
        self._make_room()

    def look(self) -> np.ndarray:
        """The counters, (COUNTERS,) int64, on the host; waits for the device."""
        return self.device.to_host(self.counters)[:COUNTERS].copy()

    def show(self) -> None:
        """Let the counters be `seen` later as they are after all kernels launched so far."""
        if self.copy is not None:
            show_all([self])

    def seen(self) -> tuple[list[int], list[int]] | None:
        """The counters last shown, and how many emigrants per owner they foresee for this round.

        None if none were shown: always on the CPU, and in the first round on a GPU.
        """
        if self.copy is None or not self.is_copied:
            return None
        counters, self.is_copied = self.copy.get(), False
        before, self.foreseen = self.foreseen, counters[FORESEEN : FORESEEN + OWNERS]
        return counters, list(map(sub, self.foreseen, before))

    def begin(
        self, kernels: PicKernels, numbers: np.ndarray, cells: np.ndarray, motion: int, *how: Any
    ) -> None:
        """Create particles with these ``numbers`` in ``cells``, by the kernel `start`."""
        if not len(numbers):
            return
        first, to_device = self.count, self.device.to_device
        self.reserve(kernels, first + len(numbers))
        self.count += len(numbers)
        kernels.start(first, to_device(numbers), to_device(cells), motion, *how, *self.arrays)

    def set(self, columns: Mapping[str, np.ndarray]) -> None:
        """Have these particles only, given by all eight quantities, (n,) each, on the host."""
        self.count = self.unsorted = count = len(columns["ids"])
        for name in NAMES:
            array = np.empty(max(FEWEST, count), columns[name].dtype)
            array[:count] = columns[name]
            setattr(self, name, self.device.to_device(array))
        self._make_room()

    def drop(self, kernels: PicKernels, gaps: Any, first: int, end: int) -> None:
        """Remove the particles in the array entries ``gaps[first:end]``."""
        if first >= end:
            return
        work = self.owners, self.counters, self.spare
        kernels.close_gaps(self.count, gaps, first, end, *work, self.arrays)
        self.count -= end - first

    def take(
        self, kernels: PicKernels, came: Mapping[Any, Any], left: int, frame: np.ndarray, *how: Any
    ) -> tuple[Arguments | None, Arguments | None]:
        """Make room for received particles; return the arguments of `unpack` and `close_gaps`.

        These put them in the gaps of the ``left`` emigrants, then behind the others, and fill the
        remaining gaps with the last particles; None: there is nothing to do. ``how``: what `unpack`
        foresees by.
        """
        gaps, rows, count = (
            self.gaps,
            sum(message.shape[0] for message in came.values()),
            self.count,
        )
        self.reserve(kernels, count + max(0, rows - left))
        self.count += rows - left
        work, arrays = (self.owners, self.counters), self.arrays
        return (
            (came, frame, gaps, left, count, *work, arrays, *how) if rows else None,
            (count, gaps, rows, left, *work, self.spare, arrays) if rows < left else None,
        )

    def sort(self, kernels: PicKernels, x0: float, columns: int) -> None:
        """Sort the particles by column, if enough of them may be out of order."""
        work = self.to_sort(x0, columns)
        if work is not None:
            kernels.places_by_column(*work[:5])
            kernels.reorder(self.count, *work[4:])

    def to_sort(self, x0: float, columns: int) -> Arguments | None:
        """The arguments of `places_by_column`, and the others of `reorder`, if a sort is due."""
        if SORT_AT * self.unsorted <= self.count:
            return None
        self.unsorted = 0
        starts = self.device.empty((columns + 1,), np.int64)
        return self.count, self.x, x0, starts, self.places, self.spare, self.arrays


def show_all(every: Sequence[Particles]) -> None:
    """Do `Particles.show` for blocks that share a queue, on a device where that is a copy."""
    copies: Any = [mine.copy for mine in every]
    every[0].device.begin_copies(copies)
    for mine in every:
        mine.is_copied = True
