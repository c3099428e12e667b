"""Transpose: blocks of columns of a matrix are exchanged between all; or a Fourier transform.

The matrix transpose of the Parallel Research Kernels (PRK: Van der Wijngaart and Mattson, HPEC
2014): A(i, j) = N j + i and B = 0 at first; each step makes B += A^T, and then A += 1. With
``--fft`` a step transforms a field of complex numbers in three dimensions, forward and back, which
takes four such exchanges, of blocks of lines.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from miniapps.contract import Check, Measure, Piece
from miniapps.decomposition import Layout
from miniapps.parameters import InputError, extents, parameter, require, yes_or_no
from miniapps.plain_hash import digest_of
from miniapps.problem import BaseProblem, grown, halved, steps_made
from miniapps.quantities import Quantity
from miniapps.transpose import plain

NUMBER = 8  # bytes
EXCHANGES = 4  # of a transform, forward and back
REFERENCE_ELEMENTS = 1e6  # of the largest matrix that a run computes again
REFERENCE_POINTS = 1e6  # times steps, of the largest transforms that it makes again
EPS = float(np.finfo(float).eps)
# Limits of checks, in units of the last place times the levels of a transform.
PARSEVAL, ROUND_TRIP = 1.0, 1.0


@dataclass(frozen=True)
class TransposeProblem(BaseProblem):
    """Parameters of Transpose."""

    unit: ClassVar[str] = "bytes"
    quantities: ClassVar[dict[str, Quantity]] = {
        "a": Quantity("A: axis 0 is its column, axis 1 its row"),
        "b": Quantity("B, the sum of transposes: axis 0 is its column, axis 1 its row"),
        "imaginary": Quantity("imaginary part of the field"),
        "real": Quantity("real part of the field"),
        "spectrum imaginary": Quantity("imaginary part of the last spectrum: axis 0 is that of x"),
        "spectrum real": Quantity("real part of the last spectrum: axis 0 is that of x"),
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "minimal": {"size": (7,), "steps": 3, "warmup": 0},
        "tiny": {"size": (61,), "steps": 10, "warmup": 1},
        "small": {"size": (2048,), "steps": 50, "warmup": 1},
        "large": {"size": (8192,), "steps": 20, "warmup": 1},
        "paper": {"size": (2000,), "steps": 10, "warmup": 1},
        "fft-minimal": {"fft": True, "size": (7, 6, 5), "steps": 3, "warmup": 0},
        "fft-tiny": {"fft": True, "size": (13, 12, 14), "steps": 4, "warmup": 1},
        "fft-small": {"fft": True, "size": (128, 128, 128), "steps": 10, "warmup": 1},
        "fft-large": {"fft": True, "size": (256, 256, 256), "steps": 10, "warmup": 1},
    }

    size: tuple[int, ...] = parameter(
        "--size", (2048,), extents, "order of the matrix; with --fft points, NxMxK"
    )
    fft: bool = parameter(
        "--fft", False, yes_or_no, "a Fourier transform in 3D, forward and back", flag=True
    )

    def __post_init__(self) -> None:
        axes = 3 if self.fft else 1
        named = "must name 3 axes with --fft" if self.fft else "must be one number without --fft"
        require(len(self.size) == axes, "--size", self.size, named)
        require(min(self.size) >= 1, "--size", self.size, "must be 1 or more along each axis")

    @property
    def shown(self) -> str:
        """The first part of its state by name, which plots show, too."""
        return "imaginary" if self.fft else "a"

    @property
    def app(self) -> str:  # type: ignore[override]
        """The name of its kernels."""
        return "pencils" if self.fft else "transpose"

    @property
    def shape(self) -> tuple[int, ...]:
        """The columns and rows of the matrix, or the points along each axis."""
        return self.size if self.fft else self.size * 2

    @property
    def periodic(self) -> tuple[bool, ...]:
        """No axis is: an edge leads to a block by the way to it in the grid of blocks."""
        return (False,) * len(self.shape)

    @property
    def least_cells(self) -> tuple[int, ...]:
        """Blocks have whole columns, or whole lines along the last axis."""
        return (*(1 for _ in self.shape[:-1]), self.shape[-1])

    def cut(self, pes: int, odf: int, pe_grid: tuple[int, ...] | None) -> Layout:
        """Also require points for each block when lines lie along another axis.

        Without a given grid, one is chosen that has them, if there is one.
        """
        if self.fft and pe_grid is None:
            x, y, z = self.size
            narrow = replace(self, size=(min(x, y), min(y, z), z))  # for lines along any axis
            with suppress(InputError):
                return replace(BaseProblem.cut(narrow, pes, odf, None), shape=self.size)
        layout = super().cut(pes, odf, pe_grid)
        if self.fft:
            across, down, _ = layout.grid
            fits = across <= self.size[1] and down <= self.size[2]
            least = f"{across} or more points along y, {down} along z"
            allowed = f"{across}x{down} pencils need {least}"
            require(fits, "--size", self.size, allowed)
        return layout

    @property
    def points(self) -> float:
        """Elements of the matrix, or points."""
        return float(math.prod(self.shape))

    def work(self) -> float:
        """Bytes that are read and written once in each exchange, as PRK counts them."""
        return 2 * NUMBER * self.points * (2 * EXCHANGES if self.fft else 1)

    def least_bytes(self) -> float:
        """A and B; or the field, its spectrum and what it is put together in."""
        return NUMBER * self.points * (6 if self.fft else 2)

    def check_steps(self, steps: int) -> None:
        """Raise InputError if B would not be exact: its integers must be below 2^53."""
        if not self.fft:
            largest = float(self.points) * steps + steps * (steps - 1) / 2
            allowed = "elements would not be exact in float64"
            require(largest < 2**53, "--steps with --warmup", steps, allowed)

    def weak(self, pes: int) -> Self:
        """As many elements or points per PE."""
        if self.fft:
            return replace(self, size=grown(self.size, pes))
        return replace(self, size=(round(self.size[0] * math.sqrt(pes)),))

    def smaller(self) -> Self:
        """Half the elements or points."""
        if self.fft:
            return replace(self, size=halved(self.size))
        order = round(self.size[0] / math.sqrt(2))
        require(1 <= order < self.size[0], "--size", self.size, "cannot be halved")
        return replace(self, size=(order,))

    @property
    def levels(self) -> float:
        """The binary logarithm of the points: rounding errors grow with it."""
        return 1 + math.log2(self.points)


def reference(problem: TransposeProblem, steps: int) -> list[Piece]:
    """The state after ``steps`` steps, without blocks."""
    return plain.transformed(problem, steps) if problem.fft else plain.matrices(problem, steps)


def validate(
    problem: TransposeProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a run by the measures of its blocks, and a small one by every bit.

    PRK's verification: B(i, j) = (N i + j) s + s (s - 1) / 2 after s steps, and the sum of absolute
    differences is at most 1e-8. All numbers are integers, so here it must be 0.
    """
    if problem.fft:
        checks, few = _of_transforms(problem, steps, measures), REFERENCE_POINTS / steps
    else:
        checks, few = _of_matrices(problem, steps, measures), REFERENCE_ELEMENTS
    if problem.points <= few:
        right = digest_of(reference(problem, steps))
        checks.append(Check("differs from reference", float(right != state_hash), 0))
    return checks


def _of_matrices(
    problem: TransposeProblem, steps: int, measures: dict[str, Measure]
) -> list[Check]:
    """The checks of A and B; of a block that is not counted no difference is known."""
    off_a, off_b = measures["differences"].value.tolist()
    missing = abs(measures["elements"].value - problem.points)
    checks = [Check("differences of A", off_a, 0), Check("differences of B", off_b, 0)]
    return [*checks, Check("missing elements", missing, 0), steps_made(steps, measures)]


def _of_transforms(
    problem: TransposeProblem, steps: int, measures: dict[str, Measure]
) -> list[Check]:
    """The checks of a field that has been transformed and back."""
    field, spectrum, off, start = measures["squares"].value.tolist()
    parseval = abs(spectrum / problem.points - field) / field
    away = math.sqrt(off / start)
    limit = EPS * problem.levels * steps
    return [
        Check("Parseval", parseval, PARSEVAL * limit),
        Check("round trip", away, ROUND_TRIP * limit),
        steps_made(steps, measures),
    ]
