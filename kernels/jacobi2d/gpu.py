"""Jacobi2D on the GPU, with the bits of the CPU; `kernels.jacobi2d.interface` gives the formula.

A thread relaxes `MARCH` cells of one column, four at a time. It loads the next four before it
stores these: a load cannot be moved before a store that may touch the same memory, and only loads
in flight make use of the memory's bandwidth. The threads of a warp have neighbouring columns.

Cost: 16 bytes per cell and sweep (`old` read, `new` written, each once); the cells above a
thread's first cell and below its last one, 2 in `MARCH`, come from L2, those to the left and right
from L1. Several sweeps at once (`sweep_tile`) cost that once, and read the cells at the edges of
thread blocks twice: 12 % for four sweeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import WARP, Kernel, blocks, cuda, inlined, kernel, mul, viewer
from miniapps.devices.cuda.launches import Launch, Tasks, repeated
from miniapps.devices.cuda.memory import address, flat, to_host, zeros
from miniapps.devices.cuda.tasks import TABLE, WORDS, launch_for_all, task_here
from miniapps.kernels.stencils.gpu import (
    change,
    changed,
    next_four,
    raise_to,
    reach,
    sweep_in_turns,
    within,
)

THREADS = 128  # columns of a thread block
MARCH = 16  # rows of one, a multiple of 4
WIDEST, STRIP = 256, 128  # columns and rows of a thread block that makes several sweeps at once
WEIGHT = 0.2
REALS = "float64", "float32"
SIZE, OLD, NEW, ROW, X0, X1, Y0, Y1, GROW = range(WORDS, WORDS + 9)  # of a task, in its row

SWEEP = tuple(
    f"void({real}[::1], {real}[::1], {real}, uint64, uint64, uint64, uint64, uint64)"
    for real in REALS
)
SEVERAL = "void({0}[::1], {0}[::1], {0}, uint64, int32, int32, int32, int32, UniTuple(int32, 4))"
MEASURED = tuple(signature.replace(")", ", int64[::1])") for signature in SWEEP)


@inlined
def _relaxed(weight, here, above, below, left, right):  # type: ignore[no-untyped-def]
    """Return the new value of a cell."""
    return mul(weight, here + above + below + left + right)


def _relaxing(early: bool) -> Any:
    """Return the function that relaxes this thread's cells of a column, four at a time.

    If ``early``, the next four are loaded before these are stored. Otherwise four are loaded at
    once: the compiler does that only where many operations follow, as in `sweep_residual`.
    """

    @inlined
    def relax_column(old, new, weight, row, x0, x1, j):  # type: ignore[no-untyped-def]
        """Relax the cells of column j; return the largest `change`."""
        one, four, most = np.uint64(1), np.uint64(4), np.int64(0)
        i = x0 + np.uint64(cuda.blockIdx.y) * np.uint64(MARCH)
        end = min(i + np.uint64(MARCH), x1)
        at = i * row + j
        above, here = old[at - row], old[at]
        first = second = third = fourth = here
        if early and i + four <= end:
            first, second, third, fourth = next_four(old, at, row)
        while i + four <= end:
            a, b, c, d = at, at + row, at + row + row, at + row + row + row
            if not early:
                first, second, third, fourth = next_four(old, at, row)
            new_a = _relaxed(weight, here, above, first, old[a - one], old[a + one])
            new_b = _relaxed(weight, first, here, second, old[b - one], old[b + one])
            new_c = _relaxed(weight, second, first, third, old[c - one], old[c + one])
            new_d = _relaxed(weight, third, second, fourth, old[d - one], old[d + one])
            i += four
            at += four * row
            then = here, here, here, here
            if early:
                then = next_four(old, at if i + four <= end else a, row)  # the last are not used
            new[a], new[b], new[c], new[d] = new_a, new_b, new_c, new_d
            most = max(most, change(new_a, here), change(new_b, first))
            most = max(most, change(new_c, second), change(new_d, third))
            above, here = third, fourth
            first, second, third, fourth = then
        while i < end:
            below = old[at + row]
            value = _relaxed(weight, here, above, below, old[at - one], old[at + one])
            new[at] = value
            most = max(most, change(value, here))
            above, here = here, below
            i += one
            at += row
        return most

    return relax_column


_relax_column, _relax_column_early = _relaxing(False), _relaxing(True)


@inlined
def _column(y0):  # type: ignore[no-untyped-def]
    """Return the column of this thread."""
    return y0 + np.uint64(cuda.blockIdx.x) * np.uint64(THREADS) + np.uint64(cuda.threadIdx.x)


@kernel(*SWEEP, launch_bounds=(THREADS, 10))
def _sweep(old, new, weight, row, x0, x1, y0, y1):  # type: ignore[no-untyped-def]
    j = _column(y0)
    if j < y1:
        _relax_column_early(old, new, weight, row, x0, x1, j)


@kernel(*MEASURED)
def _measured(old, new, weight, row, x0, x1, y0, y1, most):  # type: ignore[no-untyped-def]
    j, mine = _column(y0), np.int64(0)
    if j < y1:
        mine = _relax_column(old, new, weight, row, x0, x1, j)
    raise_to(most, mine)


def _sweeping_all(real: str) -> Kernel:
    """Return the kernel of `_sweep` for many blocks, whose arrays are of a type."""
    sweep, cells_at = inlined(_sweep.function), viewer(real)

    @kernel(f"void({real}, {TABLE})", launch_bounds=(THREADS, 10))
    def sweep_all(weight, count, tasks):  # type: ignore[no-untyped-def]
        at, mine = task_here(count, tasks)
        if mine:
            size = np.int64(tasks[at, SIZE])
            old = cells_at(np.int64(tasks[at, OLD]), size)
            new = cells_at(np.int64(tasks[at, NEW]), size)
            x0, x1, y0, y1 = tasks[at, X0], tasks[at, X1], tasks[at, Y0], tasks[at, Y1]
            sweep(old, new, weight, tasks[at, ROW], x0, x1, y0, y1)

    return sweep_all


SWEEP_ALL = _sweeping_all("float64"), _sweeping_all("float32")


def _several(sweeps: int, real: str, fixed: bool = True) -> Kernel:
    """Return a kernel that does several sweeps at once, from `old`, which it only reads, to `new`.

    A thread block walks down a strip of columns with one thread per column. Once row r is loaded,
    sweep s can compute row r - s: the cells above and below are in the thread's registers, the
    cells to the left and right were written to shared memory by the neighbouring threads one row
    ago. So a row costs one barrier. At both ends of the thread block ``sweeps`` threads only
    compute values for the others. Where ``grow`` is 0, cells beyond the region keep their values;
    if not ``fixed``, it is 0 nowhere, and no cell is tested for that.
    """

    @kernel(SEVERAL.format(real))
    def fused(old, new, weight, row, x0, x1, y0, y1, grow):  # type: ignore[no-untyped-def]
        beside = cuda.shared.array((2, sweeps, WIDEST), real)
        above = cuda.local.array(sweeps, real)
        here = cuda.local.array(sweeps, real)
        me, wide = cuda.threadIdx.x, cuda.blockDim.x
        left, right = max(me - 1, 0), min(me + 1, wide - 1)
        j = np.int32(y0 - sweeps + cuda.blockIdx.x * (wide - 2 * sweeps) + me)
        column = min(max(j, y0 - reach(sweeps, grow[2])), y1 + reach(sweeps, grow[3]) - 1)
        top, bottom = x0 - reach(sweeps, grow[0]), x1 + reach(sweeps, grow[1]) - 1
        first = np.int32(x0 + cuda.blockIdx.y * STRIP)
        r, end = np.int32(first - sweeps), np.int32(min(first + STRIP, x1) + sweeps)
        low, changing = changed(sweeps, x0, x1, grow[0], grow[1])
        if not within(j, sweeps, y0, y1, grow[2], grow[3]):
            changing = np.uint32(0)
        mine = me >= sweeps and me < wide - sweeps and j < y1
        written = np.uint32(end - sweeps - first if mine else 0)
        load = np.uint64(max(r, top)) * row + np.uint64(column)
        store = np.uint64(first) * row + np.uint64(j)
        next_one = old[load]
        while r < end:
            for now in range(2):  # two rows in turn, so that the compiler knows ``now``
                value = next_one
                load += row if top <= r and r < bottom else np.uint64(0)
                next_one = old[load]
                for s in range(sweeps):
                    sides = beside[1 - now, s, left], beside[1 - now, s, right]
                    relaxed = _relaxed(weight, here[s], above[s], value, sides[0], sides[1])
                    if fixed and np.uint32(r - s - 1 - low) >= changing:
                        relaxed = here[s]
                    above[s], here[s] = here[s], value
                    beside[now, s, me] = value
                    value = relaxed
                if np.uint32(r - sweeps - first) < written:
                    new[store] = value
                    store += row
                r = np.int32(r + 1)
                cuda.syncthreads()

    return fused


_two64, _two32 = _several(2, "float64"), _several(2, "float32")
_four64, _four32 = _several(4, "float64"), _several(4, "float32")
AT_ONCE = {4: (_four64, _four32), 2: (_two64, _two32)}


def _several_all(one: Kernel, real: str) -> Kernel:
    """Return a kernel of `_several` for many blocks, whose arrays are of a type."""
    sweep, cells_at = inlined(one.function), viewer(real)

    @kernel(f"void({real}, {TABLE})")
    def fused_all(weight, count, tasks):  # type: ignore[no-untyped-def]
        at, mine = task_here(count, tasks)
        if mine:
            size = np.int64(tasks[at, SIZE])
            old = cells_at(np.int64(tasks[at, OLD]), size)
            new = cells_at(np.int64(tasks[at, NEW]), size)
            x0, x1 = np.int32(tasks[at, X0]), np.int32(tasks[at, X1])
            y0, y1 = np.int32(tasks[at, Y0]), np.int32(tasks[at, Y1])
            low_x, high_x = np.int32(tasks[at, GROW]), np.int32(tasks[at, GROW + 1])
            low_y, high_y = np.int32(tasks[at, GROW + 2]), np.int32(tasks[at, GROW + 3])
            grow = low_x, high_x, low_y, high_y
            sweep(old, new, weight, tasks[at, ROW], x0, x1, y0, y1, grow)

    return fused_all


_free_two64, _free_two32 = _several(2, "float64", False), _several(2, "float32", False)
_free_four64, _free_four32 = _several(4, "float64", False), _several(4, "float32", False)
FREE = {4: (_free_four64, _free_four32), 2: (_free_two64, _free_two32)}
ALL_AT_ONCE, ALL_FREE = (
    {
        (count, real): _several_all(one, real)
        for count, both in kernels.items()
        for one, real in zip(both, REALS, strict=True)
    }
    for kernels in (AT_ONCE, FREE)
)


def sweep(old: Array, new: Array, x0: int, x1: int, y0: int, y1: int) -> None:
    """Launch one thread for every `MARCH` cells of a column."""
    if x0 < x1 and y0 < y1:
        _sweep_once([(old, new, (x0, x1, y0, y1))])


def sweep_residual(old: Array, new: Array, x0: int, x1: int, y0: int, y1: int) -> float:
    """Sweep as `sweep` does, and reduce in shared memory with one atomic per thread block.

    The bits of floats that are not negative have the order of the floats, and those of a NaN are
    larger than those of any number.
    """
    if x0 >= x1 or y0 >= y1:
        return 0.0
    most = zeros(1, np.int64, new.stream)
    grid = blocks(y1 - y0, THREADS), blocks(x1 - x0, MARCH)
    _measured[grid, THREADS, new.stream](*_arguments(old, new), x0, x1, y0, y1, most)
    return float(to_host(most).view(np.float64)[0])


def sweep_tile(
    old: Array, new: Array, sweeps: int, x0: int, x1: int, y0: int, y1: int, grow: np.ndarray
) -> int:
    """Do four, two or one sweeps per launch; each launch exchanges the arrays once."""
    return sweep_all([(old, new, (x0, x1, y0, y1), tuple(map(int, grow)))], sweeps)


def sweep_all(tasks: Tasks, sweeps: int) -> int:
    """Do `sweep_tile` for many blocks at once; tasks are (old, new, region, grow)."""
    return sweep_in_turns(tasks, sweeps, tuple(AT_ONCE), _launch)


def _launch(tasks: Tasks) -> None:
    """Launch one sweep or several at once; tasks are (old, new, count, region, grow)."""
    if tasks[0][2] == 1:
        _sweep_once([(old, new, region) for old, new, _, region, _ in tasks])
    else:
        _sweep_at_once(tasks)


@repeated
def _sweep_once(tasks: Tasks) -> Launch:
    """Launch one sweep of some regions; tasks are (old, new, region)."""
    old, new, region = tasks[0]
    grids = [
        (blocks(y1 - y0, THREADS), blocks(x1 - x0, MARCH), 1) for *_, (x0, x1, y0, y1) in tasks
    ]
    if len(tasks) == 1:
        return _sweep.prepared((grids[0], THREADS, old.stream), *_arguments(old, new), *region)
    kernel = SWEEP_ALL[old.dtype.itemsize == 4]
    words = [(*_words(old, new), *region) for old, new, region in tasks]
    return launch_for_all(kernel, THREADS, old.stream, zip(grids, words, strict=True), WEIGHT)


@repeated
def _sweep_at_once(tasks: Tasks) -> Launch:
    """Launch several sweeps at once of some regions; tasks are (old, new, count, region, grow)."""
    old, new, count, region, grow = tasks[0]
    widest = max(y1 - y0 for *_, (_, _, y0, y1), _ in tasks)
    threads = min(WIDEST, WARP * blocks(widest + 2 * count, WARP))
    grids = [
        (blocks(y1 - y0, threads - 2 * count), blocks(x1 - x0, STRIP), 1)
        for *_, (x0, x1, y0, y1), _ in tasks
    ]
    free = all(all(grow) for *_, grow in tasks)
    kernel = (FREE if free else AT_ONCE)[count][old.dtype.itemsize == 4]
    if len(tasks) == 1:
        where = grids[0], threads, old.stream
        return kernel.prepared(where, *_arguments(old, new), *region, grow)
    words = [(*_words(old, new), *region, *grow) for old, new, _, region, grow in tasks]
    kernel = (ALL_FREE if free else ALL_AT_ONCE)[count, old.dtype.name]
    return launch_for_all(kernel, threads, old.stream, zip(grids, words, strict=True), WEIGHT)


def _arguments(old: Any, new: Any) -> tuple[Any, ...]:
    """Return the arguments that describe a block's arrays; all kernels begin with them."""
    return flat(old), flat(new), WEIGHT, old.shape[1]


def _words(old: Any, new: Any) -> tuple[int, ...]:
    """Return the words that describe a block's arrays."""
    return old.size, address(old), address(new), old.shape[1]
