"""LeanMD's bins and neighbour lists on the CPU; the interface describes the arrays."""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, void

from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.devices.cpu.quads import append, bits_of
from miniapps.devices.cpu.vectors import WIDTH, broadcast_line, fma, line
from miniapps.kernels.leanmd.cpu.arrays import FLOATS, INDICES, INTS, SEEN
from miniapps.kernels.leanmd.units import FAR, ROUNDING

GROUP = WIDTH * WIDTH  # atoms of the clusters whose lists are filled together
BEFORE_ALL = -(1 << 30)  # an index far from those of all atoms


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


@njit
def _relative(count, position, low, order, room):
    """Return positions relative to a corner, in float32: (3, room), in an order, then far away."""
    found = np.full((3, room), np.float32(FAR), np.float32)
    for axis in range(3):
        for n in range(count):
            found[axis, n] = np.float32(position[axis, order[n]] - low[axis])
    return found


@njit(inline="always")
def _find_rows(box, low, density, bins, first_in, reach, begins, ends):
    """Find the rows of bins near a box, and the atoms there; return the numbers of both."""
    (x0, x1), (y0, y1), (z0, z1) = box
    wide, high = 1.0 / density[0], 1.0 / density[1]
    rows = atoms = 0
    for a in range(
        _place(x0 - reach, low[0], density[0], bins[0]),
        _place(x1 + reach, low[0], density[0], bins[0]) + 1,
    ):
        edge = low[0] + a * wide
        gap_x = _gap(x0, x1, edge, edge + wide, a == 0 or a == bins[0] - 1)
        for b in range(
            _place(y0 - reach, low[1], density[1], bins[1]),
            _place(y1 + reach, low[1], density[1], bins[1]) + 1,
        ):
            edge = low[1] + b * high
            gap_y = _gap(y0, y1, edge, edge + high, b == 0 or b == bins[1] - 1)
            left2 = reach * reach - gap_x * gap_x - gap_y * gap_y
            left = math.sqrt(max(left2, 0.0)) + ROUNDING
            row = (a * bins[1] + b) * bins[2]
            begins[rows] = first_in[row + _place(z0 - left, low[2], density[2], bins[2])]
            ends[rows] = first_in[row + _place(z1 + left, low[2], density[2], bins[2]) + 1]
            near = left2 >= -ROUNDING
            atoms += (ends[rows] - begins[rows]) * near
            rows += near
    return rows, atoms


@njit(inline="always")
def _meet(mine, near, order, first, begin, end, reach2, met, hits, count):
    """Append ``order[begin:end]`` to ``met``, and to ``hits`` which of 16 atoms each is near.

    Returns the new number of atoms met.
    """
    x, y, z = line(mine[0], first), line(mine[1], first), line(mine[2], first)
    for m in range(np.uint64(begin), np.uint64(end)):
        dx = x - broadcast_line(near[0, m])
        dy = y - broadcast_line(near[1, m])
        dz = z - broadcast_line(near[2, m])
        hits[count] = bits_of(fma(dz, dz, fma(dy, dy, dx * dx)) < reach2)
        met[count] = order[m]
        count += np.uint64(1)
    return count


@njit(inline="always")
def _list_near(met, hits, count, own, first, number, neighbors, end):
    """Append the atoms met that are near a cluster to its list; return the end of the list."""
    nothing, members = broadcast_line(np.int32(0)), broadcast_line(np.int32(15 << (4 * number)))
    start = broadcast_line(np.int32(first + WIDTH * number) if own else np.int32(BEFORE_ALL))
    outside = broadcast_line(np.int32(-WIDTH))
    for m in range(np.uint64(0), count, np.uint64(GROUP)):
        atoms = line(met, m)
        others = ((atoms - start) & outside) != nothing
        end = append(neighbors, end, atoms, others & ((line(hits, m) & members) != nothing))
    return end


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
    """Search the bins near four clusters at once.

    Distances are computed in float32. They are off by less than ``slack``, so a list may have atoms
    that are farther away by that.
    """
    x, y, z = position[0], position[1], position[2]
    atoms, clusters = order.size, starts.size - 1
    everyone = np.arange(count).astype(np.uint32)
    mine = _relative(count, position, low, everyone, (clusters + WIDTH) * WIDTH)
    near = _relative(atoms, others, low, order, atoms)
    slack = 2.0**-21 * ((bins / density).max() + reach)
    reach2 = broadcast_line(np.float32((reach + slack) ** 2))
    begins, ends = np.empty(bins[0] * bins[1], np.int64), np.empty(bins[0] * bins[1], np.int64)
    met, hits = np.empty(0, np.int32), np.empty(0, np.int32)
    found = np.uint64(0)
    for k in range(0, clusters, WIDTH):
        first, end = np.uint64(k * WIDTH), min(count, (k + WIDTH) * WIDTH)
        box = _span(x, first, end), _span(y, first, end), _span(z, first, end)
        rows, most = _find_rows(box, low, density, bins, first_in, reach, begins, ends)
        if np.int64(found) + WIDTH * most + GROUP > neighbors.size:
            return -1
        if most + GROUP > met.size:
            met, hits = np.empty(2 * most + GROUP, np.int32), np.empty(2 * most + GROUP, np.int32)
        seen = np.uint64(0)
        for row in range(rows):
            seen = _meet(mine, near, order, first, begins[row], ends[row], reach2, met, hits, seen)
        hits[seen : seen + np.uint64(GROUP)] = 0
        for number in range(min(WIDTH, clusters - k)):
            starts[k + number] = found
            found = _list_near(met, hits, seen, own, first, number, neighbors, found)
            highest = np.uint32((first + np.uint64((number + 1) * WIDTH - 1)) * np.uint64(own))
            for m in range(np.uint64(starts[k + number]), found):
                highest = max(highest, neighbors[m])
            last[k + number] = highest
    starts[clusters] = found
    return found
