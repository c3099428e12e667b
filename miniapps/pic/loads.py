"""The loads of PIC: the particles of each block, as the program places and moves them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from miniapps import kernels
from miniapps.decomposition import Layout, split
from miniapps.loads import BLOCKS, Flow, Loads, widths
from miniapps.parameters import require
from miniapps.pic.particles import NAMES
from miniapps.pic.problem import PicProblem

EXACT = 1 << 26  # cells of the largest mesh on which every random number is drawn again


def loads(problem: PicProblem, layout: Layout, step: int = 0) -> Loads:
    """What blocks compute and send in a step. Raises InputError for events, which are not counted.

    All particles move alike, so the blocks of step s hold the cells that are as many moves behind.
    """
    require(not problem.events, "model", "pic", "has no --event")
    shift = problem.motions[0].shift(step)
    counts = counted(problem, layout.grid[1], shift[1] % problem.size)
    ends = np.array([layout.bounds((column, 0))[0] for column in range(layout.grid[0])])
    sums = np.concatenate([np.zeros((1, layout.grid[1])), np.cumsum(counts, 0)])
    low, high = (ends - shift[0]).T
    particles = running(sums, high) - running(sums, low)
    tile = int(problem.time_tile)
    row = 8.0 * len(NAMES)
    sent = _flows(problem, layout, particles, tile)
    emigrants = np.asarray(sum(flow.bytes * flow.per_step for flow in sent) / row)
    units = {
        "particles": particles,
        "emigrants": np.broadcast_to(emigrants, layout.grid),
        BLOCKS: np.full(layout.grid, 1 / tile),
    }
    return Loads(units, row * particles, sent)


def running(sums: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Particles left of the columns ``end``, any integers, of a mesh that repeats itself."""
    size = len(sums) - 1
    return sums[end % size] + (end // size)[:, np.newaxis] * sums[-1]


@lru_cache(maxsize=64)
def counted(problem: PicProblem, rows: int, up: int) -> np.ndarray:
    """Particles per column of the mesh in each row of blocks: (size, rows) float64.

    ``up``: cells that the particles have moved along y. Drawn as the program draws them, up to
    `EXACT` cells; for larger meshes the expected numbers.
    """
    size = problem.size
    means = problem.distribution.means(problem.particles, size)
    kept = problem.distribution.kept(size)
    exact = size * size <= EXACT
    count = kernels.load("pic", "cpu").count_columns if exact else None
    found = np.zeros((rows, size))
    for row in range(rows):
        low, high = (end - up for end in split(0, size, rows, row))
        for y0, y1 in _within(low, high, size):
            if count is None:
                inside = max(0, min(y1, kept[3]) - max(y0, kept[2]))
                columns = (np.arange(size) >= kept[0]) & (np.arange(size) < kept[1])
                found[row] += means * columns * inside
                continue
            drawn = np.zeros(size, np.int64)
            count(means, np.array([0, size, y0, y1]), np.array(kept), size, drawn)
            found[row] += drawn
    return found.T


def _within(low: int, high: int, size: int) -> list[tuple[int, int]]:
    """The rows [low, high) of a mesh that repeats itself, as one or two ranges of its own."""
    low, high = low % size, low % size + high - low
    return [(low, min(high, size)), *([(0, high - size)] if high > size else [])]


def _flows(
    problem: PicProblem, layout: Layout, particles: np.ndarray, tile: int
) -> tuple[Flow, ...]:
    """Particles that leave in a round: the share of a block that is as near to its side."""
    x, y = (tile * cells for cells in problem.motions[0].shift(1))
    wide, high = widths(layout)
    along_x = np.minimum(1.0, abs(x) / wide)[:, np.newaxis] * (layout.grid[0] > 1)
    along_y = np.minimum(1.0, abs(y) / high) * (layout.grid[1] > 1)
    up = 1 if y > 0 else -1
    shares = {
        (1, 0): along_x * (1 - along_y),
        (0, up): (1 - along_x) * along_y,
        (1, up): along_x * along_y,
    }
    exists = {(1, 0): layout.grid[0] > 1, (0, up): bool(y) and layout.grid[1] > 1}
    exists[1, up] = all(exists.values())
    row = 8.0 * len(NAMES)
    return tuple(
        Flow(edge, row * share * particles, 1 / tile)
        for edge, share in shares.items()
        if exists[edge]
    )
