"""The audit of the stencil apps: random cells, computed again through their dependency cones.

A cell after a round of T sweeps depends on the cells up to T away from it before the round. Blocks
contribute these patches, fixed boundaries and periodic images are added here, and plain NumPy
repeats the sweeps in the order of additions that the app defines. The results must have the same
bits. Half of the cells are beside a neighbouring block, on faces, edges and corners, so that their
patches come from several blocks, as does what halos bring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.audit import MASK, BaseAudit, Contribution
from miniapps.contract import JOIN, Check, Measure
from miniapps.decomposition import Layout

CELL = np.dtype([("cell", np.int64), ("value", np.float64)])  # global number, in C order, and value
PATCH_CELLS = (
    1 << 18
)  # that all blocks together contribute to a round, 4 MiB; fewer samples if more
START_CELLS = 1000  # of the initial field that are compared
BEYOND = {"heated": (255.0, 1.0), "zero": (0.0, 0.0)}  # the low and the high faces of the domain

Cell = tuple[int, ...]


class GridAudit(BaseAudit):
    """Computes cells of a stencil app again; the app sets its ``weight``."""

    weight: float  # the factor of the sum over a cell and its neighbours

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        super().__init__(problem, layout, seed, samples)
        self.size, self.wraps = problem.size, problem.boundary == "periodic"
        reach = problem.steps_per_round(0)
        fitting = max(1, PATCH_CELLS // (2 * reach + 1) ** len(self.size))
        self.cells = [self._drawn(bool(n % 2)) for n in range(min(samples, fitting))]

    def _drawn(self, at_side: bool) -> Cell:
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

    def _contribution(self, block: Any, reach: int) -> Contribution:
        """The block's cells up to ``reach`` cells away from the sample along each axis."""
        parts = []
        for cell in self.cells:
            picked = []
            for at, n, (low, high) in zip(cell, self.size, block.bounds, strict=True):
                near = np.arange(at - reach, at + reach + 1)
                near = np.unique(near % n) if self.wraps else near
                picked.append(near[(near >= low) & (near < high)])
            if all(map(len, picked)):
                parts.append(self._part(block, picked))
        return {"cells": Measure(JOIN, np.concatenate(parts))} if parts else {}

    def _part(self, block: Any, picked: Sequence[np.ndarray]) -> np.ndarray:
        """The cells of a block at these global coordinates along each axis, as rows of `CELL`."""
        first, last = picked[0][0], picked[0][-1] + 1
        origin = [low - own for (low, _), own in zip(block.bounds, block.own[::2], strict=True)]
        slab = block.device.to_host(block.old[first - origin[0] : last - origin[0]])
        origin[0] = first
        values = slab[np.ix_(*(at - low for at, low in zip(picked, origin, strict=True)))]
        part = np.empty(values.shape, CELL)
        part["cell"] = np.ravel_multi_index(np.broadcast_arrays(*np.ix_(*picked)), self.size)
        part["value"] = values
        return part.reshape(-1)

    def validate(
        self, step: int, count: int, began: Mapping[str, Measure], ended: Mapping[str, Measure]
    ) -> list[Check]:
        """Compare the sample's bits after a round, and the values before the first one."""
        before, after = _cells(began), _cells(ended)
        numbers = np.array([np.ravel_multi_index(cell, self.size) for cell in self.cells])
        right = np.array([self._computed(cell, before, count) for cell in self.cells])
        wrong = np.isnan(right) | (_values(after, numbers).view(np.int64) != right.view(np.int64))
        checks = [Check("audit: cells that differ", float(np.sum(wrong)), 0)]
        if step == 0:
            some = before[:: max(1, len(before) // START_CELLS)]
            off = sum(self._starts_wrong(*row) for row in some.tolist())
            checks.append(Check("audit: initial cells that differ", float(off), 0))
        return checks

    def _computed(self, cell: Cell, before: np.ndarray, sweeps: int) -> float:
        """The value of a cell after some sweeps; NaN if a cell that it depends on is missing."""
        around = np.ix_(*(np.arange(at - sweeps, at + sweeps + 1) for at in cell))
        mode: Any = "wrap" if self.wraps else "clip"
        numbers = np.ravel_multi_index(np.broadcast_arrays(*around), self.size, mode=mode)
        patch = _values(before, numbers)
        beyond = np.full(patch.shape, np.nan)  # fixed values
        if not self.wraps:
            low, high = BEYOND[self.problem.boundary]
            for at, n in zip(around, self.size, strict=True):
                beyond = np.where(at < 0, low, np.where(at >= n, high, beyond))
        return float(self._swept(patch, beyond, sweeps).item())

    def _swept(self, patch: np.ndarray, beyond: np.ndarray, sweeps: int) -> np.ndarray:
        """The cells of a patch that can be computed by some sweeps; 2 per sweep fewer per axis."""
        kind = np.dtype(self.problem.dtype).type
        patch = np.where(np.isnan(beyond), patch, beyond).astype(kind)
        inner = (slice(1, -1),) * patch.ndim
        for _ in range(sweeps):
            total = patch[inner]
            for axis in range(patch.ndim):
                for start in (0, 2):
                    window = list(inner)
                    window[axis] = slice(start, start + patch.shape[axis] - 2)
                    total = total + patch[tuple(window)]
            beyond = beyond[inner]
            patch = np.where(np.isnan(beyond), kind(self.weight) * total, beyond).astype(kind)
        return patch

    def _starts_wrong(self, number: int, value: float) -> bool:
        """Whether a cell's initial value is wrong; sines may differ in their last bits."""
        kind = np.dtype(self.problem.dtype)
        right = float(kind.type(self._start(number)))
        if self.problem.initial != "mode":
            return value != right
        return not abs(value - right) <= 64 * np.finfo(kind).eps

    def _start(self, number: int) -> float:
        """The initial value of a cell, by its global number."""
        cell = [int(at) for at in np.unravel_index(number, self.size)]
        if self.problem.initial == "ones":
            return 1.0
        if self.problem.initial == "ramp":
            return float(sum(10 ** (6 - 3 * axis) * at for axis, at in enumerate(cell)))
        if self.problem.initial == "noise":
            return _noise(number)
        waves = zip((1, 2, 3), cell, self.size, strict=False)
        if self.wraps:
            return math.prod(math.cos(2 * math.pi * p * at / n + 1) for p, at, n in waves)
        return math.prod(math.sin(math.pi * p * (at + 1) / (n + 1)) for p, at, n in waves)


def _cells(measures: Mapping[str, Measure]) -> np.ndarray:
    """The contributed cells by rising number, each once."""
    cells = measures["cells"].value if "cells" in measures else np.empty(0, CELL)
    return cells[np.unique(cells["cell"], return_index=True)[1]]


def _values(cells: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The values of the cells with these numbers; NaN for those that nobody contributed."""
    if not len(cells):
        return np.full(numbers.shape, np.nan)
    at = np.searchsorted(cells["cell"], numbers).clip(max=len(cells) - 1)
    return np.where(cells["cell"][at] == numbers, cells["value"][at], np.nan)


def _noise(number: int) -> float:
    """SplitMix64 of a cell's number as a fraction of one, in Python's integers."""
    z = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return ((z ^ (z >> 31)) >> 11) / 2**53
