"""Functions that the GPU kernels of both stencils call: the residual, and the sides of a region."""

from __future__ import annotations

import numpy as np

from devices.backend import Array
from devices.cuda.compiler import bits, cuda, inlined

MOST = 2**31 - 1024  # cells along an axis: coordinates are int32, those of idle threads too


def check_sizes(array: Array) -> None:
    """Raise ValueError for an array with more cells along an axis than int32 can count."""
    if max(array.shape) > MOST:
        raise ValueError(f"a GPU's time tiles need at most {MOST} cells per axis: {array.shape}")


@inlined
def next_four(old, at, stride):  # type: ignore[no-untyped-def]
    """Return the four cells after the one at an index, along the axis with a stride."""
    b, c, d = at + stride, at + stride + stride, at + stride + stride + stride
    return old[b], old[c], old[d], old[d + stride]


@inlined
def change(new, old):  # type: ignore[no-untyped-def]
    """Return |new - old| as the bits of a float64.

    These integers have the order of the floats, and a NaN is larger than all numbers.
    """
    return bits(np.float64(abs(new - old)))


@inlined
def raise_to(most, mine):  # type: ignore[no-untyped-def]
    """Raise ``most[0]`` to the largest ``mine`` >= 0 of a thread block.

    All threads of the block must call it.
    """
    largest = cuda.shared.array(1, "int64")
    first = cuda.threadIdx.x + cuda.threadIdx.y == 0
    if first:
        largest[0] = 0
    cuda.syncthreads()
    cuda.atomic.max(largest, 0, mine)
    cuda.syncthreads()
    if first and largest[0] > most[0]:  # seldom true once a few blocks are done
        cuda.atomic.max(most, 0, largest[0])


@inlined
def reach(sweeps, grows):  # type: ignore[no-untyped-def]
    """Return how many cells exist beyond a side of a region.

    As many as there are sweeps on the side of a neighbour, one at the boundary of the domain.
    """
    return sweeps if grows else 1


@inlined
def changed(sweeps, low, high, grows_low, grows_high):  # type: ignore[no-untyped-def]
    """Return the first row that several sweeps at once change, and how many they change.

    A row i is one of them if the unsigned ``i - first`` is less than their number: one comparison.
    """
    first = np.int32(low - sweeps * grows_low)
    return first, np.uint32(high + sweeps * grows_high - first)


@inlined
def within(i, sweeps, low, high, grows_low, grows_high):  # type: ignore[no-untyped-def]
    """Return whether several sweeps at once change cells with index ``i`` along an axis."""
    first, count = changed(sweeps, low, high, grows_low, grows_high)
    return np.uint32(i - first) < count
