"""What the kernels of both stencils share on a GPU: residuals, and sides that grow or not."""

from __future__ import annotations

import numpy as np

from devices.cuda.compiler import bits, cuda, inlined


@inlined
def change(new, old):  # type: ignore[no-untyped-def]
    """How far two numbers are apart, as bits: they have the same order, and a NaN is above all."""
    return bits(np.float64(abs(new - old)))


@inlined
def raise_to(most, mine):  # type: ignore[no-untyped-def]
    """Raise ``most[0]`` to the largest of what the block's threads have, >= 0; all must come."""
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
    """Cells that are there beyond a side: as many as sweeps, or the boundary."""
    return sweeps if grows else 1
