"""LeanMD's bins and neighbour lists on the GPU; the interface describes the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import cuda, inlined, kernel, mul
from miniapps.devices.cuda.memory import PinnedNumber, empty
from miniapps.devices.cuda.primitives import FEW_THREADS, fill, launch, scan
from miniapps.kernels.leanmd.gpu.arrays import triple
from miniapps.kernels.leanmd.gpu.interactions import WIDTH, distance2
from miniapps.kernels.leanmd.units import ROUNDING


@inlined
def _bin(value, low, density, bins):  # type: ignore[no-untyped-def]
    """Return the bin of a coordinate; the first or last bin also holds what lies beyond it."""
    return min(max(np.int64((value - low) * density), np.int64(0)), bins - 1)


@kernel(
    "void(uint32, float64[:, ::1], UniTuple(float64, 3), UniTuple(float64, 3), UniTuple(int64, 3),"
    "boolean, int64[::1], int64[::1], uint32[::1])"
)
def _count_bins(count, position, low, density, bins, turning, counts, keys, ranks):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i >= count:
        return
    a = _bin(position[0, i], low[0], density[0], bins[0])
    b = _bin(position[1, i], low[1], density[1], bins[1])
    c = _bin(position[2, i], low[2], density[2], bins[2])
    if turning:
        b = bins[1] - 1 - b if a & 1 else b
        c = bins[2] - 1 - c if (a * bins[1] + b) & 1 else c
    key = (a * bins[1] + b) * bins[2] + c
    keys[i] = key
    ranks[i] = cuda.atomic.add(counts, key, 1)


@kernel("void(uint32, int64[::1], int64[::1], uint32[::1], uint32[::1])")
def _fill_bins(count, starts, keys, ranks, order):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i < count:
        order[starts[keys[i]] + np.int64(ranks[i])] = i


@kernel("void(uint32, int64[::1], uint32[::1])")
def _tidy_bins(bins, starts, order):  # type: ignore[no-untyped-def]
    """Sort each bin by index, as atoms came in any order. A bin holds one or two atoms."""
    b = np.int64(cuda.grid(1))
    if b < bins:
        for n in range(starts[b] + 1, starts[b + 1]):
            atom, m = order[n], n
            while m > starts[b] and order[m - 1] > atom:
                order[m] = order[m - 1]
                m -= 1
            order[m] = atom


def sort_into_bins(
    count: int, position: Array, low: np.ndarray, density: np.ndarray, bins: np.ndarray,
    turning: bool, starts: Array, order: Array,
) -> None:  # fmt: skip
    """Count by bin, scan, and fill bins by atomics; then sort each bin by index."""
    stream = starts.stream
    fill(starts.size, starts, 0)
    if count == 0:
        return
    keys, ranks = empty((count,), np.int64, stream), empty((count,), np.uint32, stream)
    grid = triple(low), triple(density), triple(bins, int)
    _count_bins[launch(count, starts.stream, FEW_THREADS)](
        count, position, *grid, turning, starts, keys, ranks
    )
    scan(starts)
    _fill_bins[launch(count, starts.stream, FEW_THREADS)](count, starts, keys, ranks, order)
    _tidy_bins[launch(starts.size - 1, starts.stream, FEW_THREADS)](starts.size - 1, starts, order)


@inlined
def _gap(low, high, bin_low, bin_high, outermost):  # type: ignore[no-untyped-def]
    """Return how far a bin is from [low, high]; 0 for an outermost bin, which has no end."""
    return 0.0 if outermost else max(0.0, bin_low - high, low - bin_high)


@inlined
def _is_near(position, first, xj, yj, zj, reach2):  # type: ignore[no-untyped-def]
    """Return whether any atom of a cluster is near a point."""
    for i in range(first, first + np.uint64(WIDTH)):
        dx, dy, dz = position[0, i] - xj, position[1, i] - yj, position[2, i] - zj
        if distance2(dx, dy, dz) < reach2:
            return True
    return False


@inlined
def _span(values, first, end):  # type: ignore[no-untyped-def]
    """Return the smallest and the largest of some values."""
    low = high = values[first]
    for i in range(first + np.uint64(1), end):
        low, high = min(low, values[i]), max(high, values[i])
    return low, high


@inlined
def _look(  # type: ignore[no-untyped-def]
    position, others, own, first, order, begin, end, reach2, found, filling, neighbors
):
    """Count the atoms near a cluster among ``order[begin:end]``; if ``filling``, list them too."""
    for m in range(begin, end):
        j = order[m]
        mine = own and first <= j and j < first + np.uint64(WIDTH)
        if not mine and _is_near(position, first, others[0, j], others[1, j], others[2, j], reach2):
            if filling:
                neighbors[found] = j
            found += 1
    return found


@kernel(
    "void(uint32, uint32, float64[:, ::1], float64[:, ::1], boolean, UniTuple(float64, 3),"
    "UniTuple(float64, 3), UniTuple(int64, 3), int64[::1], uint32[::1], float64, boolean,"
    "int64[::1], uint32[::1])"
)
def _list(  # type: ignore[no-untyped-def]
    count, clusters, position, others, own, low, density, bins, first_in, order, reach, filling,
    found_before, neighbors,
):  # fmt: skip
    """Count or list the near atoms in every `WIDTH`-th row of bins that a cluster may reach.

    So atoms that are neighbours in memory follow each other in a list. A kernel that reads the list
    finds most of them in the L1 cache, as they share a sector with the atom before.
    """
    thread = np.uint32(cuda.grid(1))
    k, member = np.uint64(thread // np.uint32(WIDTH)), thread % np.uint32(WIDTH)
    if k >= clusters:
        return
    if filling and found_before[np.uint32(clusters) * np.uint32(WIDTH)] > neighbors.size:
        return
    first = k * np.uint64(WIDTH)
    end = min(first + np.uint64(WIDTH), np.uint64(count))
    x0, x1 = _span(position[0], first, end)
    y0, y1 = _span(position[1], first, end)
    z0, z1 = _span(position[2], first, end)
    wide, high, reach2 = 1.0 / density[0], 1.0 / density[1], mul(reach, reach)
    found = found_before[thread] if filling else np.int64(0)
    a0 = _bin(x0 - reach, low[0], density[0], bins[0])
    a1 = _bin(x1 + reach, low[0], density[0], bins[0]) + 1
    b0 = _bin(y0 - reach, low[1], density[1], bins[1])
    across = np.uint32(_bin(y1 + reach, low[1], density[1], bins[1]) + 1 - b0)
    for number in range(member, np.uint32(a1 - a0) * across, np.uint32(WIDTH)):
        a, b = a0 + number // across, b0 + number % across
        edge_x, edge_y = low[0] + mul(a, wide), low[1] + mul(b, high)
        gap_x = _gap(x0, x1, edge_x, edge_x + wide, a == 0 or a == bins[0] - 1)
        gap_y = _gap(y0, y1, edge_y, edge_y + high, b == 0 or b == bins[1] - 1)
        left2 = reach2 - mul(gap_x, gap_x) - mul(gap_y, gap_y)
        if left2 >= -ROUNDING:
            left = math.sqrt(max(left2, 0.0)) + ROUNDING
            row = (a * bins[1] + b) * bins[2]
            begin = first_in[row + _bin(z0 - left, low[2], density[2], bins[2])]
            stop = first_in[row + _bin(z1 + left, low[2], density[2], bins[2]) + 1]
            found = _look(
                position, others, own, first, order, begin, stop, reach2, found, filling, neighbors
            )
    if not filling:
        found_before[thread] = found


@kernel("void(uint32, boolean, int64[::1], uint32[::1], int64[::1], uint32[::1], int64[::1])")
def _finish(clusters, own, found_before, neighbors, starts, last, entries):  # type: ignore[no-untyped-def]
    """Set where the list of each cluster begins, and its highest index.

    If there is not enough room, no list has entries.
    """
    k = np.int64(cuda.grid(1))
    if k > clusters:
        return
    total = found_before[np.int64(clusters) * WIDTH]
    fits = total <= neighbors.size
    starts[k] = found_before[k * WIDTH] if fits else 0
    if k == clusters:
        entries[0] = total if fits else -1
        return
    highest = np.uint32((k + 1) * WIDTH - 1 if own else 0)
    if fits:
        for n in range(found_before[k * WIDTH], found_before[(k + 1) * WIDTH]):
            highest = max(highest, neighbors[n])
    last[k] = highest


def fill_lists(
    count: int, position: Array, others: Array, own: bool, low: np.ndarray, density: np.ndarray,
    bins: np.ndarray, first_in: Array, order: Array, reach: float, starts: Array,
    neighbors: Array, last: Array,
) -> Any:  # fmt: skip
    """Count with `WIDTH` threads per cluster, scan, and search again to list.

    Entries are in another order than on the CPU.
    """
    clusters = starts.size - 1
    found = empty((clusters * WIDTH + 1,), np.int64, starts.stream)
    entries = empty((1,), np.int64, starts.stream)
    grid = triple(low), triple(density), triple(bins, int)
    what = count, clusters, position, others, own, *grid, first_in, order, reach
    where = launch(clusters * WIDTH, starts.stream, FEW_THREADS)
    if clusters:
        _list[where](*what, False, found, neighbors)
    scan(found)
    if clusters:
        _list[where](*what, True, found, neighbors)
    _finish[launch(clusters + 1, starts.stream, FEW_THREADS)](
        clusters, own, found, neighbors, starts, last, entries
    )
    return PinnedNumber.begun(entries)
