"""The matrix transpose on the CPU; `kernels.transpose.interface` gives the formulas.

What each kernel must move at least, where arrays are larger than the caches, in bytes an element; a
cache line is read before it is written to, unless it has been read already:

    take  32: a read and written, the message written     turn  32: a and b, read and written
    add   24: the message, b read and written

One flop an element, in `turn` two. In an iteration of p blocks these are 32 + 24 (1 - 1/p) bytes.

A transpose reads along rows and writes along columns, so it goes in squares of 8 x 8 elements, each
row of which is a cache line. A square is turned in registers: three times, the eight lines exchange
groups of lanes by pairs. So each line is used whole when it has come, and nothing must stay in a
cache, whatever the strides are. Squares follow each other along lines of ``b``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import float64, uint64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.devices.cpu.vectors import (
    broadcast_line,
    even_1,
    even_2,
    even_4,
    line,
    odd_1,
    odd_2,
    odd_4,
    store,
)
from miniapps.kernels.transpose.interface import Columns

ROW = float64[::1]
SIDE = np.uint64(8)  # of a square
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(forceinline=True, **OPTIONS)
def _turned(a, b, c, d, e, f, g, h):
    """Turn a square, given and returned as its eight lines."""
    a, b, c, d = even_1(a, b), odd_1(a, b), even_1(c, d), odd_1(c, d)
    e, f, g, h = even_1(e, f), odd_1(e, f), even_1(g, h), odd_1(g, h)
    a, b, c, d = even_2(a, c), even_2(b, d), odd_2(a, c), odd_2(b, d)
    e, f, g, h = even_2(e, g), even_2(f, h), odd_2(e, g), odd_2(f, h)
    return (
        even_4(a, e), even_4(b, f), even_4(c, g), even_4(d, h),
        odd_4(a, e), odd_4(b, f), odd_4(c, g), odd_4(d, h),
    )  # fmt: skip


@njit(forceinline=True, **OPTIONS)
def _line(source, at, more):
    """Load a line; add 1 to it in memory if ``more``."""
    found = line(source, at)
    if more:
        store(source, at, found + broadcast_line(1.0))
    return found


@njit(forceinline=True, **OPTIONS)
def _square(source, at, row, more, b, there, to):
    """Add the transpose of a square of the source to one of b, whose lines are ``to`` apart."""
    two, four = row + row, row + row + row + row
    lines = _turned(
        _line(source, at, more), _line(source, at + row, more),
        _line(source, at + two, more), _line(source, at + two + row, more),
        _line(source, at + four, more), _line(source, at + four + row, more),
        _line(source, at + four + two, more), _line(source, at + four + two + row, more),
    )  # fmt: skip
    two, four = to + to, to + to + to + to
    store(b, there, line(b, there) + lines[0])
    store(b, there + to, line(b, there + to) + lines[1])
    store(b, there + two, line(b, there + two) + lines[2])
    store(b, there + two + to, line(b, there + two + to) + lines[3])
    store(b, there + four, line(b, there + four) + lines[4])
    store(b, there + four + to, line(b, there + four + to) + lines[5])
    store(b, there + four + two, line(b, there + four + two) + lines[6])
    store(b, there + four + two + to, line(b, there + four + two + to) + lines[7])


@njit(void(ROW, uint64, uint64, uint64, uint64, uint64, ROW, uint64, uint64), **OPTIONS)
def _add(source, begin, row, rows, wide, more, b, there, to):
    """Add the transpose of an array of rows to b; add ``more``, 0 or 1, to the array itself.

    Row j of ``wide`` numbers begins at ``begin + j row``; number r of it goes to b's
    ``there + r to + j``.
    """
    zero, one = np.uint64(0), np.uint64(1)
    whole_rows, whole = rows // SIDE * SIDE, wide // SIDE * SIDE
    for r in range(zero, whole, SIDE):
        for j in range(zero, whole_rows, SIDE):
            _square(source, begin + j * row + r, row, more, b, there + r * to + j, to)
    for j in range(zero, rows, one):
        for r in range(whole if j < whole_rows else zero, wide, one):
            at = begin + j * row + r
            b[there + r * to + j] += source[at]
            source[at] += np.float64(more)


@njit(void(ROW, uint64, uint64, uint64, ROW), **OPTIONS, **DISTINCT)
def _take(a, begin, row, wide, message):
    """Copy some columns' rows to a message, one column after the other, and add 1 to them."""
    at, n = begin, np.uint64(0)
    while n < message.size:
        for k in range(wide):
            message[n + k] = a[at + k]
            a[at + k] += 1.0
        at += row
        n += wide


def take(a: Array, columns: Columns, messages: Mapping[Any, Array]) -> None:
    """Copy message after message."""
    for edge, (low, high) in columns.items():
        _take(a.reshape(-1), low, a.shape[1], high - low, messages[edge].reshape(-1))


def turn(a: Array, b: Array, low: int) -> None:
    """Go in squares through the block's own rows."""
    columns, row = a.shape
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    _add(flat_a, low, row, columns, columns, 1, flat_b, low, row)


def add(b: Array, columns: Columns, came: Mapping[Any, Array]) -> None:
    """Go in squares through each message."""
    own, row = b.shape
    for edge, (low, high) in columns.items():
        _add(came[edge].reshape(-1), 0, own, high - low, own, 0, b.reshape(-1), low, row)
