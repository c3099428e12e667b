"""The types of LeanMD's arrays on the CPU, for the signatures of kernels."""

from __future__ import annotations

from numba import float64, int64, types, uint32

ROWS, WHOLE = float64[:, ::1], int64[:, ::1]
SEEN = types.Array(float64, 2, "C", readonly=True)  # rows that a kernel only reads
FLOATS, INTS, INDICES = float64[::1], int64[::1], uint32[::1]
ROW, NUMBERS = (types.Array(kind, 1, "C", readonly=True) for kind in (float64, uint32))
