"""CG on the GPU, with the bits of the CPU; `kernels.cg.interface` gives the formulas.

A thread marches along x, in the operator of 27 points along y, where it has the sums of the rows
before and here in registers. A thread block covers 32 points of 8 rows, or of 8 planes, so a warp
loads whole cache lines; what a thread's neighbours need too comes from L1.

A launch is for one block or for many, whose vectors and regions are in a table. Functions with
``_all`` in their names do the work of many blocks in one stream. They get no accumulators: their
answers are sums, and one copy moves all of them to the host.

Cost from memory, in bytes a point: `apply` 16, and 1 to 4 for the planes that thread blocks share;
`turn` 24; `advance` 48; `relax` 8 for each colour, of lines of which every second number is used.
A dot product reads its vectors again, 16 or 8: its 46 instructions per product, and the registers
they need, would hold up the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import Kernel, blocks, cuda, inlined, kernel, mul, viewer
from miniapps.devices.cuda.launches import Launch, Tasks, nothing, repeated
from miniapps.devices.cuda.memory import PinnedArray, address, flat, zeros
from miniapps.devices.cuda.primitives import THREADS, thread_index
from miniapps.devices.cuda.tasks import (
    FIRST,
    TABLE,
    WORDS,
    Row,
    launch_for_all,
    launch_with,
    task_here,
)
from miniapps.kernels import exact_sum
from miniapps.kernels.exact_sum.gpu import (
    AT_A_TIME,
    AT_ONCE,
    CHUNK,
    MANY_BLOCKS,
    add_products,
    carry,
)
from miniapps.kernels.halo.interface import Region, shape_of

WIDE, HIGH = 32, 8  # points of a row, and rows, of a thread block
MARCHES = 32, 16, 8  # planes of one: the most that leave `MANY` thread blocks
MANY = 4096  # about four times as many as a GPU runs at once
BOUNDS = ", ".join(["uint64"] * 6)
VECTOR = "float64[::1]"
PAIR = f"{VECTOR}, {VECTOR}, uint64, uint64, uint64, uint64, {BOUNDS}"  # what operators take
# A task's row: its last arguments but the first one, and the addresses of its vectors. For `_dot`
# MARCH is the number of layers of thread blocks, and BEGIN is where the accumulator begins.
SIZE, PLANE, ROW, MARCH, X0, X1, Y0, Y1, Z0, Z1 = range(WORDS, WORDS + 10)
A, B, C, D, E, F, G = range(Z1 + 1, Z1 + 8)
BEGIN, CLEARED = C, SIZE + 1
Grid = tuple[int, int, int]
_vector = viewer("float64")


# Operator ----------------------------------------------------------------------------------------


@inlined
def _line_and_point(y0, z0):  # type: ignore[no-untyped-def]
    """Return the row of this thread and the point in it."""
    j = y0 + np.uint64(cuda.blockIdx.y) * np.uint64(HIGH) + np.uint64(cuda.threadIdx.y)
    return j, z0 + np.uint64(cuda.blockIdx.x) * np.uint64(WIDE) + np.uint64(cuda.threadIdx.x)


@inlined
def _planes(first, march, x0, x1):  # type: ignore[no-untyped-def]
    """Return the planes [begin, end) of this thread; ``first``: of a task's thread blocks, in z."""
    begin = x0 + (np.uint64(cuda.blockIdx.z) - first) * march
    return begin, min(begin + march, x1)


@inlined
def _lines(u, at, plane):  # type: ignore[no-untyped-def]
    """Return the sums of three points across the planes: before a point, at it and behind it."""
    one = np.uint64(1)
    before = u[at - plane - one] + u[at - one] + u[at + plane - one]
    here = u[at - plane] + u[at] + u[at + plane]
    return before, here, u[at - plane + one] + u[at + one] + u[at + plane + one]


@kernel(f"void({PAIR})")
def _box(u, v, first, row, plane, march, y0, y1, x0, x1, z0, z1):  # type: ignore[no-untyped-def]
    """Apply the operator of 27 points; x and y change places with those of other kernels."""
    i, k = _line_and_point(x0, z0)
    if i < x1 and k < z1:
        j, end = _planes(first, march, y0, y1)
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


@kernel(f"void({PAIR})")
def _star(u, v, first, plane, row, march, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    """Apply the operator of 7 points."""
    one = np.uint64(1)
    j, k = _line_and_point(y0, z0)
    if j < y1 and k < z1:
        i, end = _planes(first, march, x0, x1)
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


@inlined
def _place(tasks, task, around):  # type: ignore[no-untyped-def]
    """Return the planes [begin, end) of this thread, its row and the point in it.

    ``around``: how many layers around the region belong to it. A thread beyond gets no plane.
    """
    j, k = _line_and_point(tasks[task, Y0] - around, tasks[task, Z0] - around)
    x0, x1 = tasks[task, X0] - around, tasks[task, X1] + around
    begin, end = _planes(tasks[task, FIRST], tasks[task, MARCH], x0, x1)
    if j >= tasks[task, Y1] + around or k >= tasks[task, Z1] + around:
        end = begin
    return begin, end, j, k


@kernel(f"void({TABLE})")
def _clear(count, tasks):  # type: ignore[no-untyped-def]
    """Set vectors to zero."""
    task, mine = task_here(count, tasks)
    n = thread_index()
    if mine and n < tasks[task, SIZE]:
        z = _vector(np.int64(tasks[task, CLEARED]), np.int64(tasks[task, SIZE]))
        z[n] = 0.0


@kernel(f"void(float64, {TABLE})")
def _turn(beta, count, tasks):  # type: ignore[no-untyped-def]
    """Replace p by z + beta p."""
    task, mine = task_here(count, tasks)
    if mine:
        z = _vector(np.int64(tasks[task, A]), np.int64(tasks[task, SIZE]))
        p = _vector(np.int64(tasks[task, B]), np.int64(tasks[task, SIZE]))
        plane, row = tasks[task, PLANE], tasks[task, ROW]
        i, end, j, k = _place(tasks, task, np.uint64(0))
        at = i * plane + j * row + k
        while i < end:
            p[at] = z[at] + mul(beta, p[at])
            i += np.uint64(1)
            at += plane


@inlined
def _along(tasks, task):  # type: ignore[no-untyped-def]
    """Return the numbers of a plane and of a row, and the first and the last plane's end."""
    return tasks[task, PLANE], tasks[task, ROW], tasks[task, X0], tasks[task, X1]


@inlined
def _inside(tasks, task, j, k):  # type: ignore[no-untyped-def]
    """Return whether a row and a point are of the region itself."""
    along = j >= tasks[task, Y0] and j < tasks[task, Y1]
    return along and k >= tasks[task, Z0] and k < tasks[task, Z1]


@kernel(f"void(float64, {TABLE})")
def _advance(alpha, count, tasks):  # type: ignore[no-untyped-def]
    """Add alpha p to x, also in the layer of ghosts, and subtract alpha q from r."""
    task, mine = task_here(count, tasks)
    if mine:
        x = _vector(np.int64(tasks[task, A]), np.int64(tasks[task, SIZE]))
        r = _vector(np.int64(tasks[task, B]), np.int64(tasks[task, SIZE]))
        p = _vector(np.int64(tasks[task, C]), np.int64(tasks[task, SIZE]))
        q = _vector(np.int64(tasks[task, D]), np.int64(tasks[task, SIZE]))
        plane, row, x0, x1 = _along(tasks, task)
        i, end, j, k = _place(tasks, task, np.uint64(1))
        inside, at = _inside(tasks, task, j, k), i * plane + j * row + k
        while i < end:
            x[at] = x[at] + mul(alpha, p[at])
            if inside and i >= x0 and i < x1:
                r[at] = r[at] - mul(alpha, q[at])
            i += np.uint64(1)
            at += plane


@kernel(f"void(float64, float64, {TABLE})", launch_bounds=(WIDE * HIGH, 4))
def _pipelined(alpha, beta, count, tasks):  # type: ignore[no-untyped-def]
    """Make all updates of a pipelined iteration."""
    task, mine = task_here(count, tasks)
    if mine:
        x = _vector(np.int64(tasks[task, A]), np.int64(tasks[task, SIZE]))
        r = _vector(np.int64(tasks[task, B]), np.int64(tasks[task, SIZE]))
        p = _vector(np.int64(tasks[task, C]), np.int64(tasks[task, SIZE]))
        q = _vector(np.int64(tasks[task, D]), np.int64(tasks[task, SIZE]))
        s = _vector(np.int64(tasks[task, E]), np.int64(tasks[task, SIZE]))
        w = _vector(np.int64(tasks[task, F]), np.int64(tasks[task, SIZE]))
        z = _vector(np.int64(tasks[task, G]), np.int64(tasks[task, SIZE]))
        plane, row, x0, x1 = _along(tasks, task)
        i, end, j, k = _place(tasks, task, np.uint64(1))
        inside, at = _inside(tasks, task, j, k), i * plane + j * row + k
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


@kernel(f"void(int64[::1], {TABLE})", launch_bounds=(WIDE * HIGH, AT_A_TIME))
def _dot(words, count, tasks):  # type: ignore[no-untyped-def]
    """Add the products of regions to accumulators; a thread takes chunks across the planes."""
    task, mine = task_here(count, tasks)
    if mine:
        a = _vector(np.int64(tasks[task, A]), np.int64(tasks[task, SIZE]))
        b = _vector(np.int64(tasks[task, B]), np.int64(tasks[task, SIZE]))
        plane, row, x0, x1 = _along(tasks, task)
        j, k = _line_and_point(tasks[task, Y0], tasks[task, Z0])
        i, _ = _planes(tasks[task, FIRST], np.uint64(CHUNK), x0, x1)
        at, end = i * plane + j * row + k, np.uint64(0)
        if j < tasks[task, Y1] and k < tasks[task, Z1]:
            end = x1 * plane
        stride = np.uint64(CHUNK) * tasks[task, MARCH] * plane
        add_products(a, b, 1, at, plane, stride, end, words, np.int64(tasks[task, BEGIN]))


# Gauss-Seidel ------------------------------------------------------------------------------------


@inlined
def _sides(z, at, plane, row):  # type: ignore[no-untyped-def]
    """Return the sum of the eight points around one across the planes and rows."""
    below, above = at - plane, at + plane
    beside = (z[below] + z[above]) + (z[at - row] + z[at + row])
    corners = (z[below - row] + z[below + row]) + (z[above - row] + z[above + row])
    return beside + corners


@inlined
def _coloured(first, x0, y0, z0):  # type: ignore[no-untyped-def]
    """Return the plane, row and place of this thread's point, every second along each axis."""
    two = np.uint64(2)
    i, (j, k) = np.uint64(cuda.blockIdx.z) - first, _line_and_point(np.uint64(0), np.uint64(0))
    return x0 + two * i, y0 + two * j, z0 + two * k


@kernel(f"void({PAIR})")
def _relax_box(  # type: ignore[no-untyped-def]
    z, r, first, plane, row, march, x0, x1, y0, y1, z0, z1
):
    """Relax every second point along each axis, with 27 points; nothing marches."""
    one = np.uint64(1)
    i, j, k = _coloured(first, x0, y0, z0)
    if i < x1 and j < y1 and k < z1:
        at = i * plane + j * row + k
        before = _sides(z, at - one, plane, row) + z[at - one]
        behind = _sides(z, at + one, plane, row) + z[at + one]
        around = _sides(z, at, plane, row) + (before + behind)
        z[at] = mul(r[at] + around, 1.0 / 26.0)


@kernel(f"void({PAIR})")
def _relax_star(  # type: ignore[no-untyped-def]
    z, r, first, plane, row, march, x0, x1, y0, y1, z0, z1
):
    """Relax every second point along each axis, with 7 points."""
    one = np.uint64(1)
    i, j, k = _coloured(first, x0, y0, z0)
    if i < x1 and j < y1 and k < z1:
        at = i * plane + j * row + k
        beside = z[at - plane] + z[at + plane] + z[at - row] + z[at + row]
        z[at] = mul(r[at] + (beside + z[at - one] + z[at + one]), 1.0 / 6.0)


# Operators for many blocks -----------------------------------------------------------------------


def _for_many(one: Kernel) -> Kernel:
    """Return the kernel that does the same for many blocks, whose arguments are in a table.

    It needs more registers: those of one block are parameters.
    """
    sweep = inlined(one.function)

    @kernel(f"void({TABLE})")
    def for_many(count, tasks):  # type: ignore[no-untyped-def]
        at, mine = task_here(count, tasks)
        if mine:
            u = _vector(np.int64(tasks[at, A]), np.int64(tasks[at, SIZE]))
            v = _vector(np.int64(tasks[at, B]), np.int64(tasks[at, SIZE]))
            first, plane, row, march = (
                tasks[at, FIRST],
                tasks[at, PLANE],
                tasks[at, ROW],
                tasks[at, MARCH],
            )
            x0, x1, y0, y1 = tasks[at, X0], tasks[at, X1], tasks[at, Y0], tasks[at, Y1]
            z0, z1 = tasks[at, Z0], tasks[at, Z1]
            sweep(u, v, first, plane, row, march, x0, x1, y0, y1, z0, z1)

    return for_many


_boxes, _stars = _for_many(_box), _for_many(_star)
_relax_boxes, _relax_stars = _for_many(_relax_box), _for_many(_relax_star)


# Launches ----------------------------------------------------------------------------------------


def _strides(array: Any) -> tuple[int, int]:
    """Return the numbers of a plane and of a row."""
    _, rows, points = array.shape
    return rows * points, points


def _is_empty(region: Region) -> bool:
    """Return whether a region has no points."""
    x0, x1, y0, y1, z0, z1 = region
    return min(x1 - x0, y1 - y0, z1 - z0) < 1


def _marches(region: Region, tasks: int) -> tuple[Grid, int]:
    """Return the thread blocks for a region, one of several tasks, and the planes of a march."""
    planes, rows, points = shape_of(region)
    across, down = blocks(points, WIDE), blocks(rows, HIGH)
    enough = (m for m in MARCHES if tasks * across * down * blocks(planes, m) >= MANY)
    march = next(enough, MARCHES[-1])
    return (across, down, blocks(planes, march)), march


def _launch(one: Kernel, many: Kernel, tasks: Tasks, grids: list[Grid], words: Tasks) -> Launch:
    """Prepare an operator for one block or for many; tasks begin with two vectors.

    ``words``: the last arguments but the first one.
    """
    u, v, *_ = tasks[0]
    if len(tasks) == 1:
        return one.prepared((grids[0], (WIDE, HIGH), v.stream), flat(u), flat(v), 0, *words[0])
    rows = [
        (grid, (u.size, *own, address(u), address(v)))
        for (u, v, *_), grid, own in zip(tasks, grids, words, strict=True)
    ]
    return launch_for_all(many, (WIDE, HIGH), v.stream, rows)


@repeated
def _multiply(tasks: Tasks) -> Launch:
    """Prepare the operator on regions with points; tasks are (u, v, points, region)."""
    grids, words, points = [], [], tasks[0][2]
    for u, _, _, region in tasks:
        strides = _strides(u)
        if points == 27:  # `_box` marches along y
            strides, region = strides[::-1], (*region[2:4], *region[:2], *region[4:])
        grid, march = _marches(region, len(tasks))
        grids.append(grid)
        words.append((*strides, march, *region))
    kernels = (_box, _boxes) if points == 27 else (_star, _stars)
    return _launch(*kernels, tasks, grids, words)


def _march(chosen: Kernel, tasks: Tasks, around: int = 0) -> None:
    """Launch a kernel whose threads march through regions; tasks are (vectors, numbers, region).

    One launch for those with the same numbers: in an iteration all blocks have the same alpha and
    beta. ``around``: how many layers of ghosts are updated, too.
    """
    alike: dict[tuple[float, ...], list[Any]] = {}
    for vectors, numbers, region in tasks:
        if not _is_empty(region):
            others = tuple(map(address, vectors[2:]))
            alike.setdefault(numbers, []).append((*vectors[:2], chosen, around, others, region))
    for numbers, some in alike.items():
        _march_through(some, *numbers)


@repeated
def _march_through(tasks: Tasks) -> Launch:
    """Prepare a march; tasks are (vector, vector, kernel, around, other addresses, region)."""
    one, _, chosen, around, *_ = tasks[0]
    rows: list[Row] = []
    for a, b, _, _, others, region in tasks:
        wider = tuple(at + (around if n % 2 else -around) for n, at in enumerate(region))
        grid, march = _marches(wider, len(tasks))
        words = a.size, *_strides(a), march, *region, address(a), address(b), *others
        rows.append((grid, words))
    return launch_with(chosen, (WIDE, HIGH), one.stream, rows)


def _add_dots(tasks: Tasks, words: Array) -> None:
    """Add the dot product of each task, (a, b, region), to an accumulator of its own in ``words``.

    Launch for so many planes at a time that no digit overflows.
    """
    parts = []
    for n, (a, b, region) in enumerate(tasks):
        if not _is_empty(region):
            x0, x1, y0, y1, z0, z1 = region
            planes, begin = max(AT_ONCE // ((y1 - y0) * (z1 - z0)), 1), n * exact_sum.WORDS
            some = ((x, min(x + planes, x1), y0, y1, z0, z1) for x in range(x0, x1, planes))
            parts.append([(a, b, begin, part) for part in some])
    for at_once in zip_longest(*parts):
        _dot_through([part for part in at_once if part is not None], words)
        carry[len(tasks), THREADS, words.stream](words)


@repeated
def _dot_through(tasks: Tasks) -> Launch:
    """Prepare dot products; tasks are (a, b, where the accumulator begins, region)."""
    rows: list[Row] = []
    for a, b, begin, region in tasks:
        x0, x1, y0, y1, z0, z1 = region
        across, down = blocks(z1 - z0, WIDE), blocks(y1 - y0, HIGH)
        most = blocks(MANY_BLOCKS, len(tasks) * across * down)
        layers = min(blocks(x1 - x0, CHUNK), most)
        words = a.size, *_strides(a), layers, *region, address(a), address(b), begin
        rows.append(((across, down, layers), words))
    return launch_with(_dot, (WIDE, HIGH), tasks[0][0].stream, rows)


def _sums(tasks: Tasks, each: int = 1) -> list[list[PinnedArray]]:
    """Return dot products on the host, ``each`` for a block; tasks are (a, b, region)."""
    words = zeros((len(tasks), exact_sum.WORDS), np.int64, tasks[0][0].stream)
    _add_dots(tasks, flat(words))
    rows = PinnedArray.begun_rows(words)
    return [rows[n : n + each] for n in range(0, len(rows), each)]


def apply(
    points: int, u: Array, v: Array,
    x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array,
) -> None:  # fmt: skip
    """See `kernels.cg.interface`."""
    multiply(points, u, v, x0, x1, y0, y1, z0, z1)
    dot(u, v, x0, x1, y0, y1, z0, z1, words)


def apply_all(tasks: Tasks) -> list[list[PinnedArray]]:
    """Do `apply` for many blocks."""
    multiply_all(tasks)
    return _sums([(u, v, tuple(region)) for _, u, v, *region in tasks])


def multiply(
    points: int, u: Array, v: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
) -> None:
    """See `kernels.cg.interface`."""
    multiply_all([(points, u, v, x0, x1, y0, y1, z0, z1)])


def multiply_all(tasks: Tasks) -> list[None]:
    """Do `multiply` for many blocks of one operator."""
    some = [(u, v, points, tuple(region)) for points, u, v, *region in tasks]
    some = [task for task in some if not _is_empty(task[3])]
    if some:
        _multiply(some)
    return [None] * len(tasks)


def clear(z: Array) -> None:
    """See `kernels.cg.interface`."""
    clear_all([(z,)])


def clear_all(tasks: Tasks) -> list[None]:
    """Do `clear` for many blocks."""
    _clear_through([(z, z) for (z,) in tasks])
    return [None] * len(tasks)


@repeated
def _clear_through(tasks: Tasks) -> Launch:
    """Prepare the launch of a thread for each element of some vectors."""
    rows = [((blocks(z.size, THREADS), 1, 1), (z.size, address(z))) for z, _ in tasks]
    return launch_for_all(_clear, THREADS, tasks[0][0].stream, rows)


def turn(
    z: Array, p: Array, beta: float, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
) -> None:
    """See `kernels.cg.interface`."""
    turn_all([(z, p, beta, x0, x1, y0, y1, z0, z1)])


def turn_all(tasks: Tasks) -> list[None]:
    """Do `turn` for many blocks."""
    _march(_turn, [((z, p), (beta,), tuple(region)) for z, p, beta, *region in tasks])
    return [None] * len(tasks)


def advance(
    x: Array, r: Array, p: Array, q: Array, alpha: float,
    x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array,
) -> None:  # fmt: skip
    """See `kernels.cg.interface`."""
    _march(_advance, [((x, r, p, q), (alpha,), (x0, x1, y0, y1, z0, z1))], around=1)
    dot(r, r, x0, x1, y0, y1, z0, z1, words)


def advance_all(tasks: Tasks) -> list[list[PinnedArray]]:
    """Do `advance` for many blocks."""
    _march(_advance, [(task[:4], task[4:5], task[5:]) for task in tasks], around=1)
    return _sums([(r, r, tuple(region)) for _, r, _, _, _, *region in tasks])


def advance_pipelined(
    x: Array, r: Array, p: Array, q: Array, s: Array, w: Array, z: Array,
    alpha: float, beta: float,
    x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, rr: Array, wr: Array,
) -> None:  # fmt: skip
    """See `kernels.cg.interface`."""
    region = x0, x1, y0, y1, z0, z1
    _march(_pipelined, [((x, r, p, q, s, w, z), (alpha, beta), region)], around=1)
    dot(r, r, *region, rr)
    dot(w, r, *region, wr)


def advance_pipelined_all(tasks: Tasks) -> list[list[PinnedArray]]:
    """Do `advance_pipelined` for many blocks."""
    _march(_pipelined, [(task[:7], task[7:9], task[9:]) for task in tasks], around=1)
    pairs = [(one, task[1], task[9:]) for task in tasks for one in (task[1], task[5])]
    return _sums(pairs, each=2)


def dot(
    a: Array, b: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array
) -> None:
    """See `kernels.cg.interface`."""
    _add_dots([(a, b, (x0, x1, y0, y1, z0, z1))], words)


def dot_all(tasks: Tasks) -> list[list[PinnedArray]]:
    """Do `dot` for many blocks."""
    return _sums([(a, b, tuple(region)) for a, b, *region in tasks])


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
    grids, words = [], []
    for z, _, _, odd, (x0, x1, y0, y1, z0, z1) in tasks:
        x0, y0, z0 = x0 + (odd >> 2), y0 + ((odd >> 1) & 1), z0 + (odd & 1)
        planes, rows, row = ((n + 1) // 2 for n in (x1 - x0, y1 - y0, z1 - z0))
        grids.append((blocks(row, WIDE), blocks(rows, HIGH), planes))
        words.append((*_strides(z), 1, x0, x1, y0, y1, z0, z1))
    if all(min(grid) < 1 for grid in grids):
        return nothing
    kernels = (_relax_box, _relax_boxes) if tasks[0][2] == 27 else (_relax_star, _relax_stars)
    return _launch(*kernels, tasks, grids, words)
