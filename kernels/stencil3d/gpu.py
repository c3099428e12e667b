"""Stencil3D on the GPU, with the bits of the CPU; `kernels.stencil3d.interface` gives the formula.

A thread relaxes `MARCH` cells along x, four at a time. It loads the next four cells and all their
neighbours in y and z before it stores any of them: a load cannot be moved before a store that may
touch the same memory, and only loads in flight make use of the memory's bandwidth. A thread block
covers 8 rows of 32 cells, so a warp loads whole cache lines.

Cost: 16 bytes per cell and sweep from memory (`old` read, `new` written, each once). Planes and
rows that neighbouring thread blocks read too, 2 in `MARCH` and 2 in 8, come from L2. Two sweeps at
once (`sweep_tile`) cost that once; the cells that they read twice, 3 in 10, come from L2 too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.backend import Array
from devices.cuda.compiler import Kernel, blocks, cuda, inlined, kernel, mul
from devices.cuda.memory import flat, to_host, zeros
from kernels.stencils.gpu import change, raise_to, reach

WIDE, HIGH = 32, 8  # cells of a row, and rows, of a thread block
MARCH = 16  # planes of one, a multiple of 4
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
MEASURED = tuple(signature.replace(")", ", int64[::1])") for signature in SWEEP)


@inlined
def _average(weight, here, below, above, u, at, row):  # type: ignore[no-untyped-def]
    """Return the new value of a cell, given its neighbours along x."""
    one = np.uint64(1)
    around = u[at - row], u[at + row], u[at - one], u[at + one]
    return mul(weight, here + below + above + around[0] + around[1] + around[2] + around[3])


@inlined
def _average_column(old, new, weight, plane, row, x0, x1, j, k):  # type: ignore[no-untyped-def]
    """Relax this thread's cells along x, four at a time; return the largest `change`."""
    one, four, most = np.uint64(1), np.uint64(4), np.int64(0)
    i = x0 + np.uint64(cuda.blockIdx.z) * np.uint64(MARCH)
    end = min(i + np.uint64(MARCH), x1)
    at = i * plane + j * row + k
    below, here = old[at - plane], old[at]
    while i + four <= end:
        a, b, c, d = at, at + plane, at + plane + plane, at + plane + plane + plane
        first, second, third, fourth = old[b], old[c], old[d], old[d + plane]
        new_a = _average(weight, here, below, first, old, a, row)
        new_b = _average(weight, first, here, second, old, b, row)
        new_c = _average(weight, second, first, third, old, c, row)
        new_d = _average(weight, third, second, fourth, old, d, row)
        new[a], new[b], new[c], new[d] = new_a, new_b, new_c, new_d
        most = max(most, change(new_a, here), change(new_b, first))
        most = max(most, change(new_c, second), change(new_d, third))
        below, here = third, fourth
        i += four
        at += four * plane
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


@kernel(*SWEEP)
def _sweep(old, new, weight, plane, row, x0, x1, y0, y1, z0, z1):  # type: ignore[no-untyped-def]
    j, k = _line_and_cell(y0, z0)
    if j < y1 and k < z1:
        _average_column(old, new, weight, plane, row, x0, x1, j, k)


@kernel(*MEASURED)
def _measured(  # type: ignore[no-untyped-def]
    old, new, weight, plane, row, x0, x1, y0, y1, z0, z1, most
):
    (j, k), mine = _line_and_cell(y0, z0), np.int64(0)
    if j < y1 and k < z1:
        mine = _average_column(old, new, weight, plane, row, x0, x1, j, k)
    raise_to(most, mine)


def _several(sweeps: int, real: str) -> Kernel:
    """Return a kernel that does several sweeps at once, from `old`, which it only reads, to `new`.

    A thread block walks along x with one thread per cell of a patch. Once plane r is loaded, sweep
    s can compute plane r - s: the cells before and behind are in the thread's registers, the other
    neighbours were written to shared memory by the neighbouring threads one plane ago. So a plane
    costs one barrier. On all sides of the patch ``sweeps`` threads only compute values for the
    others. Where ``grow`` is 0, cells beyond the region keep their values.
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
        line = min(max(j, y0 - reach(sweeps, grow[2])), y1 + reach(sweeps, grow[3]) - 1)
        cell = min(max(k, z0 - reach(sweeps, grow[4])), z1 + reach(sweeps, grow[5]) - 1)
        column = line * row + cell
        stays = (j < y0 and grow[2] == 0) or (j >= y1 and grow[3] == 0)
        stays = stays or (k < z0 and grow[4] == 0) or (k >= z1 and grow[5] == 0)
        top, bottom = x0 - reach(sweeps, grow[0]), x1 + reach(sweeps, grow[1]) - 1
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
                    averaged = mul(
                        weight,
                        here[s] + below[s] + value
                        + around[ago, s, b0, c] + around[ago, s, b1, c]
                        + around[ago, s, b, c0] + around[ago, s, b, c1],
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
    """Return the arguments that describe the arrays; all kernels begin with them."""
    _, rows, cells = old.shape
    return flat(old), flat(new), WEIGHT, rows * cells, cells


def _grid(planes: int, rows: int, cells: int) -> tuple[int, int, int]:
    """Return the thread blocks that cover a region of so many planes, rows and cells."""
    return blocks(cells, WIDE), blocks(rows, HIGH), blocks(planes, MARCH)


def sweep(old: Array, new: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int) -> None:
    """Launch one thread for every `MARCH` cells along x."""
    if x0 < x1 and y0 < y1 and z0 < z1:
        launch = _grid(x1 - x0, y1 - y0, z1 - z0), (WIDE, HIGH), new.stream
        _sweep[launch](*_arguments(old, new), x0, x1, y0, y1, z0, z1)


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
    launch = _grid(x1 - x0, y1 - y0, z1 - z0), (WIDE, HIGH), new.stream
    _measured[launch](*_arguments(old, new), x0, x1, y0, y1, z0, z1, most)
    return float(to_host(most).view(np.float64)[0])


def sweep_tile(
    old: Array, new: Array, sweeps: int, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int,
    grow: np.ndarray,
) -> int:  # fmt: skip
    """Do two sweeps or one per launch; each launch exchanges the arrays once."""
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
    old: Array, new: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, grow: np.ndarray
) -> None:
    """Launch `AT_ONCE` sweeps at once; the last one covers the given region.

    Each sweep before it covers one cell more on every side with ``grow`` = 1.
    """
    grid = (
        blocks(z1 - z0, LONG - 2 * AT_ONCE),
        blocks(y1 - y0, TALL - 2 * AT_ONCE),
        blocks(x1 - x0, DEEP),
    )
    fused = _two32 if old.dtype.itemsize == 4 else _two64
    sides = tuple(int(side) for side in grow)
    fused[grid, (LONG, TALL), new.stream](*_arguments(old, new), x0, x1, y0, y1, z0, z1, sides)
