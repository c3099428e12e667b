"""AMR in plain NumPy: the start, what must come out, and the reference.

All numbers are multiples of a power of two and have few bits, so every sum and product is exact,
and a formula gives the bits that a run must have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miniapps.contract import Piece
from miniapps.decomposition import Bounds
from miniapps.plain_hash import uniform, words_of

Field = np.ndarray
REACH = 2  # the stencil's, along an axis
SLOPE = 2.0  # of the linear start, along both axes together: what the stencil gives everywhere
BITS = {"float64": 20, "float32": 8}  # of a random number in [0, 1), by the type of the values


def start_at(problem: Any, x: Field, y: Field) -> Field:
    """The background at step 0 at all pairs of coordinates x (n,) and y (m,): (n, m).

    It is x + y; or the upper bits of SplitMix64's number for the point.
    """
    x = x[:, np.newaxis]
    if problem.initial == "linear":
        return (x + y).astype(float)
    return uniform(x * problem.size[1] + y, problem.bits)


def bilinear(at: Callable[[Field, Field], Field], bounds: Bounds, expand: int) -> Field:
    """A box of points of a refinement, by the four background points around each.

    ``at(x, y)``: the background at all pairs of coordinates, counted from the refinement's first.
    """
    (x, right), (y, up) = (np.divmod(np.arange(low, high), expand) for low, high in bounds)
    right, up = right[:, np.newaxis] / expand, up / expand
    low = at(x, y) * ((1 - right) * (1 - up)) + at(x, y + 1) * ((1 - right) * up)
    high = at(x + 1, y) * (right * (1 - up)) + at(x + 1, y + 1) * (right * up)
    return low + high


def stencil(u: Field) -> Field:
    """The star stencil at all points but the outermost two layers."""

    def at(x: int, y: int) -> Field:
        rows, columns = u.shape
        return u[REACH + x : rows - REACH + x, REACH + y : columns - REACH + y]

    near = (at(1, 0) - at(-1, 0)) + (at(0, 1) - at(0, -1))
    far = (at(2, 0) - at(-2, 0)) + (at(0, 2) - at(0, -2))
    found: Field = 0.25 * near + 0.125 * far
    return found


class PlainGrid:
    """A whole grid: the values, and the sums of the stencil's results, 0 near its border.

    All are float64, which has the bits of smaller types, as no number is rounded.
    """

    def __init__(self, values: Field, scale: int = 1) -> None:
        self.values, self.scale = values, scale
        self.sums = np.zeros_like(values)

    def sweep(self) -> None:
        """Apply the stencil once, and add 1 to all values."""
        self.sums[2:-2, 2:-2] += self.scale * stencil(self.values)
        self.values = self.values + 1.0

    def pieces(self, name: str, dtype: str) -> list[Piece]:
        """The two arrays as pieces of the state, in the type of a run."""
        found = ("values", self.values), ("sums", self.sums)
        return [
            Piece(f"{what} of {name}", values.astype(dtype), (0, 0), values.shape)
            for what, values in found
        ]


def reference(problem: Any, steps: int) -> tuple[list[Piece], np.ndarray, np.ndarray]:
    """The state after ``steps`` steps, and the hash of each refinement as it ended, (4, 4) uint64.

    And the sums of the absolute sums of the background and of each refinement. The words and the
    sums of several refinements that were at the same corner are added.
    """
    background, fine = PlainGrid(start_at(problem, *map(np.arange, problem.size))), None
    ended, corner = np.zeros((len(problem.corners), 4), np.uint64), 0
    norms = np.zeros(1 + len(problem.corners))
    for step in range(steps):
        if step % problem.period == 0:
            corner = step // problem.period % len(problem.corners)
            fine = PlainGrid(_born(problem, background.values, corner), problem.expand)
        for _ in range(problem.sub_iterations if fine is not None else 0):
            assert fine is not None
            fine.sweep()
        background.sweep()
        if fine is not None and (step + 1) % problem.period == problem.duration % problem.period:
            words = [
                words_of(piece) for piece in fine.pieces(f"refinement {corner}", problem.dtype)
            ]
            ended[corner] += np.sum(words, axis=0, dtype=np.uint64)
            norms[1 + corner] += np.abs(fine.sums).sum()
            fine = None
    found = background.pieces("background", problem.dtype)
    norms[0] = np.abs(background.sums).sum()
    if fine is not None:
        norms[1 + corner] += np.abs(fine.sums).sum()
        found += fine.pieces(f"refinement {corner}", problem.dtype)
    return found, ended, norms


def _born(problem: Any, background: Field, corner: int) -> Field:
    """The values of a whole refinement as it begins."""
    first = problem.corners[corner]

    def at(x: Field, y: Field) -> Field:
        axes = zip((x, y), first, background.shape, strict=True)
        return background[np.ix_(*(np.minimum(n + low, m - 1) for n, low, m in axes))]

    return bilinear(at, tuple((0, n) for n in problem.fine_shape), problem.expand)
