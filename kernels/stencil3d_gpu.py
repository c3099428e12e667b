"""Stencil3D on the GPU: the kernels of `stencil3d_cpu`, with the same bits.

A thread relaxes `MARCH` cells along x, four at a time: it reads the four that come next and all
their neighbours at four sides before it writes any, for a load cannot pass a store that may touch
what it reads, and loads on their way are what memory's speed is made of. A thread block covers
8 rows of 32 cells, so a warp's loads are whole cache lines. The product is that of a sum and feeds
none, so nothing is contracted, but where it is compared with the old value: there it is kept apart.

Cost: 16 bytes a cell and sweep from memory (`old` read, `new` written, each once). Planes and rows
that neighbouring thread blocks read too, 2 in `MARCH` and 2 in 8, come from L2. Two sweeps at once
(`sweep_tile`) cost that once; what they read twice, 3 cells in 10, comes from L2 too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.cuda import (
    Kernel,
    bits,
    blocks,
    cuda,
    flat,
    inlined,
    kernel,
    mul,
    mul32,
    to_host,
    zeros,
)

WIDE, HIGH = 32, 8  # cells of a row, and rows, of a thread block
MARCH = 16  # planes of one, a multiple of 4
THREADS = 256
RESIDUAL_BLOCKS = 1024  # at most
LONG, TALL, DEEP = 32, 16, 64  # cells, rows and planes of a thread block that sweeps twice at once
WEIGHT = 1.0 / 7.0

SWEEP = tuple(
    f"void({real}[::1], {real}[::1], {real}, uint64, uint64, "
    "uint64, uint64, uint64, uint64, uint64, uint64)"
    for real in ("float64", "float32")
)
SEVERAL = (
    "void({0}[::1], {0}[::1], {0}, int64, int64, int64, int64, int64, int64, int64, int64, "
    "UniTuple(int64, 6))"
)
MEASURED = SWEEP[0].replace("float64", "{0}")[:-1] + ", int64[::1])"


@inlined
def _average(weight, here, below, above, u, at, row):  # type: ignore[no-untyped-def]
    """The new value of a cell, whose neighbours along x are given."""
    one = np.uint64(1)
    return weight * (here + below + above + u[at - row] + u[at + row] + u[at - one] + u[at + one])


@inlined
def _average_four(old, new, weight, plane, row, at, below, here):  # type: ignore[no-untyped-def]
    """Relax four cells along x, from ``at`` on; returns the last and the one after it."""
    a, b, c, d = at, at + plane, at + plane + plane, at + plane + plane + plane
    first, second, third, fourth = old[b], old[c], old[d], old[d + plane]
    new_a = _average(weight, here, below, first, old, a, row)
    new_b = _average(weight, first, here, second, old, b, row)
    new_c = _average(weight, second, first, third, old, c, row)
    new_d = _average(weight, third, second, fourth, old, d, row)
    new[a], new[b], new[c], new[d] = new_a, new_b, new_c, new_d
    return third, fourth


@kernel(*SWEEP)
def _sweep(old, new, weight, plane, row, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    k = z0 + np.uint64(cuda.blockIdx.x) * np.uint64(WIDE) + np.uint64(cuda.threadIdx.x)
    j = y0 + np.uint64(cuda.blockIdx.y) * np.uint64(HIGH) + np.uint64(cuda.threadIdx.y)
    if j >= y1 or k >= z1:
        return
    i = x0 + np.uint64(cuda.blockIdx.z) * np.uint64(MARCH)
    end = min(i + np.uint64(MARCH), x1)
    at = i * plane + j * row + k
    below, here = old[at - plane], old[at]
    while i + np.uint64(4) <= end:
        below, here = _average_four(old, new, weight, plane, row, at, below, here)
        i += np.uint64(4)
        at += np.uint64(4) * plane
    while i < end:
        new[at] = _average(weight, old[at], old[at - plane], old[at + plane], old, at, row)
        i += np.uint64(1)
        at += plane


def _measuring(real: str, times: Any) -> Kernel:
    """A kernel that sweeps and finds the largest change; ``times`` rounds a product."""

    @kernel(MEASURED.format(real))
    def measured(  # type: ignore[no-untyped-def]
        old, new, weight, plane, row, x0, x1, y0, y1, z0, z1, most
    ):
        one, wide, high = np.uint64(1), z1 - z0, y1 - y0
        mine = np.int64(0)
        for cell in range(cuda.grid(1), (x1 - x0) * high * wide, cuda.gridsize(1)):
            line, place = np.uint64(cell) // wide, np.uint64(cell) % wide
            at = (x0 + line // high) * plane + (y0 + line % high) * row + z0 + place
            total = old[at] + old[at - plane] + old[at + plane] + old[at - row] + old[at + row]
            value = times(weight, total + old[at - one] + old[at + one])
            new[at] = value
            mine = max(mine, bits(np.float64(abs(value - old[at]))))
        if mine > most[0]:  # seldom true once a few threads are done
            cuda.atomic.max(most, 0, mine)

    return measured


_measured64, _measured32 = _measuring("float64", mul), _measuring("float32", mul32)


@inlined
def _reach(sweeps, grows):  # type: ignore[no-untyped-def]
    """Cells that are there beyond a side: as many as sweeps, or the boundary."""
    return sweeps if grows else 1


def _several(sweeps: int, real: str) -> Kernel:
    """A kernel that makes some sweeps at once: of `old`, left as it is, into `new`.

    A thread block walks along x with a thread on each cell of a patch. When plane r has come, sweep
    s can be made of plane r - s: what is before and behind a cell, the thread has in registers;
    what is around it, its neighbours have left in shared memory a plane ago. So a plane costs one
    barrier. On all sides of the patch ``sweeps`` threads only help. Where ``grow`` is 0 cells stay
    as they are.
    """

    @kernel(SEVERAL.format(real))
    def fused(  # type: ignore[no-untyped-def]
        old, new, weight, plane, row, x0, x1, y0, y1, z0, z1, grow
    ):
        around = cuda.shared.array((2, sweeps, TALL, LONG), real)
        below = cuda.local.array(sweeps, real)
        here = cuda.local.array(sweeps, real)
        b, c = cuda.threadIdx.y, cuda.threadIdx.x
        b0, b1, c0, c1 = max(b - 1, 0), min(b + 1, TALL - 1), max(c - 1, 0), min(c + 1, LONG - 1)
        j = y0 - sweeps + cuda.blockIdx.y * (TALL - 2 * sweeps) + b
        k = z0 - sweeps + cuda.blockIdx.x * (LONG - 2 * sweeps) + c
        mine = b >= sweeps and b < TALL - sweeps and c >= sweeps and c < LONG - sweeps
        mine = mine and j < y1 and k < z1
        line = min(max(j, y0 - _reach(sweeps, grow[2])), y1 + _reach(sweeps, grow[3]) - 1)
        cell = min(max(k, z0 - _reach(sweeps, grow[4])), z1 + _reach(sweeps, grow[5]) - 1)
        column = line * row + cell
        stays = (j < y0 and grow[2] == 0) or (j >= y1 and grow[3] == 0)
        stays = stays or (k < z0 and grow[4] == 0) or (k >= z1 and grow[5] == 0)
        top, bottom = x0 - _reach(sweeps, grow[0]), x1 + _reach(sweeps, grow[1]) - 1
        first = x0 + cuda.blockIdx.z * DEEP
        end = min(first + DEEP, x1)
        next_one = old[np.uint64(min(max(first - sweeps, top), bottom) * plane + column)]
        for r in range(first - sweeps, end + sweeps):
            value = next_one
            next_one = old[np.uint64(min(max(r + 1, top), bottom) * plane + column)]
            ago = (r + 1) & 1
            for s in range(sweeps):
                i = r - s - 1
                averaged = here[s]
                if not (stays or (i < x0 and grow[0] == 0) or (i >= x1 and grow[1] == 0)):
                    averaged = weight * (
                        here[s] + below[s] + value
                        + around[ago, s, b0, c] + around[ago, s, b1, c]
                        + around[ago, s, b, c0] + around[ago, s, b, c1]
                    )  # fmt: skip
                below[s], here[s] = here[s], value
                around[r & 1, s, b, c] = value
                value = averaged
            if mine and r - sweeps >= first:
                new[np.uint64((r - sweeps) * plane + j * row + k)] = value
            cuda.syncthreads()

    return fused


AT_ONCE = 2
_two64, _two32 = _several(AT_ONCE, "float64"), _several(AT_ONCE, "float32")


def _arguments(old: Any, new: Any) -> tuple[Any, ...]:
    """What every kernel is told of the arrays."""
    _, rows, cells = old.shape
    return flat(old), flat(new), WEIGHT, rows * cells, cells


def sweep(old: Any, new: Any, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int) -> None:
    """Relax the cells [x0, x1) x [y0, y1) x [z0, z1) of `old` once, into `new`."""
    if x0 < x1 and y0 < y1 and z0 < z1:
        grid = blocks(z1 - z0, WIDE), blocks(y1 - y0, HIGH), blocks(x1 - x0, MARCH)
        _sweep[grid, (WIDE, HIGH), new.stream](*_arguments(old, new), x0, x1, y0, y1, z0, z1)


def sweep_residual(
    old: Any, new: Any, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
) -> float:
    """Do `sweep` and return the largest |new - old| over the region (0.0 if it is empty).

    Waits for it. The bits of floats that are not negative are ordered as they are, and a NaN is
    larger than any number.
    """
    cells = max(0, x1 - x0) * max(0, y1 - y0) * max(0, z1 - z0)
    if cells == 0:
        return 0.0
    most = zeros(1, np.int64, new.stream)
    launch = min(blocks(cells, THREADS), RESIDUAL_BLOCKS), THREADS, new.stream
    measured = _measured32 if old.dtype.itemsize == 4 else _measured64
    measured[launch](*_arguments(old, new), x0, x1, y0, y1, z0, z1, most)
    return float(to_host(most).view(np.float64)[0])


def sweep_tile(
    old: Any, new: Any, sweeps: int, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int,
    grow: np.ndarray,
) -> int:  # fmt: skip
    """Relax the cells [x0, x1) x [y0, y1) x [z0, z1) `sweeps` >= 1 times; see the CPU's twin.

    Returns 1 if `new` holds the newest values, 0 if `old` does; the other array holds older ones.
    """
    passes = 0
    while sweeps:
        count = AT_ONCE if sweeps >= AT_ONCE else 1
        sweeps -= count
        low_x, high_x, low_y, high_y, low_z, high_z = (int(side) * sweeps for side in grow)
        region = x0 - low_x, x1 + high_x, y0 - low_y, y1 + high_y, z0 - low_z, z1 + high_z
        if count == 1:
            sweep(old, new, *region)
        else:
            _sweep_at_once(old, new, *region, grow)
        old, new, passes = new, old, passes + 1
    return passes % 2


def _sweep_at_once(
    old: Any, new: Any, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, grow: np.ndarray
) -> None:
    """Make `AT_ONCE` sweeps, each over a region smaller by a cell where it grows, the last this."""
    grid = (
        blocks(z1 - z0, LONG - 2 * AT_ONCE),
        blocks(y1 - y0, TALL - 2 * AT_ONCE),
        blocks(x1 - x0, DEEP),
    )
    fused = _two32 if old.dtype.itemsize == 4 else _two64
    sides = tuple(int(side) for side in grow)
    fused[grid, (LONG, TALL), new.stream](*_arguments(old, new), x0, x1, y0, y1, z0, z1, sides)
