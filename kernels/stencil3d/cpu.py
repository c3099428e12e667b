"""Stencil3D on the CPU; `kernels.stencil3d.interface` gives the formula and the arrays.

Cost: 7 flops a point.  A sweep over arrays larger than the caches moves 24 bytes a point: `old`
is read, and `new` is read (the cache fetches a line before writing to it) and written.  That
holds only while three planes of `old` stay in cache, so a sweep goes strip by strip of rows.
`sweep_tile` pays 32 bytes a point once for several sweeps.

Speed advice: start the arrays on a 64-byte boundary, pad rows to a multiple of 8 doubles and put
the first own cell of a row at a multiple of 8, so that stores write whole cache lines.  In cache
that is worth a third of the speed, in memory nothing.
"""

import numpy as np
from numba import boolean, float32, float64, int64, uint64, void

from miniapps.devices.cpu.compiler import OPTIONS, njit
from miniapps.devices.cpu.prefetch import prefetch
from miniapps.devices.cpu.vectors import (
    broadcast_line,
    line,
    line_width,
    shift_left,
    shift_right,
    store,
)

GRIDS = float64[:, :, ::1], float32[:, :, ::1]
ROWS = float64[::1], float32[::1]
IN_CACHE = 65536  # cells, 1 MiB in the two arrays


@njit(
    [row.dtype(row, uint64, uint64, uint64) for row in ROWS],
    forceinline=True,
    **OPTIONS,
)
def _average(u, at, plane, row):
    """Return the new value of the cell at index `at`; strides `plane`, `row` in elements."""
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
    """Relax the cells [begin, end) of a row, and prefetch lines of both arrays.

    The arrays are flat, with strides of `plane` and `row` elements.  For every `every` >= 1 lines
    that are swept, the line at `ahead` is prefetched and `ahead` moves on by `hop` lines: some
    machines' hardware does not prefetch in time.  The row is swept one cache line at a time.  Left
    and right neighbours are shifted out of the lines in registers: loads of their own would cross
    cache lines.
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
    """Do `sweep`; if `measured`, return the largest change of a cell, otherwise 0.0."""
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
    """Sweep strips of rows, plane after plane, so that three planes of a strip stay in L2."""
    _sweep(old, new, x0, x1, y0, y1, z0, z1, False)


@njit([float64(grid, grid, int64, int64, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep_residual(old, new, x0, x1, y0, y1, z0, z1):
    """Sweep as `sweep` does, and measure each row while it is in L1."""
    return _sweep(old, new, x0, x1, y0, y1, z0, z1, True)


@njit(
    [
        int64(grid, grid, int64, int64, int64, int64, int64, int64, int64, int64[::1])
        for grid in GRIDS
    ],
    **OPTIONS,
)
def sweep_tile(old, new, sweeps, x0, x1, y0, y1, z0, z1, grow):
    """Sweep strips of rows, so low that the planes in use stay in L2.

    Order of work: strips of rows; in a strip, two planes after two; for these, all sweeps, each one
    plane and one row lower than the sweep before.  So a cell's neighbours are always ready, no
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
