"""The audit of CG: random points of all vectors, computed again from the iteration before.

After an iteration, a point of the solution and of the residual follows from the vectors at the 27
points around it before, and from alpha and beta, in which the sums over all points are. So blocks
contribute these patches, and the numbers that all blocks must have alike. How Gauss-Seidel has come
to its result is not computed again, but that of the last colour must solve the equations of its
points. The sums are not audited: to compute one takes all points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from miniapps.audit import BaseAudit, Contribution, Found
from miniapps.cg import plain
from miniapps.contract import JOIN, Check, Measure
from miniapps.decomposition import Layout
from miniapps.grid_audit import Cell, GridAudit, cells_of, differing, values_of

NUMBERS = "rz", "rz_before", "alpha", "beta"
PIPELINED = "xrpqswz"


class CgAudit(GridAudit):
    """Computes points of CG again."""

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        BaseAudit.__init__(self, problem, layout, seed, samples)
        self.size, self.wraps = problem.size, False
        self.cells = [self.drawn(bool(n % 2)) for n in range(samples)]
        if problem.preconditioner != "none":
            for n in (0, 1):  # a half of those in blocks, and of those beside others
                self.cells[n::4] = map(self.of_last_colour, self.cells[n::4])

    def of_last_colour(self, cell: Cell) -> Cell:
        """The next point whose numbers are all even, or the one before where the box ends."""
        odd = [at % 2 for at in cell]
        pairs = zip(cell, odd, self.size, strict=True)
        return tuple(at + o if at + o < n else at - o for at, o, n in pairs)

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The block's vectors near the sample, and its numbers: (1, 4)."""
        numbers = np.array([[float(getattr(block, name)) for name in NUMBERS]])
        found = {"numbers": Measure(JOIN, numbers)}
        vectors = block.vectors if self.problem.pipelined else {**block.vectors, "z": block.z}
        for name, vector in vectors.items():
            if name != "q" or self.problem.pipelined:
                found[name] = Measure(JOIN, self.rows(block, vector, 1))
        return found

    end = begin  # the same after the iteration

    def stated(self, block: Any) -> Mapping[str, np.ndarray]:
        """The block's points of the solution in the sample, as rows of `CELL`."""
        return {"x": self.rows(block, block.vectors["x"], 0)}

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare the sample's bits after an iteration, and the start at the first one."""
        before, after = (measures["numbers"].value for measures in (began, ended))
        alike = all((rows == rows[0]).all() for rows in (before, after))
        computed = self._pipelined if self.problem.pipelined else self._plain
        numbers = dict(zip(NUMBERS, before[0].tolist(), strict=True))
        if not self.problem.pipelined:
            numbers["alpha"] = float(after[0, NUMBERS.index("alpha")])
        wrong = sum(computed(cell, numbers, began, ended) for cell in self.cells)
        checks = [
            Check("audit: points that differ", float(wrong), 0),
            Check("audit: numbers that blocks do not share", float(not alike), 0),
        ]
        if step == 0:
            off = float(sum(self._wrong_start(cell, began) for cell in self.cells))
            checks.append(Check("audit: initial points that differ", off, 0))
        return checks

    def _plain(self, cell: Cell, numbers: Mapping[str, float], began: Found, ended: Found) -> bool:
        """Whether a point has other bits than the iteration gives it."""
        x, r, p, z = (self._patch(began, name, cell) for name in "xrpz")
        p = z + plain.quotient(numbers["rz"], numbers["rz_before"]) * p
        q = plain.applied(self.problem.operator, p).item()
        right = {"x": _at(x) + numbers["alpha"] * _at(p), "r": _at(r) - numbers["alpha"] * q}
        if self.problem.preconditioner != "none" and not any(at % 2 for at in cell):
            around, rest = self._patch(ended, "z", cell), self._patch(ended, "r", cell)
            right["z"] = plain.relaxed(self.problem.operator, around, rest[1:2, 1:2, 1:2]).item()
        return self._differs(right, ended, cell)

    def _pipelined(
        self, cell: Cell, numbers: Mapping[str, float], began: Found, ended: Found
    ) -> bool:
        """The same of a pipelined iteration."""
        x, r, p, q, s, w, z = (_at(self._patch(began, name, cell)) for name in PIPELINED)
        alpha, beta = numbers["alpha"], numbers["beta"]
        s, p, z = w + beta * s, r + beta * p, q + beta * z
        right = {"s": s, "p": p, "z": z, "x": x + alpha * p, "r": r - alpha * s, "w": w - alpha * z}
        around = self._patch(ended, "w", cell)
        right["q"] = plain.applied(self.problem.operator, around).item()
        return self._differs(right, ended, cell)

    def _wrong_start(self, cell: Cell, began: Found) -> bool:
        """Whether a point of the residual is not that of b, or one of the solution not 0."""
        around = plain.solution(self.problem, tuple((at - 1, at + 2) for at in cell))
        b = plain.applied(self.problem.operator, around).item()
        return self._differs({"x": 0.0, "r": b}, began, cell)

    def _differs(self, right: Mapping[str, float], found: Found, cell: Cell) -> bool:
        """Whether a point of some vectors has other bits; also if one of them is missing."""
        there = np.array([_at(self._patch(found, name, cell)) for name in right])
        return differing(there, np.array([*right.values()])) > 0

    def _patch(self, found: Found, name: str, cell: Cell) -> np.ndarray:
        """A vector at the 27 points around one: 0 beyond the box, NaN where nobody contributed."""
        at = np.meshgrid(*(np.arange(n - 1, n + 2) for n in cell), indexing="ij")
        inside = np.all([(0 <= a) & (a < n) for a, n in zip(at, self.size, strict=True)], axis=0)
        numbers = np.ravel_multi_index(at, self.size, mode="clip")
        return np.where(inside, values_of(cells_of(found, name), numbers), 0.0)


def _at(patch: np.ndarray) -> float:
    """The point in the middle of a patch."""
    return float(patch[1, 1, 1])
