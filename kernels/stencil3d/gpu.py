"""Stencil3D on the GPU, with the bits of the CPU; `kernels.stencil3d.interface` gives the formula.

A thread relaxes 16 to 64 cells along x, four at a time. While it does so, the next four are on
their way from memory: only loads in flight make use of its bandwidth, and a load cannot be moved
before a store that may touch the same memory. Neighbours in y and z come from caches. A thread
block covers 8 rows of 32 cells, so a warp loads whole cache lines.

Cost: 16 bytes per cell and sweep from memory (`old` read, `new` written, each once). Rows that
neighbouring thread blocks read too, 2 in 8, come from L2. So do the 2 planes before and behind
those of a thread block, unless as many planes of both arrays exceed L2: then they cost 1 byte more
per cell with 16 planes, 0.25 with 64. Two sweeps at once (`sweep_tile`) cost that once; the cells
that they read twice, 3 in 10, come from L2 too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import Kernel, blocks, cuda, inlined, kernel, mul, viewer
from miniapps.devices.cuda.launches import Launch, Tasks, repeated
from miniapps.devices.cuda.memory import address, flat, to_host, zeros
from miniapps.devices.cuda.tasks import FIRST, TABLE, WORDS, launch_for_all, task_here
from miniapps.kernels.stencils.gpu import (
    change,
    changed,
    next_four,
    raise_to,
    reach,
    sweep_in_turns,
    within,
)

WIDE, HIGH = 32, 8  # cells of a row, and rows, of a thread block
AT_A_TIME = 4  # thread blocks on a multiprocessor: more would have too few registers for loads
MARCHES = 64, 32, 16  # planes of one, multiples of 4: the most that leave `MANY` thread blocks
MANY = 16384  # 31 times as many as a GPU runs at once, so that few are idle at the end
LONG, TALL, DEEP = 32, 16, 64  # cells, rows and planes of a thread block that sweeps twice at once
WEIGHT = 1.0 / 7.0
REALS = "float64", "float32"
SIZE, OLD, NEW, PLANE, ROW, X0, X1, Y0, Y1, Z0, Z1 = range(WORDS, WORDS + 11)  # of a task's row
MARCH = GROW = Z1 + 1  # the word after them, of one sweep or the first of several at once

SWEEP = tuple(
    f"void({real}[::1], {real}[::1], {real}, uint64, uint64, uint64, "
    "uint64, uint64, uint64, uint64, uint64, uint64, uint64)"
    for real in REALS
)
SEVERAL = (
    "void({0}[::1], {0}[::1], {0}, uint64, uint64, int32, int32, int32, int32, int32, int32, "
    "int32, UniTuple(int32, 6))"
)
MEASURED = tuple(signature.replace(")", ", int64[::1])") for signature in SWEEP)


@inlined
def _average(weight, here, below, above, u, at, row):  # type: ignore[no-untyped-def]
    """Return the new value of a cell, given its neighbours along x."""
    one = np.uint64(1)
    around = u[at - row], u[at + row], u[at - one], u[at + one]
    return mul(weight, here + below + above + around[0] + around[1] + around[2] + around[3])


@inlined
def _average_column(old, new, weight, plane, row, layer, march, x0, x1, j, k):  # type: ignore[no-untyped-def]
    """Relax this thread's cells along x, four at a time; return the largest `change`.

    ``layer``: of thread blocks, the one that begins at ``x0``; those before have other regions.
    """
    one, four, most = np.uint64(1), np.uint64(4), np.int64(0)
    i = x0 + (np.uint64(cuda.blockIdx.z) - layer) * march
    end = min(i + march, x1)
    at = i * plane + j * row + k
    below, here = old[at - plane], old[at]
    if i + four <= end:
        first, second, third, fourth = next_four(old, at, plane)
        while i + four <= end:
            a, b, c, d = at, at + plane, at + plane + plane, at + plane + plane + plane
            i += four
            at += four * plane
            ahead = next_four(old, at if i + four <= end else a, plane)  # the last ones are unused
            new_a = _average(weight, here, below, first, old, a, row)
            new_b = _average(weight, first, here, second, old, b, row)
            new_c = _average(weight, second, first, third, old, c, row)
            new_d = _average(weight, third, second, fourth, old, d, row)
            new[a], new[b], new[c], new[d] = new_a, new_b, new_c, new_d
            most = max(most, change(new_a, here), change(new_b, first))
            most = max(most, change(new_c, second), change(new_d, third))
            below, here = third, fourth
            first, second, third, fourth = ahead
    while i < end:
        above = old[at + plane]
        value = _average(weight, here, below, above, old, at, row)
        new[at] = value
        most = max(most, change(value, here))
        below, here = here, above
        i += one
        at += plane
    return most


@inlined
def _line_and_cell(y0, z0):  # type: ignore[no-untyped-def]
    """Return the row of this thread and the cell in it."""
    j = y0 + np.uint64(cuda.blockIdx.y) * np.uint64(HIGH) + np.uint64(cuda.threadIdx.y)
    return j, z0 + np.uint64(cuda.blockIdx.x) * np.uint64(WIDE) + np.uint64(cuda.threadIdx.x)


@kernel(*SWEEP, launch_bounds=(WIDE * HIGH, AT_A_TIME))
def _sweep(  # type: ignore[no-untyped-def]
    old, new, weight, plane, row, layer, march, x0, x1, y0, y1, z0, z1
):
    j, k = _line_and_cell(y0, z0)
    if j < y1 and k < z1:
        _average_column(old, new, weight, plane, row, layer, march, x0, x1, j, k)


def _sweeping_all(real: str) -> Kernel:
    """Return the kernel of `_sweep` for many blocks, whose arrays are of a type."""
    sweep, cells_at = inlined(_sweep.function), viewer(real)

    @kernel(f"void({real}, {TABLE})", launch_bounds=(WIDE * HIGH, AT_A_TIME))
    def sweep_all(weight, count, tasks):  # type: ignore[no-untyped-def]
        at, mine = task_here(count, tasks)
        if mine:
            size = np.int64(tasks[at, SIZE])
            old = cells_at(np.int64(tasks[at, OLD]), size)
            new = cells_at(np.int64(tasks[at, NEW]), size)
            x0, x1, y0, y1 = tasks[at, X0], tasks[at, X1], tasks[at, Y0], tasks[at, Y1]
            sweep(
                old, new, weight, tasks[at, PLANE], tasks[at, ROW],
                tasks[at, FIRST], tasks[at, MARCH], x0, x1, y0, y1, tasks[at, Z0], tasks[at, Z1],
            )  # fmt: skip

    return sweep_all


SWEEP_ALL = _sweeping_all("float64"), _sweeping_all("float32")


@kernel(*MEASURED, launch_bounds=(WIDE * HIGH, AT_A_TIME))
def _measured(  # type: ignore[no-untyped-def]
    old, new, weight, plane, row, layer, march, x0, x1, y0, y1, z0, z1, most
):
    (j, k), mine = _line_and_cell(y0, z0), np.int64(0)
    if j < y1 and k < z1:
        mine = _average_column(old, new, weight, plane, row, layer, march, x0, x1, j, k)
    raise_to(most, mine)


def _several(sweeps: int, real: str, fixed: bool = True) -> Kernel:
    """Return a kernel that does several sweeps at once, from `old`, which it only reads, to `new`.

    A thread block walks along x with one thread per cell of a patch. Once plane r is loaded, sweep
    s can compute plane r - s: the cells before and behind are in the thread's registers, the other
    neighbours were written to shared memory by the neighbouring threads one plane ago. So a plane
    costs one barrier. On all sides of the patch ``sweeps`` threads only compute values for the
    others. Where ``grow`` is 0, cells beyond the region keep their values; if not ``fixed``, it is
    0 nowhere, and no cell is tested for that.
    """

    @kernel(SEVERAL.format(real))
    def fused(  # type: ignore[no-untyped-def]
        old, new, weight, plane, row, layer, x0, x1, y0, y1, z0, z1, grow
    ):
        around = cuda.shared.array((2, sweeps, TALL, LONG), real)
        below = cuda.local.array(sweeps, real)
        here = cuda.local.array(sweeps, real)
        b, c = cuda.threadIdx.y, cuda.threadIdx.x
        b0, b1, c0, c1 = max(b - 1, 0), min(b + 1, TALL - 1), max(c - 1, 0), min(c + 1, LONG - 1)
        j = np.int32(y0 - sweeps + cuda.blockIdx.y * (TALL - 2 * sweeps) + b)
        k = np.int32(z0 - sweeps + cuda.blockIdx.x * (LONG - 2 * sweeps) + c)
        line = min(max(j, y0 - reach(sweeps, grow[2])), y1 + reach(sweeps, grow[3]) - 1)
        cell = min(max(k, z0 - reach(sweeps, grow[4])), z1 + reach(sweeps, grow[5]) - 1)
        top, bottom = x0 - reach(sweeps, grow[0]), x1 + reach(sweeps, grow[1]) - 1
        first = np.int32(x0 + (cuda.blockIdx.z - layer) * DEEP)
        r, end = np.int32(first - sweeps), np.int32(min(first + DEEP, x1) + sweeps)
        low, changing = changed(sweeps, x0, x1, grow[0], grow[1])
        inside = within(j, sweeps, y0, y1, grow[2], grow[3])
        if not (inside and within(k, sweeps, z0, z1, grow[4], grow[5])):
            changing = np.uint32(0)
        mine = b >= sweeps and b < TALL - sweeps and c >= sweeps and c < LONG - sweeps
        written = np.uint32(end - sweeps - first if mine and j < y1 and k < z1 else 0)
        load = np.uint64(max(r, top)) * plane + np.uint64(line) * row + np.uint64(cell)
        store = np.uint64(first) * plane + np.uint64(j) * row + np.uint64(k)
        next_one = old[load]
        while r < end:
            for now in range(2):  # two planes in turn, so that the compiler knows ``now``
                ago, value = 1 - now, next_one
                load += plane if top <= r and r < bottom else np.uint64(0)
                next_one = old[load]
                for s in range(sweeps):
                    averaged = mul(
                        weight,
                        here[s] + below[s] + value
                        + around[ago, s, b0, c] + around[ago, s, b1, c]
                        + around[ago, s, b, c0] + around[ago, s, b, c1],
                    )  # fmt: skip
                    if fixed and np.uint32(r - s - 1 - low) >= changing:
                        averaged = here[s]
                    below[s], here[s] = here[s], value
                    around[now, s, b, c] = value
                    value = averaged
                if np.uint32(r - sweeps - first) < written:
                    new[store] = value
                    store += plane
                r = np.int32(r + 1)
                cuda.syncthreads()

    return fused


AT_ONCE = 2
_two64, _two32 = _several(AT_ONCE, "float64"), _several(AT_ONCE, "float32")
_free64, _free32 = _several(AT_ONCE, "float64", False), _several(AT_ONCE, "float32", False)


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
            sweep(
                old, new, weight, tasks[at, PLANE], tasks[at, ROW], np.int32(tasks[at, FIRST]),
                np.int32(tasks[at, X0]), np.int32(tasks[at, X1]), np.int32(tasks[at, Y0]),
                np.int32(tasks[at, Y1]), np.int32(tasks[at, Z0]), np.int32(tasks[at, Z1]),
                (
                    np.int32(tasks[at, GROW]), np.int32(tasks[at, GROW + 1]),
                    np.int32(tasks[at, GROW + 2]), np.int32(tasks[at, GROW + 3]),
                    np.int32(tasks[at, GROW + 4]), np.int32(tasks[at, GROW + 5]),
                ),
            )  # fmt: skip

    return fused_all


ALL_TWICE = _several_all(_two64, "float64"), _several_all(_two32, "float32")
ALL_FREE = _several_all(_free64, "float64"), _several_all(_free32, "float32")


def _arguments(old: Any, new: Any) -> tuple[Any, ...]:
    """Return the arguments that describe the arrays; all kernels begin with them."""
    _, rows, cells = old.shape
    return flat(old), flat(new), WEIGHT, rows * cells, cells


def _words(old: Any, new: Any) -> tuple[int, ...]:
    """Return the words that describe a block's arrays."""
    _, rows, cells = old.shape
    return old.size, address(old), address(new), rows * cells, cells


@lru_cache
def _grid(shape: tuple[int, int, int]) -> tuple[tuple[int, int, int], int]:
    """Return the thread blocks that cover a region, and the planes of one."""
    planes, rows, cells = shape
    across, down = blocks(cells, WIDE), blocks(rows, HIGH)
    enough = (march for march in MARCHES if across * down * blocks(planes, march) >= MANY)
    march = next(enough, MARCHES[-1])
    return (across, down, blocks(planes, march)), march


def sweep(old: Array, new: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int) -> None:
    """Launch one thread for every 16 to 64 cells along x."""
    if x0 < x1 and y0 < y1 and z0 < z1:
        _sweep_once([(old, new, (x0, x1, y0, y1, z0, z1))])


def sweep_residual(
    old: Array, new: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
) -> float:
    """Sweep as `sweep` does, and reduce in shared memory with one atomic per thread block.

    The bits of floats that are not negative have the order of the floats, and those of a NaN are
    larger than those of any number.
    """
    if x0 >= x1 or y0 >= y1 or z0 >= z1:
        return 0.0
    most = zeros(1, np.int64, new.stream)
    grid, march = _grid((x1 - x0, y1 - y0, z1 - z0))
    launch = grid, (WIDE, HIGH), new.stream
    _measured[launch](*_arguments(old, new), 0, march, x0, x1, y0, y1, z0, z1, most)
    return float(to_host(most).view(np.float64)[0])


def sweep_tile(
    old: Array, new: Array, sweeps: int, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int,
    grow: np.ndarray,
) -> int:  # fmt: skip
    """Do two sweeps or one per launch; each launch exchanges the arrays once."""
    return sweep_all([(old, new, (x0, x1, y0, y1, z0, z1), tuple(map(int, grow)))], sweeps)


def sweep_all(tasks: Tasks, sweeps: int) -> int:
    """Do `sweep_tile` for many blocks at once; tasks are (old, new, region, grow)."""
    return sweep_in_turns(tasks, sweeps, (AT_ONCE,), _launch)


def _launch(tasks: Tasks) -> None:
    """Launch one sweep or two at once; tasks are (old, new, count, region, grow)."""
    if tasks[0][2] == 1:
        _sweep_once([(old, new, region) for old, new, _, region, _ in tasks])
    else:
        _sweep_twice([(old, new, region, grow) for old, new, _, region, grow in tasks])


@repeated
def _sweep_once(tasks: Tasks) -> Launch:
    """Launch one sweep of some regions; tasks are (old, new, region)."""
    old, new, region = tasks[0]
    shapes = [(x1 - x0, y1 - y0, z1 - z0) for *_, (x0, x1, y0, y1, z0, z1) in tasks]
    grids, marches = zip(*map(_grid, shapes), strict=True)
    threads = WIDE, HIGH
    if len(tasks) == 1:
        where = grids[0], threads, old.stream
        return _sweep.prepared(where, *_arguments(old, new), 0, marches[0], *region)
    words = [
        (*_words(old, new), *region, march)
        for (old, new, region), march in zip(tasks, marches, strict=True)
    ]
    kernel = SWEEP_ALL[old.dtype.itemsize == 4]
    return launch_for_all(kernel, threads, old.stream, zip(grids, words, strict=True), WEIGHT)


@repeated
def _sweep_twice(tasks: Tasks) -> Launch:
    """Launch `AT_ONCE` sweeps at once of some regions; tasks are (old, new, region, grow)."""
    old, new, region, grow = tasks[0]
    wide, high = LONG - 2 * AT_ONCE, TALL - 2 * AT_ONCE
    grids = [
        (blocks(z1 - z0, wide), blocks(y1 - y0, high), blocks(x1 - x0, DEEP))
        for *_, (x0, x1, y0, y1, z0, z1), _ in tasks
    ]
    threads, single = (LONG, TALL), old.dtype.itemsize == 4
    free = all(all(grow) for *_, grow in tasks)
    if len(tasks) == 1:
        kernel = ((_free64, _free32) if free else (_two64, _two32))[single]
        where = grids[0], threads, old.stream
        return kernel.prepared(where, *_arguments(old, new), 0, *region, grow)
    words = [(*_words(old, new), *region, *grow) for old, new, region, grow in tasks]
    kernel = (ALL_FREE if free else ALL_TWICE)[single]
    return launch_for_all(kernel, threads, old.stream, zip(grids, words, strict=True), WEIGHT)
