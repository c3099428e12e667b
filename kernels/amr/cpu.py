"""AMR on the CPU; `kernels.amr.interface` gives the formulas.

A sweep goes through the rows once, in place: when the stencil has been applied to a row, 1 is added
to the second row before it, which the stencil does not need any more.

Cost: 11 flops a point. Where arrays are larger than the caches a sweep moves 32 bytes a point: it
reads and writes ``u`` and ``sums``. So it runs at the speed of memory, if five rows of ``u`` stay
in a cache. With one loop for the stencil and another for the addition it would move 40. `check`
reads 16 bytes a point and takes about as long as a sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, float64, int64, types, uint64, void

import miniapps.kernels.state_hash.cpu  # noqa: F401 - compiled before the first step
from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, OPTIONS, njit
from miniapps.kernels.amr import REACH
from miniapps.kernels.halo.interface import Region

IN_PLACE = True
BOUNDS = [int64] * 4
FREE = OPTIONS | DISTINCT


@njit(
    [
        void(real[::1], real[::1], uint64, real, real, real, *BOUNDS, *BOUNDS)
        for real in (float64, float32)
    ],
    **FREE,
)
def _sweep(u, sums, row, near, far, one, x0, x1, y0, y1, low, high, left, right):
    """Apply the stencil with its two weights, and add ``one`` to [low, high) x [left, right).

    The arrays are flat, of rows of ``row`` elements: of others LLVM does not believe that they are
    distinct. Indices are unsigned: to test whether one is negative costs most of the speed.
    """
    next_ = np.uint64(1)
    second, down = next_ + next_, row + row
    for i in range(low, high + REACH):
        first = np.uint64(i) * row
        if x0 <= i < x1:
            for at in range(first + np.uint64(y0), first + np.uint64(max(y0, y1))):
                beside = (u[at + row] - u[at - row]) + (u[at + next_] - u[at - next_])
                beyond = (u[at + down] - u[at - down]) + (u[at + second] - u[at - second])
                sums[at] += near * beside + far * beyond
        if i >= low + REACH:
            for at in range(first - down + np.uint64(left), first - down + np.uint64(right)):
                u[at] += one


def sweep(u: Array, new: Array, sums: Array, scale: int, active: Region, own: Region) -> None:
    """Sweep in place; ``new`` is not used."""
    real, flat, added = u.dtype.type, u.ravel(), sums.ravel()
    _sweep(flat, added, u.shape[1], real(scale / 4), real(scale / 8), real(1), *active, *own)


@njit(
    [
        void(real[:, ::1], real[:, ::1], real, int64, int64, int64, *BOUNDS)
        for real in (float64, float32)
    ],
    **FREE,
)
def _interpolate(coarse, u, part, level, first_x, first_y, x0, x1, y0, y1):
    """Interpolate; ``part``: 2^-level, by which integers become numbers of the arrays' type."""
    real = u.dtype.type
    inside, one = (1 << level) - 1, real(1)
    rows, columns = coarse.shape
    for i in range(x0, x1):
        x = (first_x & inside) + i - x0
        right = part * real(x & inside)
        low = x >> level
        high = min(low + 1, rows - 1)
        for j in range(y0, y1):
            y = (first_y & inside) + j - y0
            up = part * real(y & inside)
            here = y >> level
            there = min(here + 1, columns - 1)
            before = coarse[high, here] * right + coarse[low, here] * (one - right)
            behind = coarse[high, there] * right + coarse[low, there] * (one - right)
            u[i, j] = behind * up + before * (one - up)


def interpolate(coarse: Array, u: Array, level: int, first: tuple[int, int], own: Region) -> None:
    """Go through the points, row after row."""
    _interpolate(coarse, u, u.dtype.type(0.5**level), level, *first, *own)


@njit(
    [
        types.Tuple((float64, int64))(
            real[::1], real[::1], float64[::1], uint64, *[float64] * 4, *BOUNDS, *BOUNDS
        )
        for real in (float64, float32)
    ],
    **FREE,
)
def _check(
    u, sums, totals, row, first_x, first_y, spacing, due, x0, x1, y0, y1, low, high, left, right
):
    """Check, and add up by columns: a running total would be added to by one point at a time.

    ``totals``: zeros, as many as a row of the arrays has elements.
    """
    wrong = 0
    for i in range(low, high):
        x, first = first_x + spacing * (i - low), np.uint64(i) * row
        for j in range(left, right):
            column, y = np.uint64(j), first_y + spacing * (j - left)
            at = first + column
            active = x0 <= i < x1 and y0 <= j < y1
            found = np.float64(sums[at])
            totals[column] += abs(found) if active else 0.0
            wrong += u[at] != x + y
            wrong += found != (due if active else 0.0)
    return totals.sum(), wrong


def check(
    u: Array, sums: Array, first: tuple[float, float], spacing: float, due: float,
    active: Region, own: Region,
) -> Any:  # fmt: skip
    """Go through the points once."""
    flat, added, totals = u.ravel(), sums.ravel(), np.zeros(u.shape[1])
    norm, wrong = _check(flat, added, totals, totals.size, *first, spacing, due, *active, *own)
    return norm, wrong


def report(row: np.ndarray, message: Any) -> None:
    """Copy the numbers."""
    message[...] = row


def reported(message: Any) -> Any:
    """Return the message itself."""
    return message
