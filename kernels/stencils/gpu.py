"""Functions that the GPU kernels of both stencils call: the residual, and the sides of a region."""

from __future__ import annotations

import numpy as np

from devices.cuda.compiler import bits, cuda, inlined


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
