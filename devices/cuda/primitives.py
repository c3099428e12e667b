"""Kernels that several apps use on a GPU, and how large launches are."""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.cuda.compiler import WARP, blocks, cuda, inlined, kernel
from devices.cuda.memory import empty, zeros

FEW_THREADS = 64  # of a thread block; few, so that a block waits for few
CHUNK = 32  # numbers that a thread of a scan adds up


def _threads(count: int, array: Any) -> tuple[int, int, Any]:
    """How to launch a kernel for so many threads, on the stream of an array."""
    return blocks(count, FEW_THREADS), max(1, min(count, FEW_THREADS)), array.stream


@kernel("void(uint32, int64[::1], int64[::1])")
def _add_chunks(count, values, sums):  # type: ignore[no-untyped-def]
    chunk = cuda.grid(1)
    if chunk < sums.size:
        total = np.int64(0)
        for n in range(chunk * CHUNK, min((chunk + 1) * CHUNK, np.int64(count))):
            total += values[n]
        sums[chunk] = total


@kernel("void(uint32, int64[::1], int64[::1])")
def _spread_chunks(count, values, sums):  # type: ignore[no-untyped-def]
    chunk = cuda.grid(1)
    if chunk < sums.size:
        total = sums[chunk]
        for n in range(chunk * CHUNK, min((chunk + 1) * CHUNK, np.int64(count))):
            value = values[n]
            values[n] = total
            total += value


def scan(values: Any) -> None:
    """Replace each number of (n,) int64 by the sum of those before it."""
    chunks = blocks(values.size, CHUNK)
    sums = zeros((1,), np.int64, values.stream)
    if chunks > 1:
        sums = empty((chunks,), np.int64, values.stream)
        _add_chunks[_threads(chunks, values)](values.size, values, sums)
        scan(sums)
    _spread_chunks[_threads(chunks, values)](values.size, values, sums)


@kernel("void(uint32, int64[::1], int64)")
def _set(count, values, value):  # type: ignore[no-untyped-def]
    n = np.uint64(cuda.grid(1))
    if n < count:
        values[n] = value


THREADS = 256


@inlined
def _thread():  # type: ignore[no-untyped-def]
    """The thread's number in the grid, unsigned: a signed index costs a test for negative ones."""
    return np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)


def _grid(count: int) -> tuple[int, int]:
    """Thread blocks and their threads for ``count`` threads; few threads make a smaller block.

    There are few numbers of blocks, up to 3 % too many: numba keeps what it finds out about a grid
    for 128 of them, and the count of particles changes in every step.
    """
    threads = min(THREADS, -(-count // WARP) * WARP)
    needed = blocks(count, threads)
    few = 1 << max(0, needed.bit_length() - 6)
    return -(-needed // few) * few, threads


@kernel("void(uint64, uint64[::1], uint64[::1])")
def _copy(count, values, copy):  # type: ignore[no-untyped-def]
    n = _thread()
    if n < count:
        copy[n] = values[n]


@kernel("void(int64[::1], uint64)")
def _clear(starts, count):  # type: ignore[no-untyped-def]
    n = _thread()
    if n < count:
        starts[n] = 0
