"""The audit of AMR: random points of all grids, computed again from the round before.

All numbers are exact, so a sweep adds 1 to a value, and to a sum what the stencil makes of the
values around the point, whichever sweep of a round it is. Where a refinement begins, the values
around its points are interpolated again, from those of the background before the round. Half of the
points are beside a cut between blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miniapps.amr import plain
from miniapps.amr.layout import BACKGROUND, AmrLayout, refinement
from miniapps.amr.plain import REACH
from miniapps.audit import BaseAudit, Contribution, Found
from miniapps.contract import JOIN, Check, Measure, Piece
from miniapps.decomposition import Bounds
from miniapps.grid_audit import Cell, GridAudit, cells_of, misstated, values_of

BELOW = REACH + 1  # background points from one below a point, in which all that it needs lie
NAMES = "values", "sums"


class Sample(GridAudit):
    """Some points of one grid."""

    def __init__(self, audit: BaseAudit, size: tuple[int, ...], cells: Sequence[Cell]) -> None:
        BaseAudit.__init__(self, audit.problem, audit.layout, audit.seed, len(cells))
        self.size, self.cells, self.wraps = size, list(cells), False

    def around(self, found: Found, name: str, reach: int) -> np.ndarray:
        """Contributed numbers around each point, (points, 2 reach + 1, 2 reach + 1).

        They are NaN where nobody contributed, and any number beyond the grid.
        """
        near = np.arange(-reach, reach + 1)
        x, y = (at[:, np.newaxis] + near for at in np.array(self.cells).T)
        where = x[:, :, np.newaxis], y[:, np.newaxis, :]
        numbers = np.ravel_multi_index(np.broadcast_arrays(*where), self.size, mode="clip")
        return values_of(cells_of(found, name), numbers)


class Audit(BaseAudit):
    """Computes points of AMR again."""

    layout: AmrLayout

    def __init__(self, problem: Any, layout: AmrLayout, seed: int, samples: int) -> None:
        super().__init__(problem, layout, seed, samples)
        self.sample_of = {}
        for kind, family in layout.families().items():
            coarse = kind == BACKGROUND
            of_block = layout.bounds if coarse else layout.fine_bounds
            size = problem.size if coarse else problem.fine_shape
            cells = self._drawn(size, list(map(of_block, family)))
            self.sample_of[kind] = Sample(self, size, cells)

    def _drawn(self, size: tuple[int, ...], blocks: Sequence[Bounds]) -> list[Cell]:
        """Random points of a grid, every other one at an end of a random block along an axis."""
        cells = [list(map(self.random.randrange, size)) for _ in range(self.samples)]
        for cell in cells[1::2]:
            axis = self.random.randrange(len(size))
            low, high = self.random.choice(blocks)[axis]
            cell[axis] = self.random.choice((low, high - 1))
        return [tuple(cell) for cell in cells]

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The block's part of the patches from which the sample follows."""
        found = self._given(block, REACH)
        corner = self.problem.begins_at(step)
        if corner is not None and block.kind == BACKGROUND:
            rows = self._below(corner).rows(block, block.values, BELOW)
            found["below"] = Measure(JOIN, rows)
        return found

    def end(self, block: Any, step: int, count: int) -> Contribution:
        """The block's points of the sample."""
        return self._given(block, 0)

    def _given(self, block: Any, reach: int) -> Contribution:
        """Its values up to so far from the sample, and its sums there, as rows of `CELL`."""
        rows, kind = self.sample_of[block.kind].rows, block.kind
        values, sums = rows(block, block.values, reach), rows(block, block.sums, 0)
        return {f"values of {kind}": Measure(JOIN, values), f"sums of {kind}": Measure(JOIN, sums)}

    def _below(self, corner: int) -> Sample:
        """The background points below the sample of a refinement, or beside these."""
        first, cells = self.problem.corners[corner], self.sample_of[refinement(corner)].cells
        below = np.array(cells) // self.problem.expand + first
        return Sample(self, self.problem.size, list(map(tuple, below.tolist())))

    def misstated(self, block: Any, pieces: Sequence[Piece]) -> int:
        """The number of sampled points that have other numbers in the state, or are not there."""
        rows = {name: measure.value for name, measure in self._given(block, 0).items()}
        return misstated(rows, pieces, block.bounds, self.sample_of[block.kind].size)

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare the sample after a round, and the background's start at the first one."""
        values = self.sample_of[BACKGROUND].around(began, f"values of {BACKGROUND}", REACH)
        wrong = self._wrong(BACKGROUND, values, began, ended, 1)
        corner = self.problem.corner_at(step)
        if corner is not None:
            kind, before = refinement(corner), began
            values = self.sample_of[kind].around(began, f"values of {kind}", REACH)
            if self.problem.begins_at(step) is not None:
                values, before = self._interpolated(corner, began), {}
            sweeps = self.problem.sub_iterations
            wrong += self._wrong(kind, values, before, ended, sweeps)
        checks = [Check("audit: points that differ", float(wrong), 0)]
        if step == 0:
            off = float(self._wrong_starts(began))
            checks.append(Check("audit: initial points that differ", off, 0))
        return checks

    def _interpolated(self, corner: int, began: Found) -> np.ndarray:
        """The values of a refinement that begins around its sample, from the background's."""
        below, size = cells_of(began, "below"), self.problem.size
        first = self.problem.corners[corner]

        def at(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            here = np.ix_(x + first[0], y + first[1])
            number = np.ravel_multi_index(np.broadcast_arrays(*here), size, mode="clip")
            return values_of(below, number)

        boxes = (
            tuple((n - REACH, n + REACH + 1) for n in cell)
            for cell in self.sample_of[refinement(corner)].cells
        )
        return np.array([plain.bilinear(at, box, self.problem.expand) for box in boxes])

    def _wrong(self, kind: str, values: np.ndarray, began: Found, ended: Found, sweeps: int) -> int:
        """How many values and sums of a grid's sample are not as some sweeps make them.

        ``values``: those around the sample before. A sum that nobody contributed before is 0.
        """
        sample = self.sample_of[kind]
        scale = 1 if kind == BACKGROUND else self.problem.expand
        cells = np.array(sample.cells)
        active = ((cells >= REACH) & (cells < np.array(sample.size) - REACH)).all(axis=1)
        added = np.array([plain.stencil(patch).item() for patch in values])
        before = sample.around(began, f"sums of {kind}", 0).ravel() if began else 0.0
        right = {
            "values": values[:, REACH, REACH] + sweeps,
            "sums": before + np.where(active, sweeps * scale * added, 0.0),
        }
        found = {name: sample.around(ended, f"{name} of {kind}", 0).ravel() for name in NAMES}
        return sum(int(np.count_nonzero(found[name] != right[name])) for name in NAMES)

    def _wrong_starts(self, began: Found) -> int:
        """How many points of the background's sample do not begin as the formula says."""
        sample = self.sample_of[BACKGROUND]
        values, sums = (
            sample.around(began, f"{name} of {BACKGROUND}", 0).ravel() for name in NAMES
        )
        pairs = (np.array(cell)[:, np.newaxis] for cell in sample.cells)
        right = np.array([plain.start_at(self.problem, x, y).item() for x, y in pairs])
        return int(np.count_nonzero(values != right) + np.count_nonzero(sums != 0.0))
