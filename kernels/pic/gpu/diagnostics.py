"""Checks of the particles of PIC on the GPU; `kernels.pic.interface` describes the arrays."""

from __future__ import annotations

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import bits, blocks, cuda, inlined, kernel, ported
from miniapps.devices.cuda.memory import flat, to_host, zeros
from miniapps.devices.cuda.primitives import THREADS, thread_index
from miniapps.kernels.state_hash.cpu import mix

MANY_BLOCKS = 1024  # enough to fill a GPU, where threads take several particles each
NAN = 0x7FF8000000000000  # its bits
_mix = ported(mix)


@inlined
def _distance(at, cell, shift, edge, size):  # type: ignore[no-untyped-def]
    """Return how far a coordinate is from its exact value, on the periodic grid."""
    off = abs(at - (np.float64((cell + shift) % edge) + 0.5))
    return min(off, size - off)


@kernel(
    "void(uint64, float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], float64,"
    "int64[::1])"
)
def _largest_error(count, x, y, cells, motions, shifts, size, worst):  # type: ignore[no-untyped-def]
    n, edge, mine = thread_index(), np.int64(size), np.int64(0)
    while n < count:
        motion = np.uint64(2) * np.uint64(motions[n])
        shift_x, shift_y = shifts[motion], shifts[motion + np.uint64(1)]
        off_x = _distance(x[n], cells[n] // edge, shift_x, edge, size)
        off_y = _distance(y[n], cells[n] % edge, shift_y, edge, size)
        off = bits(max(off_x, off_y))
        if x[n] + y[n] != x[n] + y[n]:
            off = np.int64(NAN)
        mine = max(mine, off)
        n += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.x)
    if mine > 0:
        cuda.atomic.max(worst, 0, mine)


def largest_error(
    count: int, x: Array, y: Array, cells: Array, motions: Array, shifts: Array, size: float
) -> float:
    """Reduce by one atomic per thread; each takes several particles.

    The bits of floats that are not negative have the order of integers, and a NaN's are larger.
    """
    worst = zeros(1, np.int64, x.stream)
    launch = min(blocks(count, THREADS), MANY_BLOCKS), THREADS, x.stream
    if count:
        _largest_error[launch](count, x, y, cells, motions, flat(shifts), size, worst)
    return float(to_host(worst).view(np.float64)[0])


@kernel("void(uint64, int64[::1], uint64[::1])")
def _sums_of_ids(count, ids, sums):  # type: ignore[no-untyped-def]
    n, plain, mixed = thread_index(), np.uint64(0), np.uint64(0)
    while n < count:
        plain += np.uint64(ids[n])
        mixed += _mix(np.uint64(ids[n]))
        n += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.x)
    if plain or mixed:
        cuda.atomic.add(sums, 0, plain)
        cuda.atomic.add(sums, 1, mixed)


def sums_of_ids(count: int, ids: Array) -> np.ndarray:
    """Reduce by two atomics per thread; each takes several particles. Waits for the device."""
    sums = zeros(2, np.uint64, ids.stream)
    if count:
        launch = min(blocks(count, THREADS), MANY_BLOCKS), THREADS, ids.stream
        _sums_of_ids[launch](count, ids, sums)
    return np.array([count, *to_host(sums)], np.uint64)
