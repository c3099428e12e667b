"""The matrix transpose on the CPU; `kernels.transpose.interface` gives the formulas.

What each kernel must move at least, where arrays are larger than the caches, in bytes an element; a
cache line is read before it is written to, unless it has been read already:

    take  32: a read and written, the message written     turn  32: a and b, read and written
    add   24: the message, b read and written

One flop an element, in `turn` two. In an iteration of p blocks these are 32 + 24 (1 - 1/p) bytes.

A transpose reads along rows and writes along columns. It goes in squares of 64 x 64 elements, which
are copied to a buffer in L1, transposed, and added from there line by line. So memory is read and
written in runs of 512 bytes. A hardware prefetcher begins too late in so short runs; the lines of
the next square are prefetched while those of one are used. A buffer's line has one element more, so
that a column does not meet the same set of the cache again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import float64, uint64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, OPTIONS, njit
from miniapps.devices.cpu.prefetch import prefetch
from miniapps.kernels.transpose.interface import Columns

ROW = float64[::1]
SIDE, PADDED = 64, 65  # of a square, and of a line of the buffer
LINE = np.uint64(8)  # elements of a cache line
FREE = OPTIONS | DISTINCT


@njit(void(ROW, uint64, uint64, uint64, uint64, uint64, ROW), **FREE)
def _read(source, begin, row, rows, wide, more, square):
    """Copy the transpose of some rows, ``row`` apart, to the buffer; add ``more``, 0 or 1, to them.

    Prefetches the rows behind them.
    """
    for j in range(rows):
        at = begin + j * row
        for r in range(np.uint64(0), wide, LINE):
            prefetch(source, at + np.uint64(SIDE) * row + r)
        for r in range(wide):
            square[r * np.uint64(PADDED) + j] = source[at + r]
        if more:
            for r in range(wide):
                source[at + r] += 1.0


@njit(void(ROW, uint64, uint64, ROW, uint64, uint64), **FREE)
def _write(square, rows, wide, b, there, to):
    """Add the buffer to lines of b, which are ``to`` apart; prefetches what is behind."""
    for r in range(wide):
        at = there + r * to
        for j in range(np.uint64(0), rows, LINE):
            prefetch(b, at + np.uint64(SIDE) + j)
        for j in range(rows):
            b[at + j] += square[r * np.uint64(PADDED) + j]


@njit(void(ROW, uint64, uint64, uint64, uint64, uint64, ROW, uint64, uint64), **FREE)
def _add(source, begin, row, rows, wide, more, b, there, to):
    """Add the transpose of an array of rows to b; add ``more``, 0 or 1, to the array itself.

    Row j of ``wide`` numbers begins at ``begin + j row``; number r of it goes to b's
    ``there + r to + j``.
    """
    square, side, zero = np.empty(SIDE * PADDED), np.uint64(SIDE), np.uint64(0)
    for r in range(zero, wide, side):
        some = min(side, wide - r)
        for j in range(zero, rows, side):
            few = min(side, rows - j)
            _read(source, begin + j * row + r, row, few, some, more, square)
            _write(square, few, some, b, there + r * to + j, to)


@njit(void(ROW, uint64, uint64, uint64, ROW), **FREE)
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
