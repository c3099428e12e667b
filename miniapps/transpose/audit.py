"""The audits of Transpose: random elements of the matrices, or waves of the spectrum.

An element of B after a step is the one before plus one of A across the diagonal, which another
block has; both follow to the last bit. A number of the spectrum is a sum over all points, to which
each block contributes its own. Of a point of the field an audit sees that it is the same, but for
rounding, after the transform back; and of the whole field, that it has been rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.audit import BaseAudit, Contribution, Found
from miniapps.contract import Check, Measure, Piece
from miniapps.decomposition import Bounds, Layout
from miniapps.grid_audit import CELL, GridAudit, cells_of, differing, misstated, values_of
from miniapps.transpose import plain
from miniapps.transpose.problem import EPS

WAVES = 4  # of the spectrum that are computed again: each passes over all points
# Limits, in units of the last place times the levels of a transform: of a number of the spectrum,
# relative to the norm of the field; of a point after a transform and back, relative to 1.
WAVE, BACK = 1.0, 1.0
ROUNDED = 1000  # points from which on some bit of a field changes in a transform and back


class MatrixAudit(GridAudit):
    """Computes elements of A and B again."""

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        BaseAudit.__init__(self, problem, layout, seed, samples)
        self.size, self.wraps = problem.shape, False
        some = [self.drawn(bool(n % 2)) for n in range(samples)]
        self.cells = sorted({cell for j, i in some for cell in ((j, i), (i, j))})

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The block's elements of the sample, and those across the diagonal."""
        return self.given(block)

    end = begin  # the same after the step

    def stated(self, block: Any) -> Mapping[str, np.ndarray]:
        """The block's elements of the sample: those of A and B, as rows of `CELL`."""
        return {name: self.rows(block, getattr(block, name), 0) for name in "ab"}

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare the sample's bits after a step, and the start at the first one."""
        j, i = np.array(self.cells).T
        here, across = (np.ravel_multi_index(at, self.size) for at in ((j, i), (i, j)))
        a, b = (values_of(cells_of(began, name), here) for name in "ab")
        right = {"a": a + 1, "b": b + values_of(cells_of(began, "a"), across)}
        wrong = sum(differing(values_of(cells_of(ended, name), here), right[name]) for name in "ab")
        checks = [Check("audit: elements that differ", float(wrong), 0)]
        if step == 0:
            start = (self.size[1] * j + i).astype(float)
            first = differing(a, start) + differing(b, np.zeros(len(b)))
            checks.append(Check("audit: initial elements that differ", float(first), 0))
        return checks


class SpectrumAudit(GridAudit):
    """Computes numbers of the spectrum again."""

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        BaseAudit.__init__(self, problem, layout, seed, samples)
        self.size, self.wraps = problem.size, False
        self.waves = [self.drawn(False) for _ in range(min(samples, WAVES))]
        self.cells = [self.drawn(bool(n % 2)) for n in range(samples)]

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The block's part of the sampled numbers of the spectrum, and its points of the sample."""
        where = self.size, block.lines
        sums = np.array([plain.sum_of(wave, block.bounds, *where) for wave in self.waves])
        norm = np.array(np.vdot(block.lines, block.lines).real)
        sums_of = {"sums": Measure("sum", sums), "square": Measure("sum", norm)}
        return sums_of | {"bits": self._bits(block), **self.given(block)}

    def end(self, block: Any, step: int, count: int) -> Contribution:
        """The numbers of the spectrum that the block has, and its points of the sample."""
        spans = block.y_of_x.own, block.z_of_y.own
        found = np.zeros((len(self.waves), 2), complex)
        for number, (k, *rest) in enumerate(self.waves):
            if all(low <= at < high for at, (low, high) in zip(rest, spans, strict=True)):
                y, z = (at - low for at, (low, _) in zip(rest, spans, strict=True))
                found[number] = block.spectrum[y, z, k], 1
        return {"numbers": Measure("sum", found), "bits": self._bits(block), **self.given(block)}

    def _bits(self, block: Any) -> Measure:
        """The sum of the field's bits as integers, modulo 2^64."""
        bits = block.lines.reshape(-1).view(np.uint64)
        return Measure("sum", bits.sum(keepdims=True))

    def stated(self, block: Any) -> Mapping[str, np.ndarray]:
        """The block's points of the sample: imaginary and real parts, as rows of `CELL`."""
        return self._rows("", block.lines, block.bounds)

    def misstated(self, block: Any, pieces: Sequence[Piece]) -> int:
        """The number of sampled points and waves that have other bits in the state, or are lost."""
        waves = block.spectrum.transpose(2, 0, 1)  # not from `fields`, which makes the state, too
        parts = (
            ("", block.lines, block.bounds, pieces[:2]),
            ("spectrum ", waves, block.waves, pieces[2:]),
        )
        return sum(
            misstated(self._rows(of, values, bounds), some, bounds, self.size)
            for of, values, bounds, some in parts
        )

    def _rows(self, of: str, values: np.ndarray, bounds: Bounds) -> dict[str, np.ndarray]:
        """The sample's rows of `CELL` in both parts of a block's field or spectrum."""
        parts = {"imaginary": values.imag, "real": values.real}
        return {of + name: self._picked(part, bounds) for name, part in parts.items()}

    def _picked(self, part: np.ndarray, bounds: Bounds) -> np.ndarray:
        """The points of the sample in a block's array, as rows of `CELL`."""
        low, high = np.array(bounds).T
        cells = np.array(self.cells).reshape(-1, 3)
        mine = cells[((cells >= low) & (cells < high)).all(axis=1)]
        rows = np.empty(len(mine), CELL)
        rows["cell"] = np.ravel_multi_index(tuple(mine.T), self.size)
        rows["value"] = part[tuple((mine - low).T)]
        return rows

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare the spectrum with sums over all points, and the points before and after."""
        numbers = ended["numbers"].value
        norm, limit = math.sqrt(float(began["square"].value)), EPS * self.problem.levels
        off = np.abs(numbers[:, 0] - began["sums"].value).max() / norm
        missing = float((numbers[:, 1] != 1).sum())
        at = np.ravel_multi_index(tuple(np.array(self.cells).T), self.size)
        before, after = (
            [values_of(cells_of(found, name), at) for name in ("real", "imaginary")]
            for found in (began, ended)
        )
        away = float(np.abs(np.array(after) - np.array(before)).max())
        checks = [
            Check("audit: distance from waves", float(off), WAVE * limit),
            Check("audit: waves that one block does not have", missing, 0),
            Check("audit: distance from points before", away, BACK * limit),
        ]
        if self.problem.points >= ROUNDED:
            alike = began["bits"].value == ended["bits"].value
            checks.append(Check("audit: field that was not transformed", float(alike.all()), 0))
        if step == 0:
            right = plain.field(self.problem, at)
            first = differing(before[0], right.real) + differing(before[1], right.imag)
            checks.append(Check("audit: initial points that differ", float(first), 0))
        return checks


def Audit(  # noqa: N802 - what an app exports
    problem: Any, layout: Layout, seed: int, samples: int
) -> GridAudit:
    """The audit of a problem."""
    return (SpectrumAudit if problem.fft else MatrixAudit)(problem, layout, seed, samples)
