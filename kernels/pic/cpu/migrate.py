"""Particles that enter a block of PIC and leave it, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import float64, int64, uint8, uint64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import njit
from miniapps.kernels.pic.counters import HERE, LEFT, LOST, MISROUTED, owner_at
from miniapps.kernels.pic.initial import chosen
from miniapps.kernels.pic.interface import Particles

FLOATS, INTEGERS = float64[::1], int64[::1]
PARTICLES = (FLOATS,) * 5 + (INTEGERS,) * 3
MESSAGE = float64[:, ::1]


@njit(void(int64, INTEGERS, INTEGERS, int64, int64, float64, float64, *PARTICLES), cache=True)
def start(
    first, numbers, begin, motion, size, drift, force, x, y, vx, vy, charge, ids, cells, motions
):
    """One pass over the new particles."""
    for n in range(numbers.size):
        at, column, row = first + n, begin[n] // size, begin[n] % size
        x[at], y[at] = column + 0.5, row + 0.5
        vx[at], vy[at] = 0.0, drift
        charge[at] = force if column % 2 == 0 else -force
        ids[at], cells[at], motions[at] = numbers[n], begin[n], motion


@njit(void(MESSAGE, INTEGERS, uint8[::1], int64, *PARTICLES), cache=True)
def _pack(message, leaving, owners, owner, x, y, vx, vy, charge, ids, cells, motions):
    """Copy those of the ``leaving`` particles that go to ``owner`` into a message."""
    bits = message.view(np.int64)
    at = 0
    for n in leaving:
        if owners[n] == owner:
            message[at, 0], message[at, 1], message[at, 2] = x[n], y[n], vx[n]
            message[at, 3], message[at, 4] = vy[n], charge[n]
            bits[at, 5], bits[at, 6], bits[at, 7] = ids[n], cells[n], motions[n]
            at += 1


def pack(
    total: int, leaving: Array, owners: Array, counters: Array, arrays: Particles,
    messages: Mapping[Any, Any],
) -> None:  # fmt: skip
    """Search the leaving particles once per message; rows are in ascending order of places."""
    for edge, message in messages.items():
        _pack(message, leaving[:total], owners, owner_at(edge), *arrays)
    counters[: LEFT + 1] = 0


@njit(int64(MESSAGE, FLOATS, INTEGERS, int64, *PARTICLES), cache=True)
def _unpack(message, frame, gaps, count, x, y, vx, vy, charge, ids, cells, motions):
    """Copy a message into the ``gaps`` and behind ``count``; return its first wrong row, or -1."""
    bits = message.view(np.int64)
    wrong = -1
    for n in range(message.shape[0]):
        at = gaps[n] if n < gaps.size else count + n - gaps.size
        x[at], y[at], vx[at], vy[at] = message[n, 0], message[n, 1], message[n, 2], message[n, 3]
        charge[at] = message[n, 4]
        ids[at], cells[at], motions[at] = bits[n, 5], bits[n, 6], bits[n, 7]
        if not (frame[0] <= x[at] < frame[1] and frame[2] <= y[at] < frame[3]):
            x[at], y[at] = frame[0] + 0.5, frame[2] + 0.5
            wrong = n if wrong < 0 else wrong
    return wrong


def unpack(
    came: Mapping[Any, Any], frame: np.ndarray, gaps: Array, free: int, count: int, owners: Array,
    counters: Array, arrays: Particles, size: float = 0.0, shifts: Array = None,
) -> None:  # fmt: skip
    """Copy message after message; nothing is foreseen."""
    first = 0
    for message in came.values():
        rows = len(message)
        behind = count + max(0, first - free)
        wrong = _unpack(message, frame, gaps[min(first, free) : free], behind, *arrays)
        if wrong >= 0:
            counters[MISROUTED] = min(counters[MISROUTED], first + wrong)
        first += rows


def row_of(message: Any, row: int) -> np.ndarray:
    """Return a view."""
    return message[row]


def resized(array: Array, used: int, room: int) -> Array:
    """Resize the array in place by realloc, so that no second copy is needed."""
    array.resize(room, refcheck=False)
    return array


@njit(void(int64, INTEGERS, *PARTICLES), cache=True)
def _close_gaps(count, gaps, x, y, vx, vy, charge, ids, cells, motions):
    """Move the last of ``count`` particles into the ``gaps``, which are in ascending order."""
    last, final = count - 1, gaps.size - 1
    for n in range(gaps.size):
        while final >= n and gaps[final] == last:
            last -= 1
            final -= 1
        gap = gaps[n]
        if gap >= last:
            return
        x[gap], y[gap], vx[gap], vy[gap], charge[gap] = (
            x[last],
            y[last],
            vx[last],
            vy[last],
            charge[last],
        )
        ids[gap], cells[gap], motions[gap] = ids[last], cells[last], motions[last]
        last -= 1


def close_gaps(
    count: int, gaps: Array, first: int, end: int, owners: Array, counters: Array, spare: Array,
    arrays: Particles,
) -> None:  # fmt: skip
    """Fill gaps in ascending order; ``owners``, ``counters`` and ``spare`` are not used."""
    _close_gaps(count, gaps[first:end], *arrays)


@njit(
    void(int64, FLOATS, FLOATS, INTEGERS, INTEGERS, uint64, uint64, uint8[::1], INTEGERS, INTEGERS),
    cache=True,
)
def find_removed(count, x, y, ids, patch, seed, limit, owners, counters, removed):
    """One pass over the particles; places are listed in ascending order."""
    total = 0
    for n in range(count):
        owners[n] = HERE
        if patch[0] <= x[n] < patch[1] and patch[2] <= y[n] < patch[3]:
            if chosen(ids[n], seed, limit):
                owners[n] = LOST
                removed[total] = n
                total += 1
    counters[LEFT] = total
