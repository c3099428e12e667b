"""The audit of the stencil apps: random cells, computed again through their dependency cones.

A cell after a round of T sweeps depends on the cells up to T away from it before the round. Blocks
contribute these patches, fixed boundaries and periodic images are added here, and plain NumPy
repeats the sweeps in the order of additions that the app defines. The results must have the same
bits. Half of the cells are beside a neighbouring block, on faces, edges and corners, so that their
patches come from several blocks, as does what halos bring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.audit import BaseAudit, Contribution, Found
from miniapps.contract import JOIN, Check, Measure, Piece
from miniapps.decomposition import Bounds, Layout
from miniapps.grid_reference import BEYOND, mean, start

CELL = np.dtype([("cell", np.int64), ("value", np.float64)])  # global number, in C order, and value
PATCH_CELLS = 1 << 16  # contributed to a round, 1 MiB; if the patches have more, there are fewer
START_CELLS = 1000  # of the initial field that are compared
SINE_ERROR = 8  # of a product of initial sines, in units of the last place

Cell = tuple[int, ...]


class GridAudit(BaseAudit):
    """Computes cells of a stencil app again."""

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        super().__init__(problem, layout, seed, samples)
        self.size, self.wraps = problem.size, problem.boundary == "periodic"
        reach = problem.steps_per_round(0)
        fitting = max(1, PATCH_CELLS // (2 * reach + 1) ** len(self.size))
        self.cells = [self.drawn(bool(n % 2)) for n in range(min(samples, fitting))]

    def drawn(self, at_side: bool) -> Cell:
        """A random cell of the domain, or one beside a random block's random neighbour."""
        if not at_side:
            return tuple(map(self.random.randrange, self.size))
        bounds = self.layout.bounds(tuple(map(self.random.randrange, self.layout.grid)))
        ends = [(low, high - 1) for low, high in bounds]
        cell = [self.random.choice((self.random.randint(*end), *end)) for end in ends]
        inner = [  # axes and ends where the block has a neighbour
            (axis, at)
            for axis, (end, n) in enumerate(zip(ends, self.size, strict=True))
            for at in end
            if self.wraps or 0 < at < n - 1
        ]
        if inner:
            axis, at = self.random.choice(inner)
            cell[axis] = at
        return tuple(cell)

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The block's part of the patches from which the sample follows."""
        return self._contribution(block, count)

    def end(self, block: Any, step: int, count: int) -> Contribution:
        """The block's cells of the sample."""
        return self._contribution(block, 0)

    def misstated(self, block: Any, pieces: Sequence[Piece]) -> int:
        """The number of sampled cells that have other bits in the state, or are not there."""
        bounds = self.layout.bounds(block.index)
        return misstated(self.stated(block), pieces, bounds, self.size)

    def stated(self, block: Any) -> Mapping[str, np.ndarray]:
        """The block's cells of the sample, by the name of the piece that must state them."""
        return {"u": self.rows(block, block.old, 0)}

    def given(self, block: Any) -> Contribution:
        """What `stated` returns, as measures."""
        return {name: Measure(JOIN, rows) for name, rows in self.stated(block).items()}

    def _contribution(self, block: Any, reach: int) -> Contribution:
        """The block's cells up to ``reach`` cells away from the sample along each axis."""
        rows = self.rows(block, block.old, reach)
        return {"cells": Measure(JOIN, rows)} if len(rows) else {}

    def rows(self, block: Any, field: Any, reach: int | Sequence[int]) -> np.ndarray:
        """Those of one of its arrays: rows of `CELL`."""
        reaches = np.broadcast_to(reach, len(self.size)).tolist()
        parts = [np.empty(0, CELL)]
        for cell in self.cells:
            if not self._meets(block.bounds, cell, reaches):
                continue
            picked = []
            axes = zip(cell, self.size, block.bounds, reaches, strict=True)
            for at, n, (low, high), far in axes:
                near = np.arange(at - far, at + far + 1)
                near = np.unique(near % n) if self.wraps else near
                picked.append(near[(near >= low) & (near < high)])
            parts.append(self._part(block, field, picked))
        return np.concatenate(parts)

    def _meets(self, bounds: Bounds, cell: Cell, reaches: Sequence[int]) -> bool:
        """Whether cells within reach of a cell lie in a block; most blocks have none."""
        for at, n, (low, high), reach in zip(cell, self.size, bounds, reaches, strict=True):
            first = at - reach
            if not self.wraps:
                if first >= high or at + reach < low:
                    return False
            elif (low - first) % n > 2 * reach and (first - low) % n >= high - low:
                return False
        return True

    def _part(self, block: Any, field: Any, picked: Sequence[np.ndarray]) -> np.ndarray:
        """The cells of a block's array at these global coordinates along each axis: `CELL`."""
        first, last = picked[0][0], picked[0][-1] + 1
        origin = [low - own for (low, _), own in zip(block.bounds, block.own[::2], strict=True)]
        slab = block.device.to_host(field[first - origin[0] : last - origin[0]])
        origin[0] = first
        values = slab[np.ix_(*(at - low for at, low in zip(picked, origin, strict=True)))]
        part = np.empty(values.shape, CELL)
        part["cell"] = np.ravel_multi_index(np.broadcast_arrays(*np.ix_(*picked)), self.size)
        part["value"] = values
        return part.reshape(-1)

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare the sample's bits after a round, and the values before the first one."""
        before, after = cells_of(began), cells_of(ended)
        numbers = np.array([np.ravel_multi_index(cell, self.size) for cell in self.cells])
        right = np.array([self._computed(cell, before, count) for cell in self.cells])
        wrong = float(differing(values_of(after, numbers), right))
        checks = [Check("audit: cells that differ", wrong, 0)]
        if step == 0:
            some = before[:: max(1, len(before) // START_CELLS)]
            off = float(self._wrong_starts(some))
            checks.append(Check("audit: initial cells that differ", off, 0))
        return checks

    def _computed(self, cell: Cell, before: np.ndarray, sweeps: int) -> float:
        """The value of a cell after some sweeps; NaN if a cell that it depends on is missing."""
        around = np.ix_(*(np.arange(at - sweeps, at + sweeps + 1) for at in cell))
        mode: Any = "wrap" if self.wraps else "clip"
        numbers = np.ravel_multi_index(np.broadcast_arrays(*around), self.size, mode=mode)
        patch = values_of(before, numbers)
        beyond = np.full(patch.shape, np.nan)  # fixed values
        if not self.wraps:
            low, high = BEYOND[self.problem.boundary]
            for at, n in zip(around, self.size, strict=True):
                beyond = np.where(at < 0, low, np.where(at >= n, high, beyond))
        return float(self._swept(patch, beyond, sweeps).item())

    def _swept(self, patch: np.ndarray, beyond: np.ndarray, sweeps: int) -> np.ndarray:
        """The cells of a patch that can be computed by some sweeps; 2 per sweep fewer per axis."""
        patch = np.where(np.isnan(beyond), patch, beyond).astype(self.problem.dtype)
        for _ in range(sweeps):
            beyond = beyond[(slice(1, -1),) * beyond.ndim]
            patch = np.where(np.isnan(beyond), mean(patch), beyond).astype(self.problem.dtype)
        return patch

    def _wrong_starts(self, cells: np.ndarray) -> int:
        """The number of cells with a wrong initial value; sines may differ in their last bits."""
        kind = np.dtype(self.problem.dtype)
        right = start(self.problem, cells["cell"]).astype(kind)
        limit = SINE_ERROR * np.finfo(kind).eps if self.problem.initial == "mode" else 0.0
        return int(np.sum(~(np.abs(cells["value"] - right) <= limit)))


def misstated(
    rows: Mapping[str, np.ndarray], pieces: Sequence[Piece], bounds: Bounds, size: tuple[int, ...]
) -> int:
    """How many cells of a block have other bits in its pieces; all and 1 if pieces are others.

    ``rows``: of `CELL`, by the name of the piece. ``bounds``: of the block. ``size``: of the grid.
    """
    origin = tuple(low for low, _ in bounds)
    shape = tuple(high - low for low, high in bounds)
    right = [(name, origin, shape, size) for name in rows]
    if [(p.name, p.origin, p.values.shape, p.shape) for p in pieces] != right:
        return 1 + sum(map(len, rows.values()))
    wrong = 0
    for piece, cells in zip(pieces, rows.values(), strict=True):
        at = np.unravel_index(cells["cell"], size)
        there = piece.values[tuple(n - low for n, low in zip(at, origin, strict=True))]
        wrong += int(np.sum(there.astype(float).view(np.int64) != cells["value"].view(np.int64)))
    return wrong


def cells_of(measures: Found, name: str = "cells") -> np.ndarray:
    """The contributed cells of one name by rising number, each once."""
    cells = measures[name].value if name in measures else np.empty(0, CELL)
    return cells[np.unique(cells["cell"], return_index=True)[1]]


def values_of(cells: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The values of the cells with these numbers; NaN for those that nobody contributed."""
    if not len(cells):
        return np.full(numbers.shape, np.nan)
    at = np.searchsorted(cells["cell"], numbers).clip(max=len(cells) - 1)
    return np.where(cells["cell"][at] == numbers, cells["value"][at], np.nan)


def differing(found: np.ndarray, right: np.ndarray) -> int:
    """The number of values with other bits; also of those that nobody contributed."""
    first, second = (np.ascontiguousarray(values).view(np.int64) for values in (found, right))
    return int(np.sum((first != second) | np.isnan(found)))
