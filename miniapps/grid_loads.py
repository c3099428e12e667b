"""The loads of the stencil apps: cells that are swept, ghosts included, and faces."""

from __future__ import annotations

import numpy as np

from miniapps.decomposition import Layout
from miniapps.grid import GridProblem
from miniapps.loads import BLOCKS, Loads, edges, flows, product, sides, widths


def loads(problem: GridProblem, layout: Layout, step: int = 0) -> Loads:
    """What blocks compute and send in a step; the same in every step.

    In a round of T sweeps a block receives T layers of ghosts, and sweeps those of them again that
    later sweeps need: sweep s has T - 1 - s layers on each side with a neighbour.
    """
    tile, size = problem.steps_per_round(0), np.dtype(problem.dtype).itemsize
    cells, beside = widths(layout), sides(layout)
    swept = sum(
        product([n + more * two for n, two in zip(cells, beside, strict=True)])
        for more in range(tile)
    )

    def extent(axis: int, step: int) -> np.ndarray:
        depth = np.full(len(cells[axis]), float(tile)) if step else cells[axis]
        return depth * size if axis == 0 else depth

    sent = flows(layout, edges(layout, diagonals=tile > 1), extent, 1 / tile)
    units = {"cells": np.asarray(swept) / tile, BLOCKS: np.full(layout.grid, 1 / tile)}
    return Loads(units, 2.0 * size * product(cells), sent, tile)
