"""What the blocks of a layout compute and send in a step, counted from the decomposition.

An app may export a function ``loads(problem, layout, step)`` that returns `Loads`; the performance
model (docs/model.md) multiplies them by costs of a machine. Nothing is measured or run here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from miniapps.contract import Edge
from miniapps.decomposition import Layout

BLOCKS = "blocks"  # a kind of work: rounds of a block, per step


@dataclass(frozen=True)
class Flow:
    """Messages that every block sends over one edge, if it has a neighbour there.

    ``bytes``: the length of each message, of the shape of the grid of blocks; ``per_step``: how
    many are sent in a time step, a fraction if blocks exchange less often.
    """

    edge: Edge
    bytes: np.ndarray
    per_step: float


@dataclass(frozen=True)
class Loads:
    """What blocks compute and send; arrays have the shape of the grid of blocks.

    ``units``: per kind of work, the units that each block computes in a step; the kind `BLOCKS` is
    what a block's round costs however small it is. ``memory``: bytes
    that a block keeps and passes over in a sweep. ``sweeps``: how often it passes over them while
    they stay in the cache.
    """

    units: Mapping[str, np.ndarray]
    memory: np.ndarray
    flows: tuple[Flow, ...]
    sweeps: int = 1


def product(axes: list[np.ndarray]) -> np.ndarray:
    """The outer product of a factor per axis: (n0, n1, ...)."""
    return np.asarray(math.prod(np.ix_(*axes)), float)


def widths(layout: Layout) -> list[np.ndarray]:
    """Cells of the blocks along each axis."""
    return [np.array(layout.widths(axis), float) for axis in range(len(layout.shape))]


def sides(layout: Layout) -> list[np.ndarray]:
    """How many neighbours the blocks have along each axis: 2, fewer at ends that do not wrap."""
    found = []
    for blocks, wraps in zip(layout.grid, layout.periodic, strict=True):
        number = np.full(blocks, 2.0)
        if not wraps:
            number[0] -= 1
            number[-1] -= 1
        found.append(number)
    return found


def edges(layout: Layout, diagonals: bool) -> Iterator[Edge]:
    """All edges over which some block has a neighbour; ``diagonals``: across corners too."""
    axes = len(layout.grid)
    for edge in itertools.product((-1, 0, 1), repeat=axes):
        steps = sum(map(abs, edge))
        reached = zip(edge, layout.grid, layout.periodic, strict=True)
        if 1 <= steps <= (axes if diagonals else 1) and all(
            not step or blocks > 1 or wraps for step, blocks, wraps in reached
        ):
            yield edge


def flows(
    layout: Layout,
    around: Iterator[Edge],
    extent: Callable[[int, int], np.ndarray],
    per_step: float,
) -> tuple[Flow, ...]:
    """A flow per edge. ``extent(axis, step)``: the factor of its bytes along an axis, per block."""
    return tuple(
        Flow(edge, product([extent(axis, step) for axis, step in enumerate(edge)]), per_step)
        for edge in around
    )
