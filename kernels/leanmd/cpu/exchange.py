"""LeanMD's atoms and ghosts that go from block to block, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import float64, int64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import njit
from miniapps.devices.cpu.vectors import WIDTH
from miniapps.kernels.leanmd.cpu.arrays import FLOATS, INDICES, NUMBERS, ROW, ROWS, SEEN
from miniapps.kernels.leanmd.units import FAR


@njit([(int64, ROW, float64, float64, INDICES), (int64, NUMBERS, float64, float64, INDICES)],
      cache=True)  # fmt: skip
def choose(count, values, below, above, which):
    """Count the groups, then number the values in a second pass."""
    low = high = rest = 0
    for n in range(count):
        low += values[n] < below
        high += values[n] >= above
    a, b, c = 0, low, low + high
    for n in range(count):
        under, over = values[n] < below, values[n] >= above
        if under:
            which[a] = n
            a += 1
        if over:
            which[b] = n
            b += 1
        if not (under or over):
            which[c + rest] = n
            rest += 1
    return low, high, rest


@njit(void(SEEN, INDICES, int64, int64, float64, ROWS), cache=True)
def _gather(rows, which, first, axis, over, message):
    """Fill one message of `gather`."""
    for row in range(message.shape[0]):
        values, into = rows[row], message[row]
        for n in range(into.size):
            into[n] = values[which[first + n]]
    for n in range(message.shape[1]):
        message[axis, n] += over


def gather(
    rows: Array, which: Array, sizes: Sequence[int], axis: int, over: Sequence[float],
    messages: Sequence[Any],
) -> None:  # fmt: skip
    """Fill message after message."""
    _gather(rows, which, 0, axis, over[0], messages[0])
    _gather(rows, which, sizes[0], axis, over[1], messages[1])


def place(rows: Array, first: int, parts: Sequence[Any]) -> None:
    """Copy part after part."""
    for part in parts:
        rows[: part.shape[0], first : first + part.shape[1]] = part
        first += part.shape[1]


@njit(void(int64, int64, SEEN, INDICES, ROWS), cache=True)
def arrange(first, count, rows, order, into):
    """Copy row after row."""
    for row in range(into.shape[0]):
        values, here = rows[row], into[row]
        for n in range(count):
            here[n] = values[order[first + n]]


@njit(void(ROWS, int64), cache=True)
def end_here(position, total):
    """Write `WIDTH` columns."""
    for axis in range(3):
        for n in range(WIDTH):
            position[axis, total + n] = FAR * (n + 1)


@njit(int64(int64, SEEN, FLOATS, FLOATS), cache=True)
def first_outside(count, position, low, high):
    """One pass over the atoms, up to the first one outside."""
    for i in range(count):
        for axis in range(3):
            if position[axis, i] < low[axis] or position[axis, i] >= high[axis]:
                return i
    return -1
