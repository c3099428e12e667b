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
from numba import boolean, float32, float64, int64, uint64, void

from devices.cpu.compiler import njit
from devices.cpu.prefetch import prefetch
from devices.cpu.vectors import broadcast_line, line, line_width, shift_left, shift_right, store

GRIDS = float64[:, :, ::1], float32[:, :, ::1]
ROWS = float64[::1], float32[::1]
IN_CACHE = 65536  # cells, 1 MiB in the two arrays
OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
}


@njit(
    [row.dtype(row, uint64, uint64, uint64) for row in ROWS],
    forceinline=True,
    **OPTIONS,
)
def _average(u, at, plane, row):
    """The new value of the cell at an index, planes and rows being so many elements long."""
    # Unsigned indices: a signed one could be negative, and testing for that at each access
    # (as Python's u[-1] asks) costs two thirds of the speed.
    one = np.uint64(1)
    return u.dtype.type(1.0 / 7.0) * (
        u[at]
        + u[at - plane]
        + u[at + plane]
        + u[at - row]
        + u[at + row]
        + u[at - one]
        + u[at + one]
    )


@njit(
    [void(row, row, int64, int64, int64, int64, int64, int64, int64) for row in ROWS],
    forceinline=True,
    **OPTIONS,
)
def _row(old, new, plane, row, begin, end, ahead, every, hop):
    """Relax the cells [begin, end) of a row; meanwhile fetch what is needed later, of both arrays.

    The arrays are flat; planes and rows are so many elements long.  With one line in `every` >= 1
    that is swept, one in `hop` is fetched, from `ahead` on, as some machines' hardware does not do
    it in time.  The row is gone through by the cache line.  Its left and right neighbours are cut
    out of the lines at hand: reading them anew would cross from line to line.
    """
    plane, row, front, back = np.uint64(plane), np.uint64(row), np.uint64(begin), np.uint64(end)
    one, width, ahead = np.uint64(1), line_width(old), np.uint64(ahead)
    last, due = front + (back - front) // width * width, front
    weight = broadcast_line(old.dtype.type(1.0 / 7.0))
    before, here = broadcast_line(old[front - one]), line(old, front)
    for at in range(front, last, width):
        if at == due:
            prefetch(old, ahead)
            prefetch(new, ahead)
            ahead += np.uint64(hop) * width
            due += np.uint64(every) * width
        after = line(old, at + width)
        total = here + line(old, at - plane) + line(old, at + plane)
        total = total + line(old, at - row) + line(old, at + row)
        total = total + shift_left(before, here) + shift_right(here, after)
        store(new, at, weight * total)
        before, here = here, after
    for at in range(last, back):
        new[at] = _average(old, at, plane, row)


@njit(
    [float64(grid, grid, int64, int64, int64, int64, int64, int64, boolean) for grid in GRIDS],
    forceinline=True,
    **OPTIONS,
)
def _sweep(old, new, x0, x1, y0, y1, z0, z1, measured):
    """Do `sweep`; where asked to, return the largest change of a cell."""
    # The bits of a double >= 0, read as an integer, are ordered as the double is.  The largest
    # integer is found with vector instructions; the largest double is not, as the order of
    # comparison would matter for a NaN.  Here a NaN is larger than any number and is returned.
    most = int64(0)
    # A strip has 16384 cells a plane: three planes of `old` and one of `new` are 0.5 MiB, in L2.
    # Whole planes of 400 x 400 are not, and cost a fifth of the speed.
    rows = max(1, 16384 // max(1, z1 - z0))
    every = 1 if (x1 - x0) * (y1 - y0) * (z1 - z0) > IN_CACHE else 64
    row = old.shape[2]
    plane = old.shape[1] * row
    u, v = old.reshape(old.size), new.reshape(new.size)
    for first in range(y0, y1, rows):
        for i in range(x0, x1):
            for j in range(first, min(first + rows, y1)):
                begin, end = i * plane + j * row + z0, i * plane + j * row + max(z0, z1)
                _row(u, v, plane, row, begin, end, begin + plane + row, every, 1)
                if measured:
                    for at in range(np.uint64(begin), np.uint64(end)):
                        most = max(most, np.float64(abs(v[at] - u[at])).view(np.int64))
    return np.int64(most).view(np.float64)


@njit([void(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep(old, new, x0, x1, y0, y1, z0, z1):
    """Relax the cells [x0, x1) x [y0, y1) x [z0, z1) of `old` once, into `new`."""
    _sweep(old, new, x0, x1, y0, y1, z0, z1, False)


@njit([float64(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep_residual(old, new, x0, x1, y0, y1, z0, z1):
    """Do `sweep` and return the largest |new - old| over the region (0.0 if it is empty)."""
    return _sweep(old, new, x0, x1, y0, y1, z0, z1, True)


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
    below z0 where grow[4] = 1 and beyond z1 where grow[5] = 1: whole cache lines are swept there,
    aligned ones if z0 is a multiple of a line and at least `sweeps` + 7.

    Order of work: strips of rows; in a strip, two planes after two; for these, all sweeps, each
    one plane and one row lower than the one before.  So a cell's neighbours are always ready, no
    value is overwritten before its last use, and nothing is computed twice.
    """
    in_line = np.int64(line_width(old))
    # Two planes at a time, as a plane of `old` comes from L2 for each of the three that need it.
    # The planes in use, `sweeps` + 3, are 1.5 MiB in the two arrays.  A strip reads `sweeps` - 1
    # rows more than it is high, so more than 8 sweeps gain little.
    planes, height = 2, max(8, 98304 // ((sweeps + 3) * old.shape[2]))
    # Every row of every sweep fetches its share of the lines that the strip needs next.
    rows = sweeps * height
    share = (height + sweeps) * old.shape[2] // in_line // rows + 1
    every = max(1, (z1 - z0) // in_line // share)
    length = old.shape[2]
    area = old.shape[1] * length
    u, v = old.reshape(old.size), new.reshape(new.size)
    wide = sweeps - 1
    for row in range(y0 - grow[2] * wide, y1 + grow[3] * wide + wide, height):
        for plane in range(x0 - grow[0] * wide, x1 + grow[1] * wide + wide, planes):
            for s in range(1, sweeps + 1):
                more, back = sweeps - s, s - 1
                i0 = max(plane - back, x0 - grow[0] * more)
                i1 = min(plane - back + planes, x1 + grow[1] * more)
                j0 = max(row - back, y0 - grow[2] * more)
                j1 = min(row - back + height, y1 + grow[3] * more)
                k0, k1 = z0, z1
                if grow[4]:
                    k0 = max(1, (z0 - more) // in_line * in_line)
                if grow[5]:
                    k1 = min(old.shape[2], -(-(z1 + more) // in_line) * in_line)
                source, target = (u, v) if s % 2 == 1 else (v, u)
                for j in range(j0, j1):
                    first = (row - sweeps) * length + (back * height + j + back - row) * in_line
                    for i in range(i0, i1):
                        at = i * area + j * length
                        ahead = (i + back + planes + 1) * area + first
                        _row(source, target, area, length, at + k0, at + k1, ahead, every, rows)
    return sweeps % 2
