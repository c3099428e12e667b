"""A block's particles: structure of arrays, with room to grow.

Eight quantities of eight bytes each. Only the first ``count`` numbers of an array are particles.
Arrays grow one at a time and where they lie, so that growing needs no second copy of them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FLOATS = ("x", "y", "vx", "vy", "charge")
INTEGERS = ("ids", "cells", "motions")
NAMES = FLOATS + INTEGERS  # in the order in which kernels take them
ROOM = 16  # a sixteenth more than needed
SORT_AT = 8  # sort when an eighth of the particles came to lie out of order


class Particles:
    """The particles of one block; the quantities are those of `kernels.pic_cpu`."""

    x: np.ndarray
    y: np.ndarray
    vx: np.ndarray
    vy: np.ndarray
    charge: np.ndarray
    ids: np.ndarray
    cells: np.ndarray
    motions: np.ndarray

    def __init__(self) -> None:
        self.count = 0
        self.unsorted = 0  # particles that may lie out of order
        for name in NAMES:
            setattr(self, name, np.empty(0, np.float64 if name in FLOATS else np.int64))
        self._make_room()

    def __getstate__(self) -> dict[str, Any]:
        """The particles without the room around them: eight arrays."""
        arrays = {name: getattr(self, name)[: self.count] for name in NAMES}
        return {"count": self.count, "unsorted": self.unsorted} | arrays

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Own the arrays again, with room to grow: an unpickled one is a view of other memory."""
        for name in NAMES:
            state[name] = np.array(state.pop(name))
        self.__dict__.update(state)
        self._make_room()

    def _make_room(self) -> None:
        """Work space for owners, for places that become free in a step, and for sorting."""
        # All eight, in the order in which kernels take them; they stay the same objects.
        self.arrays = tuple(getattr(self, name) for name in NAMES)
        capacity = len(self.x)
        self.owners = np.empty(capacity, np.uint8)
        self.gaps = np.empty(64 + capacity // 16, np.int64)
        self.places = np.empty(capacity, np.int32)
        self.spare = np.empty(capacity, np.uint64)

    def reserve(self, count: int) -> None:
        """Have room for ``count`` particles."""
        if count <= len(self.x):
            return
        for name in NAMES:
            getattr(self, name).resize(count + count // ROOM, refcheck=False)
        self._make_room()

    def drop(self, kernels: Any, gaps: np.ndarray) -> None:
        """Take out the particles at these places, which are in ascending order."""
        kernels.close_gaps(self.count, gaps, *self.arrays)
        self.count -= len(gaps)

    def add(self, kernels: Any, message: np.ndarray, gaps: np.ndarray, frame: np.ndarray) -> int:
        """Put a message into gaps, as far as there are any, and behind the others.

        Returns the first row that is not in this block, or -1.
        """
        more = max(0, len(message) - len(gaps))
        self.reserve(self.count + more)
        wrong = kernels.unpack(message, frame, gaps, self.count, *self.arrays)
        self.count += more
        return wrong

    def sort(self, kernels: Any, x0: float, columns: int) -> None:
        """Put the particles in order of their columns, if enough of them may be out of it."""
        if SORT_AT * self.unsorted <= self.count:
            return
        starts = np.empty(columns + 1, np.int64)
        kernels.places_by_column(self.count, self.x, x0, starts, self.places)
        for array in self.arrays:
            values = array.view(np.uint64)
            kernels.move(self.count, self.places, values, self.spare)
            values[: self.count] = self.spare[: self.count]
        self.unsorted = 0
