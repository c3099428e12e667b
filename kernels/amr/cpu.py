"""AMR on the CPU: a star stencil of radius 2, whose results are added up.

The stencil is that of the Parallel Research Kernels (Van der Wijngaart and others, ISC 2017): the
sum of the two first derivatives, on a grid whose spacing is 1 / scale:

    S[i, j] = 1/4 ((u[i+1, j] - u[i-1, j]) + (u[i, j+1] - u[i, j-1]))
            + 1/8 ((u[i+2, j] - u[i-2, j]) + (u[i, j+2] - u[i, j-2]))
    sums[i, j] += scale S[i, j]

in this order of additions, without fast-math or contraction. All weights are powers of two, so if
``u`` has few bits, as in this app, all results are exact.

Arrays are float64, C order, of the same shape (rows, columns), ghost layers and any padding
included. Bounds x0:x1 (rows) and y0:y1 (columns) are indices into them. No function checks its
arguments.

Cost: `add_stencil` makes 11 flops a point and moves 24 bytes: it reads ``u``, and reads and writes
``sums``. `add_one` makes 1 flop and moves 16 bytes. Both run at the speed of memory where the
arrays are larger than the caches.
"""

from typing import Any

import numpy as np
from numba import float64, int64, void

import miniapps.kernels.state_hash.cpu  # noqa: F401 - compiled before the first step
from miniapps.devices.cpu.compiler import njit

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
}


@njit(void(float64[:, ::1], float64[:, ::1], float64, int64, int64, int64, int64), **OPTIONS)
def add_stencil(u, sums, scale, x0, x1, y0, y1):
    """Add the stencil of ``u``, times ``scale``, to the points [x0, x1) x [y0, y1) of ``sums``.

    The points of ``u`` up to `REACH` beside the region must exist. Nothing is done for an empty
    region.
    """
    # Flat arrays and unsigned indices: a signed one could be negative, and to test for that costs
    # most of the speed.
    row, one = np.uint64(u.shape[1]), np.uint64(1)
    two, down = one + one, row + row
    v, total = u.reshape(u.size), sums.reshape(sums.size)
    for i in range(x0, x1):
        first = np.uint64(i) * row
        for at in range(first + np.uint64(y0), first + np.uint64(max(y0, y1))):
            near = (v[at + row] - v[at - row]) + (v[at + one] - v[at - one])
            far = (v[at + down] - v[at - down]) + (v[at + two] - v[at - two])
            total[at] += scale * (0.25 * near + 0.125 * far)


@njit(void(float64[:, ::1], int64, int64, int64, int64), **OPTIONS)
def add_one(u, x0, x1, y0, y1):
    """Add 1 to the points [x0, x1) x [y0, y1) of ``u``."""
    for i in range(x0, x1):
        for j in range(y0, y1):
            u[i, j] += 1.0
