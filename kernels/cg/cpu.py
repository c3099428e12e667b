"""CG on the CPU; `kernels.cg.interface` gives the formulas and the arrays.

What each kernel must move at least, where vectors are larger than the caches, in bytes a point; a
cache line is read before it is written to, unless it has been read already:

    apply     24: u, and v read and written     turn  24: z and p, and p written
    advance   48: x, p, r and q, and x and r written     dot  16, 8 of one array
    relax     13: z, a quarter of its lines written, a quarter of those of r
    advance_pipelined 104: x, r, p, s, w and z read and written, and q

so an iteration without preconditioner moves 96, where one that computes the two dot products and
the two updates apart would move 120. Dot products are taken while a row is in cache: rows are
copied, 2048 points at a time, to where `kernels.exact_sum` adds them.

Strips of rows are so low that three planes of one stay in L2, and the operator prefetches the lines
of the next row that come from memory, as in `kernels.stencil3d.cpu`. It reads whole cache lines,
also such that end beyond a row of points.
"""

from typing import Any

import numpy as np
from numba import float64, int64, types, uint64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.devices.cpu.prefetch import prefetch
from miniapps.devices.cpu.vectors import (
    broadcast_line,
    line,
    line_width,
    shift_left,
    shift_right,
    store,
)
from miniapps.kernels.exact_sum.cpu import CHUNK, add_products, carry

GRID, ROW, WORDS = float64[:, :, ::1], float64[::1], int64[::1]
REGION = (int64,) * 6
APPLIED = (ROW, ROW, *(uint64,) * 4, ROW, ROW, uint64)
STATE = types.UniTuple(int64, 2)
IN_STRIP = 16384  # points of a plane
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
FREE: dict[str, Any] = OPTIONS | DISTINCT  # of arrays that a function only reads, rows may overlap


# Rows ---------------------------------------------------------------------------------------------


@njit(ROW.dtype(ROW, uint64, uint64, uint64), forceinline=True, **OPTIONS)
def _column(u, at, plane, row):
    """Add the nine points around one across the rows: line after line, then the lines."""
    below, above = at - plane, at + plane
    lines = (u[below - row] + u[below] + u[below + row]) + (u[at - row] + u[at] + u[at + row])
    return lines + (u[above - row] + u[above] + u[above + row])


@njit(forceinline=True, **OPTIONS)
def _columns(u, at, plane, row):
    """Do the same for a cache line of points."""
    below, above = at - plane, at + plane
    low = line(u, below - row) + line(u, below) + line(u, below + row)
    middle = line(u, at - row) + line(u, at) + line(u, at + row)
    return (low + middle) + (line(u, above - row) + line(u, above) + line(u, above + row))


@njit(void(*APPLIED), **OPTIONS)
def _box_row(u, v, plane, row, begin, end, some_u, some_v, at_some):
    """Apply the operator of 27 points to a row, a cache line at a time, and copy both rows."""
    one, width = np.uint64(1), line_width(u)
    last = begin + (end - begin) // width * width
    factor = broadcast_line(u.dtype.type(27.0))
    before, here = (
        broadcast_line(_column(u, begin - one, plane, row)),
        _columns(u, begin, plane, row),
    )
    for at in range(begin, last, width):
        prefetch(u, at + plane + row + row)
        prefetch(v, at + row)
        after = _columns(u, at + width, plane, row)
        box = (shift_left(before, here) + here) + shift_right(here, after)
        centre = line(u, at)
        applied = factor * centre - box
        store(v, at, applied)
        store(some_u, at_some, centre)
        store(some_v, at_some, applied)
        at_some += width
        before, here = here, after
    for at in range(last, end):
        box = _column(u, at - one, plane, row) + _column(u, at, plane, row)
        v[at] = 27.0 * u[at] - (box + _column(u, at + one, plane, row))
        some_u[at_some], some_v[at_some] = u[at], v[at]
        at_some += one


@njit(void(*APPLIED), **OPTIONS)
def _star_row(u, v, plane, row, begin, end, some_u, some_v, at_some):
    """Apply the operator of 7 points to a row, a cache line at a time, and copy both rows."""
    one, width = np.uint64(1), line_width(u)
    last = begin + (end - begin) // width * width
    factor = broadcast_line(u.dtype.type(6.0))
    before, here = broadcast_line(u[begin - one]), line(u, begin)
    for at in range(begin, last, width):
        prefetch(u, at + plane + row)
        prefetch(v, at + row)
        after = line(u, at + width)
        beside = line(u, at - plane) + line(u, at + plane) + line(u, at - row) + line(u, at + row)
        beside = beside + shift_left(before, here) + shift_right(here, after)
        applied = factor * here - beside
        store(v, at, applied)
        store(some_u, at_some, here)
        store(some_v, at_some, applied)
        at_some += width
        before, here = here, after
    for at in range(last, end):
        beside = u[at - plane] + u[at + plane] + u[at - row] + u[at + row]
        v[at] = 6.0 * u[at] - (beside + u[at - one] + u[at + one])
        some_u[at_some], some_v[at_some] = u[at], v[at]
        at_some += one


@njit(void(ROW, ROW, float64, uint64, uint64), **FREE)
def _turned(z, p, beta, begin, end):
    """Replace p by z + beta p in a row."""
    for at in range(begin, end):
        p[at] = z[at] + beta * p[at]


@njit(void(ROW, ROW, float64, uint64, uint64), **FREE)
def _moved(x, p, alpha, begin, end):
    """Add alpha p to x in a row."""
    for at in range(begin, end):
        x[at] += alpha * p[at]


@njit(void(ROW, ROW, float64, uint64, uint64, ROW, uint64), **FREE)
def _moved_back(r, q, alpha, begin, end, some, at_some):
    """Subtract alpha q from r in a row, and copy r."""
    for n in range(end - begin):
        r[begin + n] -= alpha * q[begin + n]
        some[at_some + n] = r[begin + n]


@njit(void(*(ROW,) * 5, float64, float64, uint64, uint64), **FREE)
def _pipelined(x, r, p, s, w, alpha, beta, begin, end):
    """Make the updates of a row that ghosts have, too."""
    for at in range(begin, end):
        s[at] = w[at] + beta * s[at]
        p[at] = r[at] + beta * p[at]
        x[at] += alpha * p[at]
        r[at] -= alpha * s[at]


@njit(void(ROW, ROW, uint64, uint64, ROW, ROW, uint64), **FREE)
def _copied(a, b, begin, end, some_a, some_b, at_some):
    """Copy two rows."""
    for n in range(end - begin):
        some_a[at_some + n] = a[begin + n]
        some_b[at_some + n] = b[begin + n]


# Grids --------------------------------------------------------------------------------------------


@njit(STATE(int64, int64, int64, ROW, ROW, WORDS), **OPTIONS)
def _room(n, filled, power, some_a, some_b, words):
    """Add the products of the copied rows if there is no room for ``n`` more.

    Returns how many are there then, and the power for `add_products`.
    """
    if filled + n <= some_a.size:
        return filled, power
    return 0, add_products(some_a[:filled], some_b[:filled], power, words)


@njit(void(int64, GRID, GRID, *REGION, WORDS), **OPTIONS)
def apply(points, u, v, x0, x1, y0, y1, z0, z1, words):
    """Apply the operator to strips of rows, plane after plane, and add each row's products."""
    some_u, some_v = np.empty(CHUNK), np.empty(CHUNK)
    filled, power = 0, 0
    row = u.shape[2]
    plane = u.shape[1] * row
    flat_u, flat_v = u.reshape(u.size), v.reshape(v.size)
    rows = max(1, IN_STRIP // max(1, z1 - z0))
    for first in range(y0, y1, rows):
        for i in range(x0, x1):
            for j in range(first, min(first + rows, y1)):
                for k in range(z0, z1, CHUNK):
                    n = min(CHUNK, z1 - k)
                    filled, power = _room(n, filled, power, some_u, some_v, words)
                    at = i * plane + j * row + k
                    if points == 27:
                        _box_row(flat_u, flat_v, plane, row, at, at + n, some_u, some_v, filled)
                    else:
                        _star_row(flat_u, flat_v, plane, row, at, at + n, some_u, some_v, filled)
                    filled += n
            carry(words)
    _room(CHUNK, filled, power, some_u, some_v, words)
    carry(words)


def clear(z: Array) -> None:
    """See `kernels.cg.interface`."""
    z[...] = 0.0


@njit(void(GRID, GRID, float64, *REGION), **OPTIONS)
def turn(z, p, beta, x0, x1, y0, y1, z0, z1):
    """Go row after row."""
    flat_z, flat_p = z.reshape(z.size), p.reshape(p.size)
    for i in range(x0, x1):
        for j in range(y0, y1):
            at = (i * p.shape[1] + j) * p.shape[2]
            _turned(flat_z, flat_p, beta, at + z0, at + z1)


@njit(void(GRID, GRID, GRID, GRID, float64, *REGION, WORDS), **OPTIONS)
def advance(x, r, p, q, alpha, x0, x1, y0, y1, z0, z1, words):
    """Go row after row, of ``x`` also those of ghosts."""
    some, filled, power = np.empty(CHUNK), 0, 0
    flat_x, flat_r = x.reshape(x.size), r.reshape(r.size)
    flat_p, flat_q = p.reshape(p.size), q.reshape(q.size)
    for i in range(x0 - 1, x1 + 1):
        for j in range(y0 - 1, y1 + 1):
            row = (i * x.shape[1] + j) * x.shape[2]
            _moved(flat_x, flat_p, alpha, row + z0 - 1, row + z1 + 1)
            if x0 <= i < x1 and y0 <= j < y1:
                for k in range(z0, z1, CHUNK):
                    n = min(CHUNK, z1 - k)
                    filled, power = _room(n, filled, power, some, some, words)
                    _moved_back(flat_r, flat_q, alpha, row + k, row + k + n, some, filled)
                    filled += n
        carry(words)
    _room(CHUNK, filled, power, some, some, words)
    carry(words)


@njit(void(*(GRID,) * 7, float64, float64, *REGION, WORDS, WORDS), **OPTIONS)
def advance_pipelined(x, r, p, q, s, w, z, alpha, beta, x0, x1, y0, y1, z0, z1, rr, wr):
    """Go row after row, of the first four vectors also those of ghosts."""
    some_r, some_w = np.empty(CHUNK), np.empty(CHUNK)
    filled, power, other = 0, 0, 0
    flat_x, flat_r, flat_p = x.reshape(x.size), r.reshape(r.size), p.reshape(p.size)
    flat_q, flat_s = q.reshape(q.size), s.reshape(s.size)
    flat_w, flat_z = w.reshape(w.size), z.reshape(z.size)
    for i in range(x0 - 1, x1 + 1):
        for j in range(y0 - 1, y1 + 1):
            row = (i * x.shape[1] + j) * x.shape[2]
            low, high = row + z0 - 1, row + z1 + 1
            _pipelined(flat_x, flat_r, flat_p, flat_s, flat_w, alpha, beta, low, high)
            if x0 <= i < x1 and y0 <= j < y1:
                _turned(flat_q, flat_z, beta, row + z0, row + z1)
                _moved(flat_w, flat_z, -alpha, row + z0, row + z1)
                for k in range(z0, z1, CHUNK):
                    n = min(CHUNK, z1 - k)
                    _, other = _room(n, filled, other, some_w, some_r, wr)
                    filled, power = _room(n, filled, power, some_r, some_r, rr)
                    _copied(flat_r, flat_w, row + k, row + k + n, some_r, some_w, filled)
                    filled += n
        carry(rr)
        carry(wr)
    _room(CHUNK, filled, other, some_w, some_r, wr)
    _room(CHUNK, filled, power, some_r, some_r, rr)
    carry(rr)
    carry(wr)


@njit(void(GRID, GRID, *REGION, WORDS), **OPTIONS)
def dot(a, b, x0, x1, y0, y1, z0, z1, words):
    """Add the products row after row."""
    some_a, some_b = np.empty(CHUNK), np.empty(CHUNK)
    filled, power = 0, 0
    flat_a, flat_b = a.reshape(a.size), b.reshape(b.size)
    for i in range(x0, x1):
        for j in range(y0, y1):
            row = (i * a.shape[1] + j) * a.shape[2]
            for k in range(z0, z1, CHUNK):
                n = min(CHUNK, z1 - k)
                filled, power = _room(n, filled, power, some_a, some_b, words)
                _copied(flat_a, flat_b, row + k, row + k + n, some_a, some_b, filled)
                filled += n
        carry(words)
    _room(CHUNK, filled, power, some_a, some_b, words)
    carry(words)


# Gauss-Seidel -------------------------------------------------------------------------------------


@njit(void(*(ROW,) * 11), **FREE)
def _sides(a, b, c, d, e, f, g, h, here, side, column):
    """Add the eight rows around one, those beside first, and then the one."""
    for k in range(side.size):
        beside = (a[k] + b[k]) + (c[k] + d[k])
        side[k] = beside + ((e[k] + f[k]) + (g[k] + h[k]))
        column[k] = side[k] + here[k]


@njit(void(ROW, ROW, ROW, ROW, ROW, int64, int64, int64, int64), **OPTIONS)
def _relaxed(z, r, side, column, spare, c, plane, row, at):
    """Relax every second point of a row of the 27-point operator, from its point ``c`` on."""
    first, m = at - 1, side.size
    below, above = first - plane, first + plane
    _sides(
        z[below : below + m], z[above : above + m],
        z[first - row : first - row + m], z[first + row : first + row + m],
        z[below - row : below - row + m], z[below + row : below + row + m],
        z[above - row : above - row + m], z[above + row : above + row + m],
        z[first : first + m], side, column,
    )  # fmt: skip
    for k in range(c, spare.size, 2):
        around = side[k + 1] + (column[k] + column[k + 2])
        z[at + k] = (r[at + k] + around) * (1.0 / 26.0)


@njit(void(ROW, ROW, int64, int64, int64, int64, int64), **OPTIONS)
def _relaxed_star(z, r, first, end, plane, row, at):
    """Relax every second point of a row of the 7-point operator, from ``first`` on."""
    for k in range(at + first, at + end, 2):
        beside = ((z[k - plane] + z[k + plane]) + z[k - row]) + z[k + row]
        z[k] = (r[k] + ((beside + z[k - 1]) + z[k + 1])) * (1.0 / 6.0)


@njit(void(int64, GRID, GRID, int64, *REGION), **OPTIONS)
def relax(points, z, r, odd, x0, x1, y0, y1, z0, z1):
    """Go through every second row of every second plane."""
    n = max(0, z1 - z0)
    side, column, spare = np.empty(n + 2), np.empty(n + 2), np.empty(n)
    row = z.shape[2]
    plane = z.shape[1] * row
    flat_z, flat_r = z.reshape(z.size), r.reshape(r.size)
    for i in range(x0 + (odd >> 2), x1, 2):
        for j in range(y0 + ((odd >> 1) & 1), y1, 2):
            at = i * plane + j * row + z0
            if points == 27:
                _relaxed(flat_z, flat_r, side, column, spare, odd & 1, plane, row, at)
            else:
                _relaxed_star(flat_z, flat_r, odd & 1, n, plane, row, at)
