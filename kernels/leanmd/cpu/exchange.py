"""LeanMD's atoms and ghosts that go from block to block, on the CPU."""

from __future__ import annotations

from typing import Any

from numba import float64, int64, void

from devices.cpu.compiler import njit
from devices.cpu.vectors import WIDTH
from kernels.leanmd.cpu.arrays import FLOATS, INDICES, NUMBERS, ROW, ROWS, SEEN
from kernels.leanmd.units import (
    FAR,
)


@njit([(int64, ROW, float64, float64, INDICES), (int64, NUMBERS, float64, float64, INDICES)],
      cache=True)  # fmt: skip
def choose(count, values, below, above, which):
    """Number the values that are less than ``below``, then those from ``above`` on, then the rest.

    The numbers go to ``which``, as many as there may be, each group in order. Returns how many
    there are of each.
    """
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
    """One message of `gather`."""
    for row in range(message.shape[0]):
        values, into = rows[row], message[row]
        for n in range(into.size):
            into[n] = values[which[first + n]]
    for n in range(message.shape[1]):
        message[axis, n] += over


def gather(rows: Any, which: Any, sizes: Any, axis: int, over: Any, messages: Any) -> None:
    """Fill two messages (m, size) with the first m ``rows`` of the atoms to send.

    ``which`` holds ``sizes[0]`` numbers of atoms for the first message, then those for the second;
    ``over``, one number for each message, is added along an axis.
    """
    _gather(rows, which, 0, axis, over[0], messages[0])
    _gather(rows, which, sizes[0], axis, over[1], messages[1])


def place(rows: Any, first: int, parts: Any) -> None:
    """Put one or two messages (m, size) down in the first m rows, from column ``first`` on."""
    for part in parts:
        rows[: part.shape[0], first : first + part.shape[1]] = part
        first += part.shape[1]


@njit(void(int64, int64, SEEN, INDICES, ROWS), cache=True)
def arrange(first, count, rows, order, into):
    """Put ``count`` columns of some rows down in the order that ``order[first:]`` gives."""
    for row in range(into.shape[0]):
        values, here = rows[row], into[row]
        for n in range(count):
            here[n] = values[order[first + n]]


@njit(void(ROWS, int64), cache=True)
def end_here(position, total):
    """Put places where no atom is behind the others, far from each other too."""
    for axis in range(3):
        for n in range(WIDTH):
            position[axis, total + n] = FAR * (n + 1)


@njit(int64(int64, SEEN, FLOATS, FLOATS), cache=True)
def first_outside(count, position, low, high):
    """The first atom that is not in [low, high); -1 where there is none."""
    for i in range(count):
        for axis in range(3):
            if position[axis, i] < low[axis] or position[axis, i] >= high[axis]:
                return i
    return -1
