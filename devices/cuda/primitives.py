"""Launch sizes, and the kernels that several apps use on a GPU: scan, fill and copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import WARP, blocks, cuda, inlined, kernel
from miniapps.devices.cuda.memory import empty

THREADS = 256  # of a thread block
FEW_THREADS = 64  # where threads take unequal time: a thread block ends with its slowest thread
CHUNK = 32  # numbers that one thread of a scan adds up
SCANNERS = 256  # threads of the thread block that scans what is left, or few numbers


def launch(count: int, stream: Any, threads: int = THREADS) -> tuple[int, int, Any]:
    """Return how to launch a kernel with ``count`` threads or some more on a stream.

    ``kernel[launch(count, stream)](...)``. Few threads make a smaller thread block.
    """
    if count <= threads:
        return 1, WARP * blocks(count, WARP), stream
    return blocks(count, threads), threads, stream


@inlined
def thread_index():  # type: ignore[no-untyped-def]
    """Return the thread's index in the grid, unsigned.

    An array access with a signed index costs a test for a negative one.
    """
    return np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)


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


@inlined
def scan_here(count, values):  # type: ignore[no-untyped-def]
    """Scan in one thread block: each thread adds up its chunk, then the sums before its own."""
    sums = cuda.shared.array(SCANNERS, "int64")
    thread, total = np.int64(cuda.threadIdx.x), np.int64(0)
    first = thread * CHUNK
    end = min(first + CHUNK, np.int64(count))
    for n in range(first, end):
        total += values[n]
    sums[thread] = total
    cuda.syncthreads()
    total = np.int64(0)
    for n in range(thread):
        total += sums[n]
    for n in range(first, end):
        value = values[n]
        values[n] = total
        total += value


@kernel("void(uint32, int64[::1])")
def _scan(count, values):  # type: ignore[no-untyped-def]
    scan_here(count, values)


def scan(values: Array) -> None:
    """Replace each number of (n,) int64 by the sum of those before it: an exclusive prefix sum."""
    chunks = blocks(values.size, CHUNK)
    if chunks <= SCANNERS:
        _scan[launch(chunks, values.stream, SCANNERS)](values.size, values)
        return
    sums = empty((chunks,), np.int64, values.stream)
    where = launch(chunks, values.stream, FEW_THREADS)
    _add_chunks[where](values.size, values, sums)
    scan(sums)
    _spread_chunks[where](values.size, values, sums)


@kernel("void(uint32, int64[::1], int64)")
def _fill(count, values, value):  # type: ignore[no-untyped-def]
    n = np.uint64(cuda.grid(1))
    if n < count:
        values[n] = value


def fill(count: int, values: Array, value: int) -> None:
    """Set the first ``count`` elements of (n,) int64 to a value."""
    _fill[launch(count, values.stream)](count, values, value)


@kernel("void(uint64, uint64[::1], uint64[::1])")
def _copy(count, values, into):  # type: ignore[no-untyped-def]
    n = thread_index()
    if n < count:
        into[n] = values[n]


def copy(count: int, values: Array, into: Array, stream: Any) -> None:
    """Copy the first ``count`` elements of (n,) uint64 into another array."""
    _copy[launch(count, stream)](count, values, into)
