"""Tables of tasks for kernels that work for many blocks of PIC: a row holds a kernel's arguments.

A row begins with the arrays that all of these kernels may need; the others are behind them. Floats
are stored as their bits, and kernels read them from a view of the table; of a tuple they take a
slice, whose elements are loaded where they are used, as registers are few. A kernel for many blocks
finds the arguments of its block in the table, and calls the function that the kernel for one block
calls.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import inlined, viewer
from miniapps.devices.cuda.memory import address
from miniapps.devices.cuda.tasks import WORDS

ROOM, X, Y, VX, VY, CHARGE, IDS, CELLS, MOTIONS, OWNERS_AT, COUNTERS_AT = range(WORDS, WORDS + 11)
MORE = WORDS + 11  # where the other words begin

floats_at, numbers_at = viewer("float64"), viewer("int64")
words_at, places_at = viewer("uint64"), viewer("int32")
bytes_at, charges_at = viewer("uint8"), viewer("int8")


@inlined
def particles_at(tasks, at):  # type: ignore[no-untyped-def]
    """Return the arrays of a block's particles, for a kernel that needs all of them."""
    room = np.int64(tasks[at, ROOM])
    x = floats_at(np.int64(tasks[at, X]), room)
    y = floats_at(np.int64(tasks[at, Y]), room)
    vx = floats_at(np.int64(tasks[at, VX]), room)
    vy = floats_at(np.int64(tasks[at, VY]), room)
    charge = floats_at(np.int64(tasks[at, CHARGE]), room)
    ids = numbers_at(np.int64(tasks[at, IDS]), room)
    cells = numbers_at(np.int64(tasks[at, CELLS]), room)
    motions = numbers_at(np.int64(tasks[at, MOTIONS]), room)
    return x, y, vx, vy, charge, ids, cells, motions


def bits_of(*values: float) -> list[int]:
    """Return numbers as the integers that have their bits."""
    return np.array(values, np.float64).view(np.int64).tolist()


def first_words(arrays: Iterable[Array | None], owners: Array, counters: Array) -> list[int]:
    """Return the words with which each row begins; ``arrays``: all eight, None: it is not used."""
    places = [0 if array is None else address(array) for array in arrays]
    return [owners.size, *places, address(owners), address(counters)]


def words_of(array: Array | None) -> tuple[int, int]:
    """Return the address and the size of an array."""
    return (0, 0) if array is None else (address(array), array.size)
