"""CG on the CPU; `kernels.cg.interface` gives the formulas and the arrays.

What each kernel must move at least, where vectors are larger than the caches, in bytes a point; a
cache line is read before it is written to, unless it has been read already:

    apply     24: u, and v read and written     turn  24: z and p, and p written
    advance   48: x, p, r and q, and x and r written     dot  16, 8 of one array
    relax     24: z read and written, and r, for all colours at once; 13 for one
    advance_pipelined 104: x, r, p, s, w and z read and written, and q

so an iteration without preconditioner moves 96, where one that computes the two dot products and
the two updates apart would move 120. The loops that compute vectors also add the products, by
`kernels.exact_sum`, while lines come from memory: those of at most 2048 points at a time. If some
are too large or too small for its formulas, these rows are copied, and their products added anew.
If some are 0, the products are tested again, which reads 16 bytes a point from L1.

Strips of rows are so low that three planes of one stay in L2, and the operator prefetches the lines
that come from memory, as in `kernels.stencil3d.cpu`. Kernels read whole cache lines, also such that
end beyond a row of points. The operator's sums across the planes of a row are for three rows: two
are kept in L1. Gauss-Seidel computes whole lines too, and writes every second point of them. Two
colours that have the same rows, one after the other, share the sums of the eight rows around.
"""

import numpy as np
from numba import float64, int64, uint64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, OPTIONS, njit
from miniapps.devices.cpu.prefetch import prefetch
from miniapps.devices.cpu.vectors import (
    alternating,
    broadcast_line,
    lane,
    line,
    line_width,
    shift_left,
    shift_right,
    store,
)
from miniapps.kernels.exact_sum import accumulator
from miniapps.kernels.exact_sum.cpu import (
    CHUNK,
    FOUND,
    LIMITS,
    NOTHING,
    add_any_products,
    add_found,
    carry,
    joined,
    limits_of,
    lines_of,
    too_far_but_0,
    with_product,
)

GRID, ROW, WORDS, COLOURS = float64[:, :, ::1], float64[::1], int64[::1], int64[::1]
REGION = (int64,) * 6
ROWS = (ROW, ROW, *(uint64,) * 4)  # u and v, the first point, points of a row, plane and row
IN_STRIP = 24576  # points of a plane
IN_COLOURS = 8192  # the same for Gauss-Seidel, of which more planes are in use
AHEAD = 256  # points from one that is computed to what is prefetched for later ones
FAR_AHEAD = 512  # the same where no plane is read twice
LINE = 8  # points of a cache line
FOR_SUMS = 2560  # for those of a row: a multiple of 4096 bytes, so that loads wait for no store
FREE = OPTIONS | DISTINCT  # of arrays that a function only reads, rows may overlap


# Rows ---------------------------------------------------------------------------------------------


@njit(uint64(uint64), forceinline=True, **OPTIONS)
def _place(j):
    """Where the sums of row j begin."""
    return np.uint64(LINE) + (j & np.uint64(1)) * np.uint64(FOR_SUMS)


@njit(forceinline=True, **OPTIONS)
def _across(u, at, plane):
    """Add three points across the planes."""
    return u[at - plane] + u[at] + u[at + plane]


@njit(forceinline=True, **OPTIONS)
def _lines_across(u, at, plane):
    """Do the same for a cache line of points."""
    return line(u, at - plane) + line(u, at) + line(u, at + plane)


@njit(void(ROW, ROW, *(uint64,) * 4), **OPTIONS)
def _sum_row(u, sums, at, n, plane, j):
    """Write the sums across the planes of a row, and of the points before and behind it."""
    one, to = np.uint64(1), _place(j)
    sums[to - one] = _across(u, at - one, plane)
    for m in range(np.uint64(0), n + one, line_width(u)):
        store(sums, to + m, _lines_across(u, at + m, plane))


@njit(FOUND(*ROWS, uint64, uint64, ROW, LIMITS), **OPTIONS)
def _box_rows(u, v, at, n, plane, row, first, end, sums, limits):
    """Apply the operator of 27 points to rows first:end, a cache line at a time.

    Returns what `dot_chunk` does of them. ``sums`` has the sums across the planes of the row before
    and of the first. For each row, the sums of the next replace those of the row before.
    """
    one, width = np.uint64(1), line_width(u)
    whole = n // width * width
    factor = broadcast_line(u.dtype.type(27.0))
    lines, found = lines_of(limits)
    rest = NOTHING
    for j in range(first, end):
        here, other, behind = _place(j), _place(j + one), at + row
        last = _across(u, behind - one, plane)
        left = broadcast_line(sums[other - one] + sums[here - one] + last)
        sums[other - one] = last
        lasts = _lines_across(u, behind, plane)
        column = line(sums, other) + line(sums, here) + lasts
        store(sums, other, lasts)
        for m in range(np.uint64(0), whole, width):
            prefetch(u, behind + plane + m + AHEAD)
            prefetch(v, at + m + AHEAD)
            k = m + width
            lasts = _lines_across(u, behind + k, plane)
            right = line(sums, other + k) + line(sums, here + k) + lasts
            store(sums, other + k, lasts)
            box = (shift_left(left, column) + column) + shift_right(column, right)
            centre = line(u, at + m)
            applied = factor * centre - box
            store(v, at + m, applied)
            found = with_product(found, centre, applied, lines)
            left, column = column, right
        if whole < n:  # of the last line, only points of the row are written
            box = (shift_left(left, column) + column) + shift_right(column, column)
            applied = factor * line(u, at + whole) - box
            for m in range(whole, n):
                v[at + m] = lane(applied, m - whole)
                rest = with_product(rest, u[at + m], v[at + m], limits)
        at = behind
    return joined(found, rest)


@njit(FOUND(*ROWS, uint64, LIMITS), **OPTIONS)
def _star_rows(u, v, at, n, plane, row, count, limits):
    """Apply the operator of 7 points to some rows in the same way."""
    one, width = np.uint64(1), line_width(u)
    whole = n // width * width
    factor = broadcast_line(u.dtype.type(6.0))
    lines, found = lines_of(limits)
    rest = NOTHING
    for _ in range(count):
        before, here = broadcast_line(u[at - one]), line(u, at)
        for k in range(at, at + whole, width):
            prefetch(u, k + plane + row + AHEAD)
            prefetch(v, k + AHEAD)
            after = line(u, k + width)
            beside = line(u, k - plane) + line(u, k + plane) + line(u, k - row) + line(u, k + row)
            beside = beside + shift_left(before, here) + shift_right(here, after)
            applied = factor * here - beside
            store(v, k, applied)
            found = with_product(found, here, applied, lines)
            before, here = here, after
        for k in range(at + whole, at + n):
            beside = u[k - plane] + u[k + plane] + u[k - row] + u[k + row]
            v[k] = 6.0 * u[k] - (beside + u[k - one] + u[k + one])
            rest = with_product(rest, u[k], v[k], limits)
        at += row
    return joined(found, rest)


@njit(void(ROW, ROW, float64, uint64, uint64), **FREE)
def _turned(z, p, beta, begin, end):
    """Replace p by z + beta p in a row."""
    for at in range(begin, end):
        p[at] = z[at] + beta * p[at]


@njit(void(ROW, ROW, float64, uint64, uint64), **FREE)
def _moved(x, p, alpha, begin, end):
    """Add alpha p to x in a row."""
    for at in range(begin, end, LINE):
        prefetch(x, at + FAR_AHEAD)
        prefetch(p, at + FAR_AHEAD)
    for at in range(begin, end):
        x[at] += alpha * p[at]


@njit(FOUND(ROW, ROW, float64, *(uint64,) * 4, LIMITS), **OPTIONS)
def _moved_back(r, q, alpha, at, n, row, count, limits):
    """Subtract alpha q from r in some rows, and return what `dot_chunk` does of r and r."""
    width = line_width(r)
    whole = n // width * width
    factor = broadcast_line(alpha)
    lines, found = lines_of(limits)
    rest = NOTHING
    for _ in range(count):
        for k in range(at, at + whole, width):
            prefetch(r, k + FAR_AHEAD)
            prefetch(q, k + FAR_AHEAD)
            moved = line(r, k) - factor * line(q, k)
            store(r, k, moved)
            found = with_product(found, moved, moved, lines)
        for k in range(at + whole, at + n):
            r[k] -= alpha * q[k]
            rest = with_product(rest, r[k], r[k], limits)
        at += row
    return joined(found, rest)


@njit(FOUND(ROW, ROW, *(uint64,) * 4, LIMITS), **OPTIONS)
def _products(a, b, at, n, row, count, limits):
    """Return what `dot_chunk` does of some rows."""
    width = line_width(a)
    whole = n // width * width
    lines, found = lines_of(limits)
    rest = NOTHING
    for _ in range(count):
        for k in range(at, at + whole, width):
            prefetch(a, k + FAR_AHEAD)
            prefetch(b, k + FAR_AHEAD)
            found = with_product(found, line(a, k), line(b, k), lines)
        for k in range(at + whole, at + n):
            rest = with_product(rest, a[k], b[k], limits)
        at += row
    return joined(found, rest)


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


@njit(int64(FOUND, LIMITS, ROW, ROW, *(int64,) * 5, ROW, ROW, WORDS), **OPTIONS)
def _added(found, limits, a, b, at, n, row, count, power, some_a, some_b, words):
    """Add the products of rows, of which ``found`` are the sums; return a power for the next rows.

    If products are too large or too small for these sums, rows are copied and added anew.
    """
    far = found[3]
    if far:
        far = 0
        for k in range(count):
            begin = at + k * row
            far |= too_far_but_0(a, b, begin, begin + n, limits)
    if not far:
        add_found(found, count * n, limits, power, words)
        return power
    for k in range(count):
        begin = at + k * row
        _copied(a, b, begin, begin + n, some_a, some_b, k * n)
    return add_any_products(some_a[: count * n], some_b[: count * n], words)


@njit(void(int64, GRID, GRID, *REGION, WORDS), **OPTIONS)
def apply(points, u, v, x0, x1, y0, y1, z0, z1, words):
    """Apply the operator to strips of rows, plane after plane, and add the rows' products."""
    sums, some_u, some_v = np.empty(2 * FOR_SUMS), np.empty(CHUNK), np.empty(CHUNK)
    power = 0
    row = u.shape[2]
    plane = u.shape[1] * row
    flat_u, flat_v = u.reshape(u.size), v.reshape(v.size)
    for k in range(z0, z1, CHUNK):
        n = min(CHUNK, z1 - k)
        rows = max(1, IN_STRIP // n)
        for first in range(y0, y1, rows):
            last = min(first + rows, y1)
            for i in range(x0, x1):
                at = i * plane + first * row + k
                if points == 27:
                    _sum_row(flat_u, sums, at - row, n, plane, first - 1)
                    _sum_row(flat_u, sums, at, n, plane, first)
                for j in range(first, last, CHUNK // n):
                    count, limits = min(last - j, CHUNK // n), limits_of(power)
                    if points == 27:
                        found = _box_rows(
                            flat_u, flat_v, at, n, plane, row, j, j + count, sums, limits
                        )
                    else:
                        found = _star_rows(flat_u, flat_v, at, n, plane, row, count, limits)
                    power = _added(
                        found, limits, flat_u, flat_v, at, n, row, count, power,
                        some_u, some_v, words,
                    )  # fmt: skip
                    at += count * row
                carry(words)


def multiply(
    points: int, u: Array, v: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
) -> None:
    """Use `apply`: only in caches is the operator faster without products."""
    apply(points, u, v, x0, x1, y0, y1, z0, z1, accumulator())


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
    """Go through some rows at a time, of ``x`` also those of ghosts."""
    some, power = np.empty(CHUNK), 0
    row = x.shape[2]
    plane = x.shape[1] * row
    flat_x, flat_r = x.reshape(x.size), r.reshape(r.size)
    flat_p, flat_q = p.reshape(p.size), q.reshape(q.size)
    for i in range(x0 - 1, x1 + 1):
        for j in range(y0 - 1, y1 + 1):
            at = i * plane + j * row
            _moved(flat_x, flat_p, alpha, at + z0 - 1, at + z1 + 1)
        if x0 <= i < x1:
            for k in range(z0, z1, CHUNK):
                n = min(CHUNK, z1 - k)
                for j in range(y0, y1, CHUNK // n):
                    at, count = i * plane + j * row + k, min(y1 - j, CHUNK // n)
                    limits = limits_of(power)
                    found = _moved_back(flat_r, flat_q, alpha, at, n, row, count, limits)
                    power = _added(
                        found, limits, flat_r, flat_r, at, n, row, count, power, some, some, words
                    )
            carry(words)


@njit(int64(ROW, ROW, *(int64,) * 7, ROW, ROW, WORDS), **OPTIONS)
def _add_plane(a, b, begin, y0, y1, z0, z1, row, power, some_a, some_b, words):
    """Add the products of a plane, some rows at a time; return a power for the next plane."""
    for k in range(z0, z1, CHUNK):
        n = min(CHUNK, z1 - k)
        for j in range(y0, y1, CHUNK // n):
            at, count = begin + j * row + k, min(y1 - j, CHUNK // n)
            limits = limits_of(power)
            found = _products(a, b, at, n, row, count, limits)
            power = _added(found, limits, a, b, at, n, row, count, power, some_a, some_b, words)
    carry(words)
    return power


@njit(void(GRID, GRID, *REGION, WORDS), **OPTIONS)
def dot(a, b, x0, x1, y0, y1, z0, z1, words):
    """Go plane after plane."""
    some_a, some_b, power = np.empty(CHUNK), np.empty(CHUNK), 0
    row = a.shape[2]
    flat_a, flat_b = a.reshape(a.size), b.reshape(b.size)
    for i in range(x0, x1):
        begin = i * a.shape[1] * row
        power = _add_plane(flat_a, flat_b, begin, y0, y1, z0, z1, row, power, some_a, some_b, words)


@njit(void(*(GRID,) * 7, float64, float64, *REGION, WORDS, WORDS), **OPTIONS)
def advance_pipelined(x, r, p, q, s, w, z, alpha, beta, x0, x1, y0, y1, z0, z1, rr, wr):
    """Go row after row, of the first four vectors also those of ghosts; add plane after plane."""
    some_r, some_w = np.empty(CHUNK), np.empty(CHUNK)
    power, other = 0, 0
    row = x.shape[2]
    flat_x, flat_r, flat_p = x.reshape(x.size), r.reshape(r.size), p.reshape(p.size)
    flat_q, flat_s = q.reshape(q.size), s.reshape(s.size)
    flat_w, flat_z = w.reshape(w.size), z.reshape(z.size)
    for i in range(x0 - 1, x1 + 1):
        begin = i * x.shape[1] * row
        for j in range(y0 - 1, y1 + 1):
            at = begin + j * row
            low, high = at + z0 - 1, at + z1 + 1
            _pipelined(flat_x, flat_r, flat_p, flat_s, flat_w, alpha, beta, low, high)
            if x0 <= i < x1 and y0 <= j < y1:
                _turned(flat_q, flat_z, beta, at + z0, at + z1)
                _moved(flat_w, flat_z, -alpha, at + z0, at + z1)
        if x0 <= i < x1:
            power = _add_plane(
                flat_r, flat_r, begin, y0, y1, z0, z1, row, power, some_r, some_r, rr
            )
            other = _add_plane(
                flat_w, flat_r, begin, y0, y1, z0, z1, row, other, some_w, some_r, wr
            )


# Gauss-Seidel -------------------------------------------------------------------------------------


@njit(forceinline=True, **OPTIONS)
def _around(z, at, plane, row):
    """Add the eight lines around one, those beside first; and the same with that line."""
    below, above = at - plane, at + plane
    beside = (line(z, below) + line(z, above)) + (line(z, at - row) + line(z, at + row))
    corners = line(z, below - row) + line(z, below + row)
    corners = corners + (line(z, above - row) + line(z, above + row))
    side = beside + corners
    return side, side + line(z, at)


@njit(forceinline=True, **OPTIONS)
def _solved(r, at, left, side, column, right):
    """Return a line of solutions of the 27-point operator's equations, given three columns."""
    around = side + (shift_left(left, column) + shift_right(column, right))
    return (line(r, at) + around) * broadcast_line(1.0 / 26.0)


@njit(forceinline=True, **OPTIONS)
def _relaxed_end(z, r, odd, at, whole, n, left, side, column):
    """Relax the points of a row that fill no line, given the columns of the line before."""
    relaxed = _solved(r, at + whole, left, side, column, column)
    for k in range(whole + odd, n, np.uint64(2)):
        z[at + k] = lane(relaxed, k - whole)


@njit(forceinline=True, **OPTIONS)
def _every_second(odd, others, points):
    """Return a line in which every second point, from ``odd`` on, is of the last line."""
    return alternating(others, points) if odd else alternating(points, others)


@njit(void(ROW, ROW, uint64, *(uint64,) * 5, ROW, uint64), **OPTIONS)
def _relaxed(z, r, odd, at, n, plane, row, count, later, by):
    """Relax every second point of every second row, of the 27-point operator.

    ``at``: the first point of the first row, of which point ``odd`` is the first to be relaxed.
    ``later``: what is prefetched of, where it is needed after ``by`` points.
    """
    one, width = np.uint64(1), line_width(z)
    whole = n // width * width
    for _ in range(count):
        left = broadcast_line(lane(_around(z, at - one, plane, row)[1], 0))
        side, column = _around(z, at, plane, row)
        for k in range(at, at + whole, width):
            prefetch(later, k + by)
            beyond, right = _around(z, k + width, plane, row)
            relaxed = _solved(r, k, left, side, column, right)
            store(z, k, _every_second(odd, line(z, k), relaxed))
            left, side, column = column, beyond, right
        if whole < n:
            _relaxed_end(z, r, odd, at, whole, n, left, side, column)
        at += row + row


@njit(void(ROW, ROW, uint64, *(uint64,) * 5, ROW, uint64), **OPTIONS)
def _relaxed_both(z, r, odd, at, n, plane, row, count, later, by):
    """Relax the same points, and then the others of these rows.

    The sums of the eight rows around are the same for both. The others of a line read a point of
    the next line, so of that line the first points are relaxed before. ``first`` and ``new`` are
    whole lines, of which only the first points are used.
    """
    one, width = np.uint64(1), line_width(z)
    whole = n // width * width
    for _ in range(count):
        before = broadcast_line(lane(_around(z, at - one, plane, row)[1], 0))
        new = before
        if whole < n:
            left = broadcast_line(lane(_around(z, at + whole - one, plane, row)[1], 0))
            side, column = _around(z, at + whole, plane, row)
            _relaxed_end(z, r, odd, at, whole, n, left, side, column)
        if whole > 0:
            side, column = _around(z, at, plane, row)
            next_side, right = _around(z, at + width, plane, row)
            first = _solved(r, at, before, side, column, right)
            left, new = before, side + first
            for k in range(at, at + whole - width, width):
                prefetch(later, k + by)
                far_side, far = _around(z, k + width + width, plane, row)
                next_first = _solved(r, k + width, column, next_side, right, far)
                next_new = next_side + next_first
                others = _solved(r, k, left, side, new, next_new)
                store(z, k, _every_second(odd, others, first))
                column, right, left, new, first = right, far, new, next_new, next_first
                side, next_side = next_side, far_side
            k = at + whole - width
            others = _solved(r, k, left, side, new, right)
            store(z, k, _every_second(odd, others, first))
        if whole < n:
            side, column = _around(z, at + whole, plane, row)
            _relaxed_end(z, r, odd ^ one, at, whole, n, new, side, column)
        at += row + row


@njit(forceinline=True, **OPTIONS)
def _solved_star(z, r, k, plane, row):
    """Return a line of solutions of the 7-point operator's equations."""
    one = np.uint64(1)
    beside = (line(z, k - plane) + line(z, k + plane)) + line(z, k - row)
    around = ((beside + line(z, k + row)) + line(z, k - one)) + line(z, k + one)
    return (line(r, k) + around) * broadcast_line(1.0 / 6.0)


@njit(void(ROW, ROW, uint64, *(uint64,) * 5), **OPTIONS)
def _relaxed_star(z, r, odd, at, n, plane, row, count):
    """Do the same for the 7-point operator."""
    width = line_width(z)
    whole = n // width * width
    for _ in range(count):
        for k in range(at, at + whole, width):
            relaxed, old = _solved_star(z, r, k, plane, row), line(z, k)
            store(z, k, alternating(old, relaxed) if odd else alternating(relaxed, old))
        if whole < n:
            relaxed = _solved_star(z, r, at + whole, plane, row)
            for k in range(whole + odd, n, np.uint64(2)):
                z[at + k] = lane(relaxed, k - whole)
        at += row + row


@njit(void(int64, GRID, GRID, COLOURS, *REGION), **OPTIONS)
def relax(points, z, r, colours, x0, x1, y0, y1, z0, z1):
    """Go through the planes of a strip of rows once, for all colours.

    A colour in planes of another parity than the one before follows it a plane behind, and a row
    behind if its rows have another parity: then all points that it reads have been relaxed, and
    those that it must not read yet have not. Each pass over rows prefetches as many lines of the
    next two planes, of z or r: eight passes, with all colours, prefetch all of them.
    """
    n, row = max(0, z1 - z0), z.shape[2]
    plane = z.shape[1] * row
    flat_z, flat_r = z.reshape(z.size), r.reshape(r.size)
    planes = rows = 0  # by which the last colour is behind the first
    for c in range(1, colours.size):
        change = int(colours[c] ^ colours[c - 1])
        planes += change >> 2
        rows += (change >> 1) & 1
    height = max(1, IN_COLOURS // max(1, n))
    for strip in range(y0, y1 + rows, height):
        for front in range(x0, x1 + planes):
            i, j, c, passes = front, strip, 0, 0
            while c < colours.size:
                colour = int(colours[c])
                if c > 0:
                    change = int(colours[c - 1]) ^ colour
                    i -= change >> 2
                    j -= (change >> 1) & 1
                both = points == 27 and c + 1 < colours.size and colours[c + 1] ^ colour == 1
                c += 2 if both else 1
                if x0 <= i < x1 and (i - x0) & 1 == colour >> 2:
                    first = max(j, y0)
                    first += ((first - y0) ^ (colour >> 1)) & 1
                    at, odd = i * plane + first * row + z0, colour & 1
                    count = max(0, min(j + height, y1) - first + 1) >> 1
                    later = flat_r if passes & 2 else flat_z
                    by = (front - i + 2 + (passes >> 2)) * plane
                    passes += 1
                    if both:
                        _relaxed_both(flat_z, flat_r, odd, at, n, plane, row, count, later, by)
                    elif points == 27:
                        _relaxed(flat_z, flat_r, odd, at, n, plane, row, count, later, by)
                    else:
                        _relaxed_star(flat_z, flat_r, odd, at, n, plane, row, count)
