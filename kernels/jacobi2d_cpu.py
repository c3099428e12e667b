"""Jacobi2D on the CPU: one sweep, a sweep with its residual, and several sweeps at once.

The formula, a five-point Jacobi relaxation for the Laplace equation, is that of Fink et al.
(2021), ESPM2, section III-B:

    new[i, j] = 0.2 * (u[i, j] + u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])

added from left to right.  No fast-math is used and nothing is contracted into a fused
multiply-add, so a cell gets the same bits whatever region, strip or tile it is computed in.

Arrays: float64 or float32, C order, shape (rows, columns), ghost layers and any padding included.
Bounds x0:x1 (rows) and y0:y1 (columns) are indices into the arrays; a cell's value is a
dimensionless temperature.

Cost: 5 flops a point.  A sweep over arrays larger than the caches moves 24 bytes a point: `old`
is read, and `new` is read (the cache fetches a line before writing to it) and written.  So one
sweep runs at the speed of memory; `sweep_tile` pays 32 bytes a point once for many sweeps.

Speed advice: start the arrays on a 64-byte boundary and pad rows to a multiple of 8 doubles, so
that `sweep_tile` stores whole cache lines; put the first own column at a multiple of 8 for `sweep`.
In cache that is worth a third of the speed, in memory nothing.
"""

from typing import Any

import numpy as np
from numba import float32, float64, int64, njit, uint64, void

from kernels.prefetch import prefetch

GRIDS = float64[:, ::1], float32[:, ::1]
PIECE = 64  # columns
IN_CACHE = 65536  # cells, 1 MiB in the two arrays
OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
}


@njit([grid.dtype(grid, uint64, uint64) for grid in GRIDS], forceinline=True, **OPTIONS)
def _relaxed(u, i, j):
    """The new value of a cell."""
    # Unsigned indices: a signed one could be negative, and testing for that at each access
    # (as Python's u[-1] asks) costs two thirds of the speed.
    one = np.uint64(1)
    return u.dtype.type(0.2) * (
        u[i, j] + u[i - one, j] + u[i + one, j] + u[i, j - one] + u[i, j + one]
    )


@njit([void(grid, grid, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def _sweep_cached(old, new, x0, x1, y0, y1):
    """Do `sweep` where the arrays are in cache."""
    for i in range(np.uint64(x0), np.uint64(max(x0, x1))):
        for j in range(np.uint64(y0), np.uint64(max(y0, y1))):
            new[i, j] = _relaxed(old, i, j)


@njit([void(grid, grid, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep(old, new, x0, x1, y0, y1):
    """Relax the cells [x0, x1) x [y0, y1) of `old` once, into `new`."""
    if y1 - y0 < PIECE or (x1 - x0) * (y1 - y0) <= IN_CACHE:
        _sweep_cached(old, new, x0, x1, y0, y1)
        return
    # While a piece of a row is relaxed, the lines below it are fetched that are not in cache yet:
    # some machines' hardware does not do it in time, at half the speed.  The last piece of a row
    # overlaps the one before, as loops of a fixed length take no odd ends.
    one, line, piece = np.uint64(1), np.uint64(8), np.uint64(PIECE)
    left, right = np.uint64(y0), np.uint64(y1)
    last = right - piece
    for i in range(np.uint64(x0), np.uint64(x1)):
        for start in range(left, right, piece):
            first = start if start < last else last
            for j in range(first, first + piece, line):
                prefetch(old, (i + one + one, j))
                prefetch(new, (i + one, j))
            for offset in range(piece):
                new[i, first + offset] = _relaxed(old, i, first + offset)


@njit([float64(grid, grid, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep_residual(old, new, x0, x1, y0, y1):
    """Do `sweep` and return the largest |new - old| over the region (0.0 if it is empty)."""
    # The bits of a double >= 0, read as an integer, are ordered as the double is.  The largest
    # integer is found with vector instructions; the largest double is not, as the order of
    # comparison would matter for a NaN.  Here a NaN is larger than any number and is returned.
    most = int64(0)
    for i in range(np.uint64(x0), np.uint64(max(x0, x1))):
        for j in range(np.uint64(y0), np.uint64(max(y0, y1))):
            value = _relaxed(old, i, j)
            new[i, j] = value
            most = max(most, np.float64(abs(value - old[i, j])).view(np.int64))
    return np.int64(most).view(np.float64)


@njit(
    [
        void(grid, grid, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64[::1])
        for grid in GRIDS
    ],
    **OPTIONS,
)
def _step(old, new, sweeps, row, column, width, height, x0, x1, y0, y1, grow):
    """Do all sweeps of a step of `sweep_tile`: `height` rows of a strip `width` columns wide.

    Four sweeps at a time go through the step in pieces of 128 columns, which L1 holds for the
    four; without the pieces each sweep reads its rows from L2, at 3/4 of the speed.
    """
    for first in range(1, sweeps + 1, 4):
        for piece in range(column, column + width, 128):
            for s in range(first, min(first + 4, sweeps + 1)):
                more = sweeps - s
                i0 = max(row - (s - 1), x0 - grow[0] * more)
                i1 = min(row - (s - 1) + height, x1 + grow[1] * more)
                j0 = max(piece - 8 * (s - 1), y0 - grow[2] * more)
                j1 = min(piece - 8 * (s - 1) + 128, y1 + grow[3] * more)
                if s % 2 == 1:
                    _sweep_cached(old, new, i0, i1, j0, j1)
                else:
                    _sweep_cached(new, old, i0, i1, j0, j1)


@njit(
    [int64(grid, grid, int64, int64, int64, int64, int64, int64[::1]) for grid in GRIDS], **OPTIONS
)
def sweep_tile(old, new, sweeps, x0, x1, y0, y1, grow):
    """Relax the cells [x0, x1) x [y0, y1) `sweeps` >= 1 times, each while still in cache.

    Sweep s = 1..sweeps covers the cells widened on side d by grow[d] * (sweeps - s), the sides
    in the order low x, high x, low y, high y.  grow[d] = 1: a neighbour's cells, received
    `sweeps` deep (into `old`), are computed again here.  grow[d] = 0: a physical boundary; the
    ghost cells next to it, along the whole widened region, are the same in both arrays, and are
    read and never written.

    The sweeps alternate between the arrays.  Returns 1 if `new` holds the newest values
    (`sweeps` odd), 0 if `old` does; in [x0, x1) x [y0, y1) the other array holds the values of
    one sweep earlier.  The cells of the widened region around it are scratch.

    Order of work: strips of columns; in a strip, steps of 8 rows; in a step, all sweeps, each one
    row higher and 8 columns further left than the one before.  So a cell's neighbours are always
    ready, no value is overwritten before its last use, and nothing is computed twice.  The
    formula asks for a shift of 1 column; 8 are a cache line, and keep the stores aligned.
    """
    height = 8
    # The rows in use, `sweeps` + 2 and those of the step, fill 1 MiB of L2 in the two arrays.
    # Rows as long as that let the hardware prefetch them.
    width = max(1, 65536 // (sweeps + 2 + height) // 128) * 128
    wide = sweeps - 1
    left = (y0 - grow[2] * wide) // 8 * 8
    right = y1 + grow[3] * wide + 8 * wide
    top = x0 - grow[0] * wide
    bottom = x1 + grow[1] * wide + wide
    for column in range(left, right, width):
        for row in range(top, bottom, height):
            _step(old, new, sweeps, row, column, width, height, x0, x1, y0, y1, grow)
    return sweeps % 2
