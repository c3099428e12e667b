"""Jacobi2D on the CPU: one sweep, a sweep with its residual, and several sweeps at once.

The formula, a five-point Jacobi relaxation for the Laplace equation, is that of Fink et al.
(2021), ESPM2, section III-B:

    new[i, j] = 0.2 * (u[i, j] + u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])

added from left to right.  No fast-math is used and nothing is contracted into a fused
multiply-add, so a cell gets the same bits whatever region, strip or tile it is computed in.

Arrays: float64, C order, shape (rows, columns), the ghost layers and any padding included.
Bounds x0:x1 (rows) and y0:y1 (columns) are indices into the arrays; a cell's value is a
dimensionless temperature.

Cost: 5 flops a point.  A sweep over arrays larger than the caches moves 24 bytes a point: `old`
is read, and `new` is read (the cache fetches a line before writing to it) and written.  So one
sweep runs at the speed of memory; `sweep_tile` pays 32 bytes a point once for many sweeps.

Speed advice: make the row length a multiple of 8 doubles and start the arrays on a 64-byte
boundary; then the strips of `sweep_tile` store whole cache lines.
"""

import numpy as np
from numba import float64, int64, njit, void

GRID = float64[:, ::1]
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False}


@njit(void(GRID, GRID, int64, int64, int64, int64), **OPTIONS)
def sweep(old, new, x0, x1, y0, y1):
    """Relax the cells [x0, x1) x [y0, y1) of `old` once, into `new`."""
    # Unsigned indices: a signed one could be negative, and testing for that at each access
    # (as Python's u[-1] asks) costs two thirds of the speed.
    one = np.uint64(1)
    for i in range(np.uint64(x0), np.uint64(max(x0, x1))):
        for j in range(np.uint64(y0), np.uint64(max(y0, y1))):
            new[i, j] = 0.2 * (
                old[i, j] + old[i - one, j] + old[i + one, j] + old[i, j - one] + old[i, j + one]
            )


@njit(float64(GRID, GRID, int64, int64, int64, int64), **OPTIONS)
def sweep_residual(old, new, x0, x1, y0, y1):
    """Do `sweep` and return the largest |new - old| over the region (0.0 if it is empty)."""
    one = np.uint64(1)
    # The bits of a double >= 0, read as an integer, are ordered as the double is.  The largest
    # integer is found with vector instructions; the largest double is not, as the order of
    # comparison would matter for a NaN.  Here a NaN is larger than any number and is returned.
    most = int64(0)
    for i in range(np.uint64(x0), np.uint64(max(x0, x1))):
        for j in range(np.uint64(y0), np.uint64(max(y0, y1))):
            value = 0.2 * (
                old[i, j] + old[i - one, j] + old[i + one, j] + old[i, j - one] + old[i, j + one]
            )
            new[i, j] = value
            most = max(most, np.float64(abs(value - old[i, j])).view(np.int64))
    return np.int64(most).view(np.float64)


@njit(int64(GRID, GRID, int64, int64, int64, int64, int64, int64[::1]), **OPTIONS)
def sweep_tile(old, new, sweeps, x0, x1, y0, y1, grow):
    """Relax the cells [x0, x1) x [y0, y1) `sweeps` times while they are in cache.

    Sweep s = 1..sweeps covers the cells widened on side d by grow[d] * (sweeps - s), the sides
    in the order low x, high x, low y, high y.  grow[d] = 1: a neighbour's cells, received
    `sweeps` deep (in `old`), are computed again here.  grow[d] = 0: a physical boundary, whose
    cells next to the region (as long as the region is ever wide) are the same in both arrays;
    they are read and never written.

    The sweeps alternate between the arrays.  Returns 1 if `new` holds the newest values
    (`sweeps` odd), 0 if `old` does; the other array holds, in [x0, x1) x [y0, y1), the values one
    sweep earlier.  Cells around them that were ever part of the widened region are scratch.

    The order of work: strips of columns; in a strip, steps of a few rows; in a step, all sweeps,
    each one row higher and one column further left than the one before it.  With that shift
    every value needed is ready, and none is overwritten before its last use, so the strips
    compute nothing twice.  A step's rows, of both arrays, stay in the caches.
    """
    height, width = 8, 128
    left = (y0 - grow[2] * (sweeps - 1)) & -8
    right = y1 + grow[3] * (sweeps - 1) + sweeps - 1
    top = x0 - grow[0] * (sweeps - 1)
    bottom = x1 + grow[1] * (sweeps - 1) + sweeps - 1
    for column in range(left, right, width):
        for row in range(top, bottom, height):
            for s in range(1, sweeps + 1):
                more = sweeps - s
                i0 = max(row - s + 1, x0 - grow[0] * more)
                i1 = min(row - s + 1 + height, x1 + grow[1] * more)
                j0 = max(column - s + 1, y0 - grow[2] * more)
                j1 = min(column - s + 1 + width, y1 + grow[3] * more)
                if s % 2 == 1:
                    sweep(old, new, i0, i1, j0, j1)
                else:
                    sweep(new, old, i0, i1, j0, j1)
    return sweeps % 2
