"""CG on the GPU, with the bits of the CPU; `kernels.cg.interface` gives the formulas.

A thread marches along x, in the operator of 27 points along y, where it has the sums of the rows
before and here in registers. A thread block covers 32 points of 8 rows, or of 8 planes, so a warp
loads whole cache lines; what a thread's neighbours need too comes from L1.

Cost from memory, in bytes a point: `apply` 16, and 1 to 4 for the planes that thread blocks share;
`turn` 24; `advance` 48; `relax` 8 for each colour, of lines of which every second number is used.
A dot product reads its vectors again, 16 or 8: its 46 instructions per product, and the registers
they need, would hold up the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import Kernel, blocks, cuda, inlined, kernel, mul, viewer
from miniapps.devices.cuda.launches import Launch, Tasks, nothing, repeated
from miniapps.devices.cuda.memory import address, flat
from miniapps.devices.cuda.primitives import THREADS, fill
from miniapps.devices.cuda.tasks import FIRST, TABLE, WORDS, launch_for_all, task_here
from miniapps.kernels.exact_sum.gpu import (
    AT_A_TIME,
    AT_ONCE,
    CHUNK,
    MANY_BLOCKS,
    add_products,
    carry,
)

WIDE, HIGH = 32, 8  # points of a row, and rows, of a thread block
MARCHES = 32, 16, 8  # planes of one: the most that leave `MANY` thread blocks
MANY = 4096  # about four times as many as a GPU runs at once
BOUNDS = ", ".join(["uint64"] * 6)
VECTOR = "float64[::1]"
SIZE, Z, R, PLANE, ROW, X0, X1, Y0, Y1, Z0, Z1 = range(WORDS, WORDS + 11)  # of a task, in its row
_vector = viewer("float64")


# Operator ----------------------------------------------------------------------------------------


@inlined
def _line_and_point(y0, z0):  # type: ignore[no-untyped-def]
    """Return the row of this thread and the point in it."""
    j = y0 + np.uint64(cuda.blockIdx.y) * np.uint64(HIGH) + np.uint64(cuda.threadIdx.y)
    return j, z0 + np.uint64(cuda.blockIdx.x) * np.uint64(WIDE) + np.uint64(cuda.threadIdx.x)


@inlined
def _planes(march, x0, x1):  # type: ignore[no-untyped-def]
    """Return the planes [begin, end) of this thread."""
    begin = x0 + np.uint64(cuda.blockIdx.z) * march
    return begin, min(begin + march, x1)


@inlined
def _lines(u, at, plane):  # type: ignore[no-untyped-def]
    """Return the sums of three points across the planes: before a point, at it and behind it."""
    one = np.uint64(1)
    before = u[at - plane - one] + u[at - one] + u[at + plane - one]
    here = u[at - plane] + u[at] + u[at + plane]
    return before, here, u[at - plane + one] + u[at + one] + u[at + plane + one]


@kernel(f"void({VECTOR}, {VECTOR}, uint64, uint64, uint64, {BOUNDS})")
def _box(u, v, row, plane, march, y0, y1, x0, x1, z0, z1):  # type: ignore[no-untyped-def]
    """Apply the operator of 27 points; x and y change places with those of other kernels."""
    i, k = _line_and_point(x0, z0)
    if i < x1 and k < z1:
        j, end = _planes(march, y0, y1)
        at = i * plane + j * row + k
        a0, b0, c0 = _lines(u, at - row, plane)
        a1, b1, c1 = _lines(u, at, plane)
        while j < end:
            a2, b2, c2 = _lines(u, at + row, plane)
            box = (a0 + a1 + a2) + (b0 + b1 + b2) + (c0 + c1 + c2)
            v[at] = mul(27.0, u[at]) - box
            a0, b0, c0, a1, b1, c1 = a1, b1, c1, a2, b2, c2
            j += np.uint64(1)
            at += row


@kernel(f"void({VECTOR}, {VECTOR}, uint64, uint64, uint64, {BOUNDS})")
def _star(u, v, plane, row, march, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    """Apply the operator of 7 points."""
    one = np.uint64(1)
    j, k = _line_and_point(y0, z0)
    if j < y1 and k < z1:
        i, end = _planes(march, x0, x1)
        at = i * plane + j * row + k
        before, here = u[at - plane], u[at]
        while i < end:
            behind = u[at + plane]
            beside = before + behind + u[at - row] + u[at + row] + u[at - one] + u[at + one]
            v[at] = mul(6.0, here) - beside
            before, here = here, behind
            i += one
            at += plane


# Vectors -----------------------------------------------------------------------------------------


@kernel(f"void({VECTOR}, {VECTOR}, float64, uint64, uint64, uint64, {BOUNDS})")
def _turn(z, p, beta, plane, row, march, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    """Replace p by z + beta p."""
    j, k = _line_and_point(y0, z0)
    if j < y1 and k < z1:
        i, end = _planes(march, x0, x1)
        at = i * plane + j * row + k
        while i < end:
            p[at] = z[at] + mul(beta, p[at])
            i += np.uint64(1)
            at += plane


@inlined
def _with_ghosts(march, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    """Return the planes of this thread in a region with a layer around, its row and point in it.

    Last, whether these are in the region itself. A thread beyond the layer gets no plane.
    """
    one = np.uint64(1)
    j, k = _line_and_point(y0 - one, z0 - one)
    i, end = _planes(march, x0 - one, x1 + one)
    if j > y1 or k > z1:
        end = i
    return i, end, j, k, j >= y0 and j < y1 and k >= z0 and k < z1


@kernel(f"void({', '.join([VECTOR] * 4)}, float64, uint64, uint64, uint64, {BOUNDS})")
def _advance(x, r, p, q, alpha, plane, row, march, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    """Add alpha p to x, also in the layer of ghosts, and subtract alpha q from r."""
    i, end, j, k, inside = _with_ghosts(march, x0, x1, y0, y1, z0, z1)
    at = i * plane + j * row + k
    while i < end:
        x[at] = x[at] + mul(alpha, p[at])
        if inside and i >= x0 and i < x1:
            r[at] = r[at] - mul(alpha, q[at])
        i += np.uint64(1)
        at += plane


@kernel(f"void({', '.join([VECTOR] * 7)}, float64, float64, uint64, uint64, uint64, {BOUNDS})")
def _pipelined(  # type: ignore[no-untyped-def]
    x, r, p, q, s, w, z, alpha, beta, plane, row, march, x0, x1, y0, y1, z0, z1
):
    """Make all updates of a pipelined iteration."""
    i, end, j, k, inside = _with_ghosts(march, x0, x1, y0, y1, z0, z1)
    at = i * plane + j * row + k
    while i < end:
        s_here = w[at] + mul(beta, s[at])
        p_here = r[at] + mul(beta, p[at])
        s[at], p[at] = s_here, p_here
        x[at] = x[at] + mul(alpha, p_here)
        r[at] = r[at] - mul(alpha, s_here)
        if inside and i >= x0 and i < x1:
            z_here = q[at] + mul(beta, z[at])
            z[at] = z_here
            w[at] = w[at] - mul(alpha, z_here)
        i += np.uint64(1)
        at += plane


@kernel(
    f"void({VECTOR}, {VECTOR}, uint64, uint64, {BOUNDS}, int64[::1])",
    launch_bounds=(WIDE * HIGH, AT_A_TIME),
)
def _dot(a, b, plane, row, x0, x1, y0, y1, z0, z1, words):  # type: ignore[no-untyped-def]
    """Add the products of a region; a thread takes chunks across the planes."""
    j, k = _line_and_point(y0, z0)
    i = x0 + np.uint64(cuda.blockIdx.z) * np.uint64(CHUNK)
    at, end = i * plane + j * row + k, np.uint64(0)
    if j < y1 and k < z1:
        end = x1 * plane
    stride = np.uint64(CHUNK) * np.uint64(cuda.gridDim.z) * plane
    add_products(a, b, 1, at, plane, stride, end, words)


# Gauss-Seidel ------------------------------------------------------------------------------------


@inlined
def _sides(z, at, plane, row):  # type: ignore[no-untyped-def]
    """Return the sum of the eight points around one across the planes and rows."""
    below, above = at - plane, at + plane
    beside = (z[below] + z[above]) + (z[at - row] + z[at + row])
    corners = (z[below - row] + z[below + row]) + (z[above - row] + z[above + row])
    return beside + corners


@inlined
def _coloured(x0, y0, z0):  # type: ignore[no-untyped-def]
    """Return the plane, row and place of this thread's point, every second along each axis."""
    two = np.uint64(2)
    j, k = _line_and_point(np.uint64(0), np.uint64(0))
    return x0 + two * np.uint64(cuda.blockIdx.z), y0 + two * j, z0 + two * k


@kernel(f"void({VECTOR}, {VECTOR}, uint64, uint64, {BOUNDS})")
def _relax_box(z, r, plane, row, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    """Relax every second point along each axis, with 27 points."""
    one = np.uint64(1)
    i, j, k = _coloured(x0, y0, z0)
    if i < x1 and j < y1 and k < z1:
        at = i * plane + j * row + k
        before = _sides(z, at - one, plane, row) + z[at - one]
        behind = _sides(z, at + one, plane, row) + z[at + one]
        around = _sides(z, at, plane, row) + (before + behind)
        z[at] = mul(r[at] + around, 1.0 / 26.0)


@kernel(f"void({VECTOR}, {VECTOR}, uint64, uint64, {BOUNDS})")
def _relax_star(z, r, plane, row, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    """Relax every second point along each axis, with 7 points."""
    one = np.uint64(1)
    i, j, k = _coloured(x0, y0, z0)
    if i < x1 and j < y1 and k < z1:
        at = i * plane + j * row + k
        beside = z[at - plane] + z[at + plane] + z[at - row] + z[at + row]
        z[at] = mul(r[at] + (beside + z[at - one] + z[at + one]), 1.0 / 6.0)


def _relaxing_all(one: Kernel) -> Kernel:
    """Return the kernel that relaxes the points of many blocks."""
    relax = inlined(one.function)

    @kernel(f"void({TABLE})")
    def relax_all(count, tasks):  # type: ignore[no-untyped-def]
        at, mine = task_here(count, tasks)
        if mine:
            z = _vector(np.int64(tasks[at, Z]), np.int64(tasks[at, SIZE]))
            r = _vector(np.int64(tasks[at, R]), np.int64(tasks[at, SIZE]))
            x0 = tasks[at, X0] - np.uint64(2) * tasks[at, FIRST]  # as thread blocks begin there
            y0, y1, z0, z1 = tasks[at, Y0], tasks[at, Y1], tasks[at, Z0], tasks[at, Z1]
            relax(z, r, tasks[at, PLANE], tasks[at, ROW], x0, tasks[at, X1], y0, y1, z0, z1)

    return relax_all


_relax_boxes, _relax_stars = _relaxing_all(_relax_box), _relaxing_all(_relax_star)


# Launches ----------------------------------------------------------------------------------------


def _launch(chosen: Any, arrays: tuple[Any, ...], numbers: tuple[float, ...], region: Any) -> None:
    """Launch a kernel whose threads march through a region: `_box` along y, others along x."""
    strides = _strides(arrays[0])
    if chosen is _box:
        strides, region = strides[::-1], (*region[2:4], *region[:2], *region[4:])
    x0, x1, y0, y1, z0, z1 = region
    wider = 2 if chosen in (_advance, _pipelined) else 0
    planes, rows, points = (high - low + wider for low, high in ((x0, x1), (y0, y1), (z0, z1)))
    if min(x1 - x0, y1 - y0, z1 - z0) < 1:
        return
    across, down = blocks(points, WIDE), blocks(rows, HIGH)
    enough = (march for march in MARCHES if across * down * blocks(planes, march) >= MANY)
    march = next(enough, MARCHES[-1])
    where = (across, down, blocks(planes, march)), (WIDE, HIGH), arrays[0].stream
    chosen[where](*map(flat, arrays), *numbers, *strides, march, *region)


def _strides(array: Any) -> tuple[int, int]:
    """Return the numbers of a plane and of a row."""
    _, rows, points = array.shape
    return rows * points, points


def apply(
    points: int, u: Array, v: Array,
    x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array,
) -> None:  # fmt: skip
    """See `kernels.cg.interface`."""
    multiply(points, u, v, x0, x1, y0, y1, z0, z1)
    dot(u, v, x0, x1, y0, y1, z0, z1, words)


def multiply(
    points: int, u: Array, v: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
) -> None:
    """See `kernels.cg.interface`."""
    _launch(_box if points == 27 else _star, (u, v), (), (x0, x1, y0, y1, z0, z1))


def clear(z: Array) -> None:
    """See `kernels.cg.interface`."""
    words = flat(z).view(np.int64)
    words.stream = z.stream
    fill(words.size, words, 0)  # the bits of 0.0


def turn(
    z: Array, p: Array, beta: float, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
) -> None:
    """See `kernels.cg.interface`."""
    _launch(_turn, (z, p), (beta,), (x0, x1, y0, y1, z0, z1))


def advance(
    x: Array, r: Array, p: Array, q: Array, alpha: float,
    x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array,
) -> None:  # fmt: skip
    """See `kernels.cg.interface`."""
    _launch(_advance, (x, r, p, q), (alpha,), (x0, x1, y0, y1, z0, z1))
    dot(r, r, x0, x1, y0, y1, z0, z1, words)


def advance_pipelined(
    x: Array, r: Array, p: Array, q: Array, s: Array, w: Array, z: Array,
    alpha: float, beta: float,
    x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, rr: Array, wr: Array,
) -> None:  # fmt: skip
    """See `kernels.cg.interface`."""
    region = x0, x1, y0, y1, z0, z1
    _launch(_pipelined, (x, r, p, q, s, w, z), (alpha, beta), region)
    dot(r, r, x0, x1, y0, y1, z0, z1, rr)
    dot(w, r, x0, x1, y0, y1, z0, z1, wr)


def dot(
    a: Array, b: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array
) -> None:
    """Launch for so many planes at a time that no digit overflows."""
    if min(x1 - x0, y1 - y0, z1 - z0) < 1:
        return
    across, down, stream = blocks(z1 - z0, WIDE), blocks(y1 - y0, HIGH), words.stream
    planes = max(AT_ONCE // ((y1 - y0) * (z1 - z0)), 1)
    for low in range(x0, x1, planes):
        high = min(low + planes, x1)
        deep = min(blocks(high - low, CHUNK), blocks(MANY_BLOCKS, across * down))
        where = (across, down, deep), (WIDE, HIGH), stream
        _dot[where](flat(a), flat(b), *_strides(a), low, high, y0, y1, z0, z1, words)
        carry[1, THREADS, stream](words)


def relax(
    points: int, z: Array, r: Array, colours: np.ndarray,
    x0: int, x1: int, y0: int, y1: int, z0: int, z1: int,
) -> None:  # fmt: skip
    """See `kernels.cg.interface`."""
    relax_all([(points, z, r, colours, x0, x1, y0, y1, z0, z1)])


def relax_all(tasks: Sequence[tuple[Any, ...]]) -> list[None]:
    """Do `relax` for many blocks in one stream, by one launch a colour; tasks are its arguments.

    Blocks may have another number of colours if they are ahead of others.
    """
    for n in range(max(len(colours) for _, _, _, colours, *_ in tasks)):
        _relax(
            [
                (z, r, points, int(colours[n]), tuple(own))
                for points, z, r, colours, *own in tasks
                if n < len(colours)
            ]
        )
    return [None] * len(tasks)


@repeated
def _relax(tasks: Tasks) -> Launch:
    """Launch one thread for each point of the colours; tasks are (z, r, points, odd, own)."""
    grids, regions = [], []
    for *_, odd, (x0, x1, y0, y1, z0, z1) in tasks:
        x0, y0, z0 = x0 + (odd >> 2), y0 + ((odd >> 1) & 1), z0 + (odd & 1)
        planes, rows, row = ((n + 1) // 2 for n in (x1 - x0, y1 - y0, z1 - z0))
        grids.append((blocks(row, WIDE), blocks(rows, HIGH), planes))
        regions.append((x0, x1, y0, y1, z0, z1))
    if all(min(grid) < 1 for grid in grids):
        return nothing
    z, r, points, *_ = tasks[0]
    if len(tasks) == 1:
        one = _relax_box if points == 27 else _relax_star
        where = grids[0], (WIDE, HIGH), z.stream
        return one.prepared(where, flat(z), flat(r), *_strides(z), *regions[0])
    words = [
        (z.size, address(z), address(r), *_strides(z), *region)
        for (z, r, *_), region in zip(tasks, regions, strict=True)
    ]
    every = _relax_boxes if points == 27 else _relax_stars
    return launch_for_all(every, (WIDE, HIGH), z.stream, zip(grids, words, strict=True))
