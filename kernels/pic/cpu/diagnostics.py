"""Checks of the particles of PIC on the CPU; `kernels.pic.interface` describes the arrays."""

from __future__ import annotations

import math

import numpy as np

from miniapps.devices.cpu.compiler import njit


@njit(
    "float64(int64, float64[::1], float64[::1], int64[::1], int64[::1], int64[:, ::1], float64)",
    cache=True,
    error_model="numpy",
)
def largest_error(count, x, y, cells, motions, shifts, size):
    """One pass over the particles; it ends at the first NaN."""
    worst = 0.0
    edge = np.int64(size)
    for n in range(count):
        to_x = (cells[n] // edge + shifts[motions[n], 0]) % edge + 0.5
        to_y = (cells[n] % edge + shifts[motions[n], 1]) % edge + 0.5
        off_x, off_y = abs(x[n] - to_x), abs(y[n] - to_y)
        off = max(min(off_x, size - off_x), min(off_y, size - off_y))
        if math.isnan(x[n] + y[n]):
            return math.nan
        worst = max(worst, off)
    return worst
