"""Jacobi2D on the GPU: the kernels of `jacobi2d_cpu`, with the same bits.

A thread relaxes one column of `MARCH` cells, four at a time: it reads the four that come next and
all their neighbours at both sides before it writes any, for a load cannot pass a store that may
touch what it reads, and loads on their way are what memory's speed is made of. Threads of a warp
hold neighbouring columns. The product is that of a sum, so nothing can be contracted.

Cost: 16 bytes a cell and sweep (`old` read, `new` written, each once), as the cells above a
thread's first and below its last, 2 in `MARCH`, come from L2, and those beside from L1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.cuda import bits, blocks, cuda, flat, inlined, kernel, to_host, zeros

THREADS = 128  # columns of a thread block
MARCH = 16  # rows of one, a multiple of 4
RESIDUAL_BLOCKS = 1024  # at most

SWEEP = tuple(
    f"void({real}[::1], {real}[::1], {real}, uint64, uint64, uint64, uint64, uint64)"
    for real in ("float64", "float32")
)
RESIDUAL = tuple(signature[:-1] + ", int64[::1])" for signature in SWEEP)


@inlined
def _relaxed(weight, here, above, below, left, right):  # type: ignore[no-untyped-def]
    """The new value of a cell."""
    return weight * (here + above + below + left + right)


@inlined
def _relax_four(old, new, weight, row, at, above, here):  # type: ignore[no-untyped-def]
    """Relax four cells of a column, from ``at`` on; returns the last and the one after it."""
    one = np.uint64(1)
    a, b, c, d = at, at + row, at + row + row, at + row + row + row
    first, second, third, fourth = old[b], old[c], old[d], old[d + row]
    left_a, left_b, left_c, left_d = old[a - one], old[b - one], old[c - one], old[d - one]
    right_a, right_b, right_c, right_d = old[a + one], old[b + one], old[c + one], old[d + one]
    new[a] = _relaxed(weight, here, above, first, left_a, right_a)
    new[b] = _relaxed(weight, first, here, second, left_b, right_b)
    new[c] = _relaxed(weight, second, first, third, left_c, right_c)
    new[d] = _relaxed(weight, third, second, fourth, left_d, right_d)
    return third, fourth


@inlined
def _cell(old, weight, row, at):  # type: ignore[no-untyped-def]
    """The new value of one cell."""
    one = np.uint64(1)
    return _relaxed(weight, old[at], old[at - row], old[at + row], old[at - one], old[at + one])


@kernel(*SWEEP)
def _sweep(old, new, weight, row, x0, x1, y0, y1):  # type: ignore[no-untyped-def]
    j = y0 + np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    if j >= y1:
        return
    i = x0 + np.uint64(cuda.blockIdx.y) * np.uint64(MARCH)
    end = min(i + np.uint64(MARCH), x1)
    at = i * row + j
    above, here = old[at - row], old[at]
    while i + np.uint64(4) <= end:
        above, here = _relax_four(old, new, weight, row, at, above, here)
        i += np.uint64(4)
        at += np.uint64(4) * row
    while i < end:
        new[at] = _cell(old, weight, row, at)
        i += np.uint64(1)
        at += row


@kernel(*RESIDUAL)
def _sweep_residual(old, new, weight, row, x0, x1, y0, y1, most):  # type: ignore[no-untyped-def]
    wide = y1 - y0
    mine = np.int64(0)
    for cell in range(cuda.grid(1), (x1 - x0) * wide, cuda.gridsize(1)):
        at = (x0 + np.uint64(cell) // wide) * row + y0 + np.uint64(cell) % wide
        value = _cell(old, weight, row, at)
        new[at] = value
        mine = max(mine, bits(np.float64(abs(value - old[at]))))
    if mine > most[0]:  # seldom true once a few threads are done
        cuda.atomic.max(most, 0, mine)


def sweep(old: Any, new: Any, x0: int, x1: int, y0: int, y1: int) -> None:
    """Relax the cells [x0, x1) x [y0, y1) of `old` once, into `new`."""
    if x0 < x1 and y0 < y1:
        grid = blocks(y1 - y0, THREADS), blocks(x1 - x0, MARCH)
        arrays = flat(old), flat(new), 0.2, old.shape[1]
        _sweep[grid, THREADS, new.stream](*arrays, x0, x1, y0, y1)


def sweep_residual(old: Any, new: Any, x0: int, x1: int, y0: int, y1: int) -> float:
    """Do `sweep` and return the largest |new - old| over the region (0.0 if it is empty).

    Waits for it. The bits of floats that are not negative are ordered as they are, and a NaN is
    larger than any number.
    """
    if x0 >= x1 or y0 >= y1:
        return 0.0
    most = zeros(1, np.int64, new.stream)
    count = min(blocks((x1 - x0) * (y1 - y0), THREADS), RESIDUAL_BLOCKS)
    arrays = flat(old), flat(new), 0.2, old.shape[1]
    _sweep_residual[count, THREADS, new.stream](*arrays, x0, x1, y0, y1, most)
    return float(to_host(most).view(np.float64)[0])


def sweep_tile(
    old: Any, new: Any, sweeps: int, x0: int, x1: int, y0: int, y1: int, grow: np.ndarray
) -> int:
    """Relax the cells [x0, x1) x [y0, y1) `sweeps` >= 1 times; see the CPU's `sweep_tile`.

    Returns 1 if `new` holds the newest values (`sweeps` odd), 0 if `old` does.
    """
    for more in range(sweeps - 1, -1, -1):
        low_x, high_x, low_y, high_y = (int(g) * more for g in grow)
        sweep(old, new, x0 - low_x, x1 + high_x, y0 - low_y, y1 + high_y)
        old, new = new, old
    return sweeps % 2
