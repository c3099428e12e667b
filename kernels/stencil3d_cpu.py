"""Stencil3D on the CPU: one sweep, a sweep with its residual, and several sweeps at once.

The formula, a seven-point average, is that of Galvez et al. (2018), CLUSTER, sections V-A
and V-B:

    new[i, j, k] = (1/7) * (u[i, j, k] + u[i-1, j, k] + u[i+1, j, k]
                            + u[i, j-1, k] + u[i, j+1, k] + u[i, j, k-1] + u[i, j, k+1])

added from left to right, the constant being the double 1.0 / 7.0.  No fast-math is used and
nothing is contracted into a fused multiply-add, so a cell gets the same bits whatever region,
strip or tile it is computed in.

Arrays: float64 or float32, C order, shape (planes, rows, columns), ghost layers and any padding
included.  Bounds x0:x1, y0:y1, z0:z1 are indices into the arrays; a cell's value is a
dimensionless temperature.

Cost: 7 flops a point.  A sweep over arrays larger than the caches moves 24 bytes a point: `old`
is read, and `new` is read (the cache fetches a line before writing to it) and written.  That
holds only while three planes of `old` stay in cache, so a sweep goes strip by strip of rows.
`sweep_tile` pays 32 bytes a point once for several sweeps.

Speed advice: start the arrays on a 64-byte boundary, pad rows to a multiple of 8 doubles and put
the first own cell of a row at a multiple of 8, so that stores write whole cache lines.  In cache
that is worth a third of the speed, in memory nothing.
"""

from typing import Any

import numpy as np
from numba import float32, float64, int64, njit, uint64, void

from kernels.prefetch import prefetch

GRIDS = float64[:, :, ::1], float32[:, :, ::1]
PIECE = 40  # cells of a row
IN_CACHE = 65536  # cells, 1 MiB in the two arrays
OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
}


@njit([grid.dtype(grid, uint64, uint64, uint64) for grid in GRIDS], forceinline=True, **OPTIONS)
def _average(u, i, j, k):
    """The new value of a cell."""
    # Unsigned indices: a signed one could be negative, and testing for that at each access
    # (as Python's u[-1] asks) costs two thirds of the speed.
    one = np.uint64(1)
    return u.dtype.type(1.0 / 7.0) * (
        u[i, j, k]
        + u[i - one, j, k]
        + u[i + one, j, k]
        + u[i, j - one, k]
        + u[i, j + one, k]
        + u[i, j, k - one]
        + u[i, j, k + one]
    )


@njit([void(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def _box(old, new, x0, x1, y0, y1, z0, z1):
    """Relax the cells of a box once, in the order of memory."""
    for i in range(np.uint64(x0), np.uint64(max(x0, x1))):
        for j in range(np.uint64(y0), np.uint64(max(y0, y1))):
            for k in range(np.uint64(z0), np.uint64(max(z0, z1))):
                new[i, j, k] = _average(old, i, j, k)


@njit([void(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def _box_from_memory(old, new, x0, x1, y0, y1, z0, z1):
    """Do `_box` on rows of at least `PIECE` cells, and meanwhile fetch what the next row needs.

    Some machines' hardware does not fetch it in time, at two thirds of the speed.  The last piece
    of a row overlaps the one before, as loops of a fixed length take no odd ends.
    """
    one, line, piece = np.uint64(1), np.uint64(8), np.uint64(PIECE)
    front, back = np.uint64(z0), np.uint64(z1)
    last = back - piece
    for i in range(np.uint64(x0), np.uint64(max(x0, x1))):
        for j in range(np.uint64(y0), np.uint64(max(y0, y1))):
            for start in range(front, back, piece):
                first = start if start < last else last
                for k in range(first, first + piece, line):
                    prefetch(old, (i + one, j + one, k))
                    prefetch(new, (i, j + one, k))
                for offset in range(piece):
                    new[i, j, first + offset] = _average(old, i, j, first + offset)


@njit([void(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep(old, new, x0, x1, y0, y1, z0, z1):
    """Relax the cells [x0, x1) x [y0, y1) x [z0, z1) of `old` once, into `new`."""
    if z1 - z0 < PIECE or (x1 - x0) * (y1 - y0) * (z1 - z0) <= IN_CACHE:
        _box(old, new, x0, x1, y0, y1, z0, z1)
        return
    # A strip has 16384 cells a plane: three planes of `old` and one of `new` are 0.5 MiB, in L2.
    # Whole planes of 400 x 400 are not, and cost a fifth of the speed.
    rows = max(1, 16384 // max(1, z1 - z0))
    for j in range(y0, y1, rows):
        _box_from_memory(old, new, x0, x1, j, min(j + rows, y1), z0, z1)


@njit([float64(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def _box_residual(old, new, x0, x1, y0, y1, z0, z1):
    """Do `_box` and return the largest |new - old| in it (0.0 if it is empty)."""
    # The bits of a double >= 0, read as an integer, are ordered as the double is.  The largest
    # integer is found with vector instructions; the largest double is not, as the order of
    # comparison would matter for a NaN.  Here a NaN is larger than any number and is returned.
    most = int64(0)
    for i in range(np.uint64(x0), np.uint64(max(x0, x1))):
        for j in range(np.uint64(y0), np.uint64(max(y0, y1))):
            for k in range(np.uint64(z0), np.uint64(max(z0, z1))):
                value = _average(old, i, j, k)
                new[i, j, k] = value
                most = max(most, np.float64(abs(value - old[i, j, k])).view(np.int64))
    return np.int64(most).view(np.float64)


@njit([float64(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep_residual(old, new, x0, x1, y0, y1, z0, z1):
    """Do `sweep` and return the largest |new - old| over the region (0.0 if it is empty)."""
    rows = max(1, 16384 // max(1, z1 - z0))  # as in `sweep`
    most = 0.0
    for j in range(y0, y1, rows):
        most = np.maximum(most, _box_residual(old, new, x0, x1, j, min(j + rows, y1), z0, z1))
    return most


@njit(
    [
        int64(grid, grid, int64, int64, int64, int64, int64, int64, int64, int64[::1])
        for grid in GRIDS
    ],
    **OPTIONS,
)
def sweep_tile(old, new, sweeps, x0, x1, y0, y1, z0, z1, grow):
    """Relax the cells [x0, x1) x [y0, y1) x [z0, z1) `sweeps` >= 1 times, each while in cache.

    Sweep s = 1..sweeps covers the cells widened on side d by grow[d] * (sweeps - s), the sides
    in the order low x, high x, low y, high y, low z, high z.  grow[d] = 1: a neighbour's cells,
    received `sweeps` deep (into `old`), are computed again here.  grow[d] = 0: a physical
    boundary; the ghost cells next to it, along the whole widened region, are the same in both
    arrays, and are read and never written.

    The sweeps alternate between the arrays.  Returns 1 if `new` holds the newest values
    (`sweeps` odd), 0 if `old` does; in the region itself the other array holds the values of one
    sweep earlier.  The cells of the widened region around it are scratch, and so are all ghosts
    below z0 where grow[4] = 1: rows begin at a whole cache line there, for the sake of aligned
    stores (a fifth of the speed), if z0 is a multiple of 8 and at least `sweeps` + 7.

    Order of work: strips of rows; in a strip, plane after plane; for a plane, all sweeps, each
    one plane and one row lower than the one before.  So a cell's neighbours are always ready, no
    value is overwritten before its last use, and nothing is computed twice.
    """
    # The planes in use, `sweeps` + 3, fill 1 MiB of L2 in the two arrays.  A strip reads
    # `sweeps` - 1 rows more than it is high, so more than 8 sweeps gain little.
    height = max(8, 65536 // ((sweeps + 3) * old.shape[2]))
    wide = sweeps - 1
    for row in range(y0 - grow[2] * wide, y1 + grow[3] * wide + wide, height):
        for plane in range(x0 - grow[0] * wide, x1 + grow[1] * wide + wide):
            for s in range(1, sweeps + 1):
                more = sweeps - s
                i = plane - (s - 1)
                if i < x0 - grow[0] * more or i >= x1 + grow[1] * more:
                    continue
                j0 = max(row - (s - 1), y0 - grow[2] * more)
                j1 = min(row - (s - 1) + height, y1 + grow[3] * more)
                k0 = z0
                if grow[4]:
                    k0 = max(1, (z0 - more) // 8 * 8)
                k1 = z1 + grow[5] * more
                if s % 2 == 1:
                    _box(old, new, i, i + 1, j0, j1, k0, k1)
                else:
                    _box(new, old, i, i + 1, j0, j1, k0, k1)
    return sweeps % 2
