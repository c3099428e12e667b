"""The matrix transpose on the GPU, with the bits of the CPU; see `kernels.transpose.interface`.

A thread block of 32 x 8 threads turns a square of 32 x 32 elements in shared memory: each warp
reads rows of the source, and writes rows of its transpose, whole cache lines both. A row in shared
memory has one element more, so that those of a column lie in different banks.

Cost from memory, in bytes an element: `take` 24, `add` 24, `turn` 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import blocks, cuda, kernel
from miniapps.devices.cuda.memory import flat
from miniapps.kernels.transpose.interface import Columns

SIDE, HIGH = 32, 8  # of a square; rows of threads
ROW = SIDE + 1  # of a square in shared memory
SQUARE = SIDE * ROW
VECTOR = "float64[::1]"


@kernel(f"void({VECTOR}, uint64, uint64, uint64, uint64, {VECTOR}, uint64)")
def _take(a, begin, row, high, wide, message, start):  # type: ignore[no-untyped-def]
    """Copy ``wide`` numbers of each of ``high`` columns to a message, and add 1 to them."""
    r = np.uint64(cuda.blockIdx.x) * np.uint64(SIDE) + np.uint64(cuda.threadIdx.x)
    j = np.uint64(cuda.blockIdx.y) * np.uint64(HIGH) + np.uint64(cuda.threadIdx.y)
    if r < wide and j < high:
        at = begin + j * row + r
        message[start + j * wide + r] = a[at]
        a[at] = a[at] + 1.0


@kernel(
    f"void({VECTOR}, uint64, uint64, uint64, uint64, uint64, {VECTOR}, {VECTOR}, uint64, uint64)"
)
def _add(source, begin, row, high, wide, more, own, b, there, to):  # type: ignore[no-untyped-def]
    """Add the transpose of ``high`` rows of ``wide`` numbers to b; ``more``: add 1 to them, too.

    Then the source is ``own``: so it is visible that messages, which others may read, are not
    written.
    """
    square = cuda.shared.array(SQUARE, "float64")
    x, y = np.uint64(cuda.threadIdx.x), np.uint64(cuda.threadIdx.y)
    side, step = np.uint64(SIDE), np.uint64(HIGH)
    first_r, first_j = np.uint64(cuda.blockIdx.x) * side, np.uint64(cuda.blockIdx.y) * side
    n = y
    while n < side:
        r, j = first_r + x, first_j + n
        if r < wide and j < high:
            at = begin + j * row + r
            square[n * np.uint64(ROW) + x] = source[at]
            if more > np.uint64(0):
                own[at] = source[at] + 1.0
        n += step
    cuda.syncthreads()
    n = y
    while n < side:
        r, j = first_r + n, first_j + x
        if r < wide and j < high:
            at = there + r * to + j
            b[at] = b[at] + square[x * np.uint64(ROW) + n]
        n += step


def take(a: Array, columns: Columns, messages: Mapping[Any, Array]) -> None:
    """Launch one thread for each element of each message."""
    high, row = a.shape
    buffer: Any = messages
    memory, starts = buffer.memory if columns else (None, {})
    for edge, (low, end) in columns.items():
        grid = blocks(end - low, SIDE), blocks(high, HIGH)
        _take[grid, (SIDE, HIGH), a.stream](
            flat(a), low, row, high, end - low, memory, starts[edge]
        )


def turn(a: Array, b: Array, low: int) -> None:
    """Launch for the block's own rows."""
    high, row = a.shape
    _add_square(flat(a), low, row, high, high, 1, b, low)


def add(b: Array, columns: Columns, came: Mapping[Any, Array]) -> None:
    """Launch for each message."""
    own, _ = b.shape
    for edge, (low, end) in columns.items():
        message, start = came[edge].memory
        _add_square(message, start, own, end - low, own, 0, b, low)


def _add_square(
    source: Any, begin: int, row: int, high: int, wide: int, more: int, b: Array, there: int
) -> None:
    """Launch one thread block for each square of the source."""
    grid = blocks(wide, SIDE), blocks(high, SIDE)
    where = grid, (SIDE, HIGH), b.stream
    own = source if more else flat(b)
    _add[where](source, begin, row, high, wide, more, own, flat(b), there, b.shape[1])
