"""The audit of CG: random points of all vectors, computed again from the iteration before.

After an iteration, a point of the solution and of the residual follows from the vectors at the 27
points around it before, and from alpha and beta, in which the sums over all points are. So blocks
contribute these patches, and the numbers that all blocks must have alike. A point that Gauss-Seidel
has relaxed follows from the residual at some points around it, however large the box. The sums are
not audited: to compute one takes all points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from miniapps.audit import BaseAudit, Contribution, Found
from miniapps.cg import plain
from miniapps.contract import JOIN, Check, Measure
from miniapps.decomposition import Layout
from miniapps.grid_audit import PATCH_CELLS, Cell, GridAudit, cells_of, differing, values_of

NUMBERS = "rz", "rz_before", "alpha", "beta"
PIPELINED = "xrpqswz"
Cells = Mapping[str, np.ndarray]  # of each vector those contributed, by rising number
# How far from a point along each axis Gauss-Seidel reads the residual. The next point on the way to
# it is of another colour, relaxed earlier. In the order of colours the parities along x change 2
# times, those along y 6 times, and those along z 14 times.
CONE = 2, 6, 14


class CgAudit(GridAudit):
    """Computes points of CG again."""

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        BaseAudit.__init__(self, problem, layout, seed, samples)
        self.size, self.wraps = problem.size, False
        self.relaxes = problem.preconditioner != "none"
        if self.relaxes:
            samples = min(samples, PATCH_CELLS // math.prod(2 * reach + 1 for reach in CONE))
        self.cells = [self.drawn(bool(n % 2)) for n in range(samples)]

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The block's vectors near the sample, and its numbers: (1, 4)."""
        return self._near(block, {"p": 1, "z": 1})

    def end(self, block: Any, step: int, count: int) -> Contribution:
        """The same after the iteration."""
        return self._near(block, {"r": CONE} if self.relaxes else {"w": 1})

    def _near(self, block: Any, reaches: Mapping[str, Any]) -> Contribution:
        """The block's numbers, and its vectors at the sample or up to some points away from it."""
        numbers = np.array([[float(getattr(block, name)) for name in NUMBERS]])
        vectors = {**block.vectors, "z": block.z} if not self.problem.pipelined else block.vectors
        rows = {name: self.rows(block, v, reaches.get(name, 0)) for name, v in vectors.items()}
        return {"numbers": Measure(JOIN, numbers)} | {n: Measure(JOIN, r) for n, r in rows.items()}

    def stated(self, block: Any) -> Mapping[str, np.ndarray]:
        """The block's points of the solution in the sample, as rows of `CELL`."""
        return {"x": self.rows(block, block.vectors["x"], 0)}

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare the sample's bits after an iteration, and the start at the first one."""
        before, after = (measures["numbers"].value for measures in (began, ended))
        old, new = ({name: cells_of(found, name) for name in PIPELINED} for found in (began, ended))
        alike = all((rows == rows[0]).all() for rows in (before, after))
        computed = self._pipelined if self.problem.pipelined else self._plain
        numbers = dict(zip(NUMBERS, before[0].tolist(), strict=True))
        if not self.problem.pipelined:
            numbers["alpha"] = float(after[0, NUMBERS.index("alpha")])
        wrong = sum(computed(cell, numbers, old, new) for cell in self.cells)
        checks = [
            Check("audit: points that differ", float(wrong), 0),
            Check("audit: numbers that blocks do not share", float(not alike), 0),
        ]
        if step == 0:
            off = float(sum(self._wrong_start(cell, old) for cell in self.cells))
            checks.append(Check("audit: initial points that differ", off, 0))
        return checks

    def _plain(self, cell: Cell, numbers: Mapping[str, float], began: Cells, ended: Cells) -> bool:
        """Whether a point has other bits than the iteration gives it."""
        x, r, p, z = (self._patch(began, name, cell) for name in "xrpz")
        p = z + plain.quotient(numbers["rz"], numbers["rz_before"]) * p
        q = plain.applied(self.problem.operator, p).item()
        right = {"x": _at(x) + numbers["alpha"] * _at(p), "r": _at(r) - numbers["alpha"] * q}
        if self.relaxes:
            right["z"] = self._relaxed(cell, ended)
        return self._differs(right, ended, cell)

    def _relaxed(self, cell: Cell, ended: Cells) -> float:
        """A point of the preconditioned residual."""
        axes = [*zip(cell, CONE, self.size, strict=True)]
        lows = [max(at - reach, 0) for at, reach, _ in axes]
        ends = [min(at + reach + 1, n) for at, reach, n in axes]
        box = np.ix_(*map(np.arange, lows, ends))
        numbers = np.ravel_multi_index(np.broadcast_arrays(*box), self.size)
        r = values_of(ended["r"], numbers)
        z = plain.preconditioned(self.problem, r, lows)
        return z[tuple(np.subtract(cell, lows))].item()

    def _pipelined(
        self, cell: Cell, numbers: Mapping[str, float], began: Cells, ended: Cells
    ) -> bool:
        """The same of a pipelined iteration."""
        x, r, p, q, s, w, z = (_at(self._patch(began, name, cell)) for name in PIPELINED)
        alpha, beta = numbers["alpha"], numbers["beta"]
        s, p, z = w + beta * s, r + beta * p, q + beta * z
        right = {"s": s, "p": p, "z": z, "x": x + alpha * p, "r": r - alpha * s, "w": w - alpha * z}
        around = self._patch(ended, "w", cell)
        right["q"] = plain.applied(self.problem.operator, around).item()
        return self._differs(right, ended, cell)

    def _wrong_start(self, cell: Cell, began: Cells) -> bool:
        """Whether a point of the residual is not that of b, or one of the solution not 0."""
        around = plain.solution(self.problem, tuple((at - 1, at + 2) for at in cell))
        b = plain.applied(self.problem.operator, around).item()
        return self._differs({"x": 0.0, "r": b}, began, cell)

    def _differs(self, right: Mapping[str, float], found: Cells, cell: Cell) -> bool:
        """Whether a point of some vectors has other bits; also if one of them is missing."""
        there = np.array([_at(self._patch(found, name, cell)) for name in right])
        return differing(there, np.array([*right.values()])) > 0

    def _patch(self, found: Cells, name: str, cell: Cell) -> np.ndarray:
        """A vector at the 27 points around one: 0 beyond the box, NaN where nobody contributed."""
        at = np.meshgrid(*(np.arange(n - 1, n + 2) for n in cell), indexing="ij")
        inside = np.all([(0 <= a) & (a < n) for a, n in zip(at, self.size, strict=True)], axis=0)
        numbers = np.ravel_multi_index(at, self.size, mode="clip")
        return np.where(inside, values_of(found[name], numbers), 0.0)


def _at(patch: np.ndarray) -> float:
    """The point in the middle of a patch."""
    return float(patch[1, 1, 1])
