"""LeanMD's bins and neighbour lists on the CPU; the interface describes the arrays."""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, void

from devices.cpu.compiler import DISTINCT, njit
from devices.cpu.vectors import WIDTH, broadcast, fma, load, some
from kernels.leanmd.cpu.arrays import FLOATS, INDICES, INTS, SEEN
from kernels.leanmd.units import (
    ROUNDING,
)

NOBODY = 1 << 62  # the index of no atom


@njit(inline="always")
def _place(value, low, density, bins):
    """Return the bin of a coordinate; the first or last bin also holds what lies beyond it."""
    return min(max(int64((value - low) * density), 0), bins - 1)


@njit(void(int64, SEEN, FLOATS, FLOATS, INTS, boolean, INTS, INDICES), cache=True)
def sort_into_bins(count, position, low, density, bins, turning, starts, order):
    """A counting sort; atoms of a bin are in ascending order."""
    keys = np.empty(count, np.uint32)
    starts[:] = 0
    for i in range(count):
        a = _place(position[0, i], low[0], density[0], bins[0])
        b = _place(position[1, i], low[1], density[1], bins[1])
        c = _place(position[2, i], low[2], density[2], bins[2])
        if turning:
            b = bins[1] - 1 - b if a & 1 else b
            c = bins[2] - 1 - c if (a * bins[1] + b) & 1 else c
        keys[i] = (a * bins[1] + b) * bins[2] + c
        starts[keys[i] + 1] += 1
    for b in range(starts.size - 1):
        starts[b + 1] += starts[b]
    for i in range(count):
        order[starts[keys[i]]] = i
        starts[keys[i]] += 1
    for b in range(starts.size - 1, 0, -1):
        starts[b] = starts[b - 1]
    starts[0] = 0


@njit(inline="always")
def _span(values, first, last):
    """Return the smallest and the largest of some values."""
    low = high = values[first]
    for i in range(first + 1, last):
        low, high = min(low, values[i]), max(high, values[i])
    return low, high


@njit(inline="always")
def _gap(low, high, bin_low, bin_high, outermost):
    """Return how far a bin is from [low, high]; 0 for an outermost bin, which has no end."""
    return 0.0 if outermost else max(0.0, bin_low - high, low - bin_high)


@njit(inline="always")
def _list_near(position, others, own, first, order, begin, stop, reach, neighbors, found):
    """Append the atoms near a cluster among ``order[begin:stop]``; return the new list length.

    Each atom is written, and then counted or not: a branch would be mispredicted every third time.
    """
    start, reach2 = np.uint64(first), broadcast(reach * reach)
    mine = start if own else np.uint64(NOBODY)
    xi, yi, zi = load(position[0], start), load(position[1], start), load(position[2], start)
    for m in range(np.uint64(begin), np.uint64(stop)):
        j = order[m]
        dx = xi - broadcast(others[0, j])
        dy = yi - broadcast(others[1, j])
        dz = zi - broadcast(others[2, j])
        near = some(fma(dz, dz, fma(dy, dy, dx * dx)) < reach2)
        neighbors[found] = j
        found += np.uint64(near & (np.uint64(j) - mine >= np.uint64(WIDTH)))
    return found


@njit(
    int64(
        int64, SEEN, SEEN, boolean, FLOATS, FLOATS, INTS, INTS, INDICES, float64, INTS, INDICES,
        INDICES,
    ),
    cache=True, error_model="numpy", **DISTINCT,
)  # fmt: skip
def fill_lists(
    count, position, others, own, low, density, bins, first_in, order, reach,
    starts, neighbors, last,
):  # fmt: skip
    """Search the bins near each cluster, cluster after cluster."""
    x, y, z = position[0], position[1], position[2]
    wide, high = 1.0 / density[0], 1.0 / density[1]
    found = np.uint64(0)
    for k in range(starts.size - 1):
        starts[k] = found
        first, end = k * WIDTH, min(count, (k + 1) * WIDTH)
        (x0, x1), (y0, y1), (z0, z1) = (
            _span(x, first, end), _span(y, first, end), _span(z, first, end),
        )  # fmt: skip
        rows = (
            _place(x0 - reach, low[0], density[0], bins[0]),
            _place(x1 + reach, low[0], density[0], bins[0]) + 1,
            _place(y0 - reach, low[1], density[1], bins[1]),
            _place(y1 + reach, low[1], density[1], bins[1]) + 1,
        )
        for a in range(rows[0], rows[1]):
            edge = low[0] + a * wide
            gap_x = _gap(x0, x1, edge, edge + wide, a == 0 or a == bins[0] - 1)
            for b in range(rows[2], rows[3]):
                edge = low[1] + b * high
                gap_y = _gap(y0, y1, edge, edge + high, b == 0 or b == bins[1] - 1)
                left2 = reach * reach - gap_x * gap_x - gap_y * gap_y
                if left2 < -ROUNDING:
                    continue
                left = math.sqrt(max(left2, 0.0)) + ROUNDING
                row = (a * bins[1] + b) * bins[2]
                begin = first_in[row + _place(z0 - left, low[2], density[2], bins[2])]
                stop = first_in[row + _place(z1 + left, low[2], density[2], bins[2]) + 1]
                if np.int64(found) + stop - begin > neighbors.size:
                    return -1
                found = _list_near(
                    position, others, own, first, order, begin, stop, reach, neighbors, found
                )
        highest = np.uint32((first + WIDTH - 1) * own)
        for m in range(np.uint64(starts[k]), found):
            highest = max(highest, neighbors[m])
        last[k] = highest
    starts[starts.size - 1] = found
    return found
