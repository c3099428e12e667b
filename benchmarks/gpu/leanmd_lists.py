"""How many entries LeanMD's lists on a GPU have, and which share of their loads L1 serves.

    python -m benchmarks.gpu.leanmd_lists

A model, without a GPU. A melt is made on the CPU and repeated to fill a GPU. Lists of clusters of 8
are made in the order of `kernels.leanmd.gpu.neighbours`, where each of a cluster's threads searches
every eighth row of bins, or every eighth candidate, as it did in revision b3821c8. Then the warps
of a multiprocessor go through their lists at the same pace, an entry at a time, and a cache of
lines of 128 bytes in sectors of 32 keeps those used last. For the first case an H200 served 52 %,
so the model is too pessimistic; it is for comparisons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from benchmarks.apps.leanmd_baselines import melted
from miniapps.devices.backend import Device
from miniapps.leanmd.atoms import Bins

CELLS, STEPS, COPIES = 30, 120, 2  # of the melt: fcc cells, until it has melted, along each axis
WIDTH, OF_A_WARP, PROCESSORS, MOST = 8, 4, 132, 400  # MOST: entries of a list
SETS, WAYS, SECTORS = 64, 28, 4  # of the cache: 224 KiB
# Bins for clusters of so many atoms; by rows; bytes of a position; warps; threads of a block.
CASES = [
    (4, False, 8, 36, 64), (4, True, 8, 36, 64), (8, True, 8, 36, 64), (8, True, 8, 40, 256),
    (4, False, 16, 48, 64), (8, True, 16, 48, 256),
]  # fmt: skip


def melt() -> tuple[np.ndarray, np.ndarray, float]:
    """Positions (3, n) of a melt, the size of its box, and the reach of lists."""
    block = melted((CELLS,) * 3, STEPS, Device())
    problem = block.problem
    position = block.atoms.own("position") % problem.box[:, np.newaxis]
    steps = np.stack(np.unravel_index(np.arange(COPIES**3), (COPIES,) * 3), axis=1)
    parts = [position + (step * problem.box)[:, np.newaxis] for step in steps]
    return np.concatenate(parts, axis=1), COPIES * problem.box, problem.reach


def with_ghosts(position: np.ndarray, box: np.ndarray, reach: float) -> np.ndarray:
    """Positions with those of the images near the box behind them."""
    for axis in range(3):
        low = position[:, position[axis] < reach].copy()
        high = position[:, position[axis] >= box[axis] - reach].copy()
        low[axis] += box[axis]
        high[axis] -= box[axis]
        position = np.concatenate([position, low, high], axis=1)
    return position


@njit
def fill(position, clusters, by_rows, low, density, bins, first_in, order, reach):  # type: ignore[no-untyped-def]
    """Lists (clusters, `MOST`), their lengths, and how many steps a warp takes to search."""
    lists, counts = np.zeros((clusters, MOST), np.int64), np.zeros(clusters, np.int64)
    found, steps = np.zeros((WIDTH, MOST), np.int64), 0
    lengths = np.zeros((OF_A_WARP, MOST), np.int64)  # of the rows of the clusters of a warp
    for k in range(clusters):
        mine = position[:, k * WIDTH : (k + 1) * WIDTH]
        begin, end, many = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(WIDTH, np.int64)
        for axis in range(3):
            near = mine[axis].min() - reach, mine[axis].max() + reach
            begin[axis] = max(int((near[0] - low[axis]) * density[axis]), 0)
            end[axis] = min(int((near[1] - low[axis]) * density[axis]), bins[axis] - 1) + 1
        if k % OF_A_WARP == 0:
            lengths[:] = 0
        row = 0
        for a in range(begin[0], end[0]):
            for b in range(begin[1], end[1]):
                at = (a * bins[1] + b) * bins[2]
                start, stop = first_in[at + begin[2]], first_in[at + end[2]]
                lengths[k % OF_A_WARP, row] = stop - start
                for n in range(start, stop):
                    j, thread = order[n], (row if by_rows else n - start) % WIDTH
                    away = mine - position[:, j : j + 1]
                    if j // WIDTH != k and (away * away).sum(axis=0).min() < reach * reach:
                        found[thread, many[thread]] = j
                        many[thread] += 1
                row += 1
        for thread in range(WIDTH):
            lists[k, counts[k] : counts[k] + many[thread]] = found[thread, : many[thread]]
            counts[k] += many[thread]
        if k % OF_A_WARP == OF_A_WARP - 1:
            for first in range(0, MOST, WIDTH if by_rows else 1):
                longest = lengths[:, first : first + (WIDTH if by_rows else 1)].max()
                steps += longest if by_rows else -(-longest // WIDTH)
    return lists, counts, steps / (clusters // OF_A_WARP)


@njit
def used(tags, stamps, sectors, address, now):  # type: ignore[no-untyped-def]
    """Whether the cache has the sector of an address; it has it from now on."""
    sector = address // 32
    line, bit = sector // SECTORS, 1 << (sector % SECTORS)
    place = (line * 2654435761 >> 7) % SETS
    oldest = 0
    for way in range(WAYS):
        if tags[place, way] == line:
            hit = sectors[place, way] & bit != 0
            sectors[place, way] |= bit
            stamps[place, way] = now
            return hit
        if stamps[place, way] < stamps[place, oldest]:
            oldest = way
    tags[place, oldest], stamps[place, oldest], sectors[place, oldest] = line, now, bit
    return False


@njit
def requests(lists, counts, warps, size, places):  # type: ignore[no-untyped-def]
    """How many sectors some warps (n, `OF_A_WARP`) load, and how many of them L1 has."""
    tags, stamps = -np.ones((SETS, WAYS), np.int64), np.zeros((SETS, WAYS), np.int64)
    sectors, now, hits = np.zeros((SETS, WAYS), np.int64), 0, 0
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))) * 4
    for n in range(counts.max()):
        for warp in warps:
            for load in range(4 if size == 8 else 2):  # the entry, then x, y and z, or all at once
                seen = [np.int64(-1)]
                for k in warp:
                    if n < counts[k]:
                        address = (load * places + lists[k, n]) * size
                        if load == 0:
                            address = (1 << 40) + starts[k] + 4 * n
                        if address // 32 not in seen:
                            seen.append(address // 32)
                            now += 1
                            hits += used(tags, stamps, sectors, address, now)
    return now, hits


def made(position: np.ndarray, box: np.ndarray, reach: float, width: int, by_rows: bool) -> Any:
    """The lists of all clusters, their lengths, the steps of a search, and the places."""
    order = np.argsort(
        _keys(position, Bins(0 * box, box, width=width), turning=True), kind="stable"
    )
    near = with_ghosts(np.ascontiguousarray(position[:, order]), box, reach)
    bins = Bins(0 * box - reach, box + reach, width=width)
    keys = _keys(near, bins, turning=False)
    first_in = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=bins.bins.prod()))])
    sorted_ = np.argsort(keys, kind="stable")
    clusters = position.shape[1] // WIDTH // OF_A_WARP * OF_A_WARP
    grid = bins.low, bins.density, bins.bins, first_in, sorted_
    return *fill(near, clusters, by_rows, *grid, reach), near.shape[1]


def _keys(position: np.ndarray, bins: Bins, turning: bool) -> np.ndarray:
    """The bins of positions (3, n), as `LeanmdKernels.sort_into_bins` numbers them."""
    at = ((position - bins.low[:, np.newaxis]) * bins.density[:, np.newaxis]).astype(np.int64)
    a, b, c = np.clip(at, 0, bins.bins[:, np.newaxis] - 1)
    if turning:
        b = np.where(a & 1, bins.bins[1] - 1 - b, b)
        c = np.where((a * bins.bins[1] + b) & 1, bins.bins[2] - 1 - c, c)
    return (a * bins.bins[1] + b) * bins.bins[2] + c


def main() -> None:
    """Print a line for each case."""
    position, box, reach = melt()
    for width, by_rows, size, warps, threads in CASES:
        lists, counts, steps, places = made(position, box, reach, width, by_rows)
        clusters = threads // WIDTH
        blocks = PROCESSORS * np.arange(warps * OF_A_WARP // clusters) + 5
        mine = (blocks[:, np.newaxis] * clusters + np.arange(clusters)).reshape(-1, OF_A_WARP)
        loaded, hits = requests(lists, counts, mine, size, places)
        print(
            f"bins for clusters of {width}, {'rows' if by_rows else 'candidates'}, {size} bytes, "
            f"{warps} warps in blocks of {threads}: {counts.mean():.0f} entries, the longest of a "
            f"warp {counts.reshape(-1, OF_A_WARP).max(axis=1).mean():.0f}; {steps:.0f} steps of a "
            f"search; L1 has {hits / loaded:.0%} of {loaded / len(mine) / counts.mean():.1f} "
            "sectors per warp and entry",
            flush=True,
        )


if __name__ == "__main__":
    main()
