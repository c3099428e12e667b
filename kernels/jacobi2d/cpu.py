"""Jacobi2D on the CPU; `kernels.jacobi2d.interface` gives the formula and the arrays.

Cost: 5 flops a point.  A sweep over arrays larger than the caches moves 24 bytes a point: `old`
is read, and `new` is read (the cache fetches a line before writing to it) and written.  So one
sweep runs at the speed of memory; `sweep_tile` pays 32 bytes a point once for many sweeps.

Speed advice: start the arrays on a 64-byte boundary, pad rows to a multiple of 8 doubles and put
the first own column at a multiple of 8, so that stores write whole cache lines.  In cache that is
worth a third of the speed, in memory nothing.
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

GRIDS = float64[:, ::1], float32[:, ::1]
ROWS = float64[::1], float32[::1]
IN_CACHE = 65536  # cells, 1 MiB in the two arrays


@njit([row.dtype(row, uint64, uint64) for row in ROWS], forceinline=True, **OPTIONS)
def _relaxed(u, at, row):
    """Return the new value of the cell at index `at`; a row has `row` elements."""
    # Unsigned indices: a signed one could be negative, and testing for that at each access
    # (as Python's u[-1] asks) costs two thirds of the speed.
    one = np.uint64(1)
    return u.dtype.type(0.2) * (u[at] + u[at - row] + u[at + row] + u[at - one] + u[at + one])


@njit(
    [void(row, row, int64, int64, int64, int64, int64, int64) for row in ROWS],
    forceinline=True,
    **OPTIONS,
)
def _row(old, new, row, begin, end, ahead, every, hop):
    """Relax the cells [begin, end) of a row, and prefetch lines of both arrays.

    The arrays are flat; a row has `row` elements.  For every `every` >= 1 lines that are swept, the
    line at `ahead` is prefetched and `ahead` moves on by `hop` lines: some machines' hardware does
    not prefetch in time.  The row is swept one cache line at a time.  Left and right neighbours are
    shifted out of the lines in registers: loads of their own would cross cache lines, at two thirds
    of the speed in cache.
    """
    row, front, back, ahead = np.uint64(row), np.uint64(begin), np.uint64(end), np.uint64(ahead)
    one, width = np.uint64(1), line_width(old)
    last, due = front + (back - front) // width * width, front
    weight = broadcast_line(old.dtype.type(0.2))
    before, here = broadcast_line(old[front - one]), line(old, front)
    for at in range(front, last, width):
        if at == due:
            prefetch(old, ahead)
            prefetch(new, ahead)
            ahead += np.uint64(hop) * width
            due += np.uint64(every) * width
        after = line(old, at + width)
        total = here + line(old, at - row) + line(old, at + row)
        total = total + shift_left(before, here) + shift_right(here, after)
        store(new, at, weight * total)
        before, here = here, after
    for at in range(last, back):
        new[at] = _relaxed(old, at, row)


@njit(
    [float64(grid, grid, int64, int64, int64, int64, boolean) for grid in GRIDS],
    forceinline=True,
    **OPTIONS,
)
def _sweep(old, new, x0, x1, y0, y1, measured):
    """Do `sweep`; if `measured`, return the largest change of a cell, otherwise 0.0."""
    # The bits of a double >= 0, read as an integer, are ordered as the double is.  The largest
    # integer is found with vector instructions; the largest double is not, as the order of
    # comparison would matter for a NaN.  Here a NaN is larger than any number and is returned.
    most = int64(0)
    every = 1 if (x1 - x0) * (y1 - y0) > IN_CACHE else 64
    row = old.shape[1]
    u, v = old.reshape(old.size), new.reshape(new.size)
    for i in range(x0, x1):
        begin, end = i * row + y0, i * row + max(y0, y1)
        _row(u, v, row, begin, end, begin + 2 * row, every, 1)
        if measured:
            for at in range(np.uint64(begin), np.uint64(end)):
                most = max(most, np.float64(abs(v[at] - u[at])).view(np.int64))
    return np.int64(most).view(np.float64)


@njit([void(grid, grid, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep(old, new, x0, x1, y0, y1):
    """Sweep row after row, a cache line at a time; nothing is done for an empty region."""
    _sweep(old, new, x0, x1, y0, y1, False)


@njit([float64(grid, grid, int64, int64, int64, int64) for grid in GRIDS], **OPTIONS)
def sweep_residual(old, new, x0, x1, y0, y1):
    """Sweep as `sweep` does, and measure each row while it is in L1."""
    return _sweep(old, new, x0, x1, y0, y1, True)


@njit(
    [int64(grid, grid, int64, int64, int64, int64, int64, int64[::1]) for grid in GRIDS], **OPTIONS
)
def sweep_tile(old, new, sweeps, x0, x1, y0, y1, grow):
    """Sweep strips of columns, so narrow that the rows in use stay in L1.

    Order of work: strips of columns; in a strip, steps of 8 rows; in a step, all sweeps, each one
    row higher and one cache line further left than the sweep before.  So a cell's neighbours are
    always ready, no value is overwritten before its last use, and nothing is computed twice.  The
    formula requires a shift of 1 column only; a shift by a line keeps the stores aligned.
    """
    in_line = np.int64(line_width(old))
    # Rows of a strip are short enough for L1 to hold the four in use.  The lines that the sweeps of
    # a step meet for the first time, those left of the strip among them, were fetched before it.
    height, lines = 8, 64
    width = lines * in_line
    every = max(1, lines * sweeps // (lines + sweeps))
    length = old.shape[1]
    u, v = old.reshape(old.size), new.reshape(new.size)
    wide = sweeps - 1
    left = (y0 - grow[2] * wide) // in_line * in_line
    right = y1 + grow[3] * wide + in_line * (wide + 1)
    top = x0 - grow[0] * wide
    bottom = x1 + grow[1] * wide + wide
    for column in range(left, right, width):
        for row in range(top, bottom, height):
            for s in range(1, sweeps + 1):
                more, back = sweeps - s, s - 1
                i0 = max(row - back, x0 - grow[0] * more)
                i1 = min(row - back + height, x1 + grow[1] * more)
                j0, j1 = y0, y1
                if grow[2]:
                    j0 = max(1, (y0 - more) // in_line * in_line)
                if grow[3]:
                    j1 = min(old.shape[1], -(-(y1 + more) // in_line) * in_line)
                j0 = max(j0, column - in_line * back)
                j1 = min(j1, column - in_line * back + width)
                if j0 >= j1:
                    continue
                source, target = (u, v) if s % 2 == 1 else (v, u)
                first = (back + height + 1) * length + column - in_line * (sweeps - back)
                for i in range(i0, i1):
                    at = i * length
                    _row(source, target, length, at + j0, at + j1, at + first, every, sweeps)
    return sweeps % 2
