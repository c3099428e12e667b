"""CG: A x = b on a box of points, where A is the operator of HPCG and b belongs to a known x.

A has 26 on its diagonal and -1 for each of the 26 points around one; or, with seven points, 6 and
-1 for the 6 beside. Beyond the box x is 0. The right-hand side is b = A x', and a run starts from
x = 0, so that it must find x': ones, as in HPCG (Dongarra, Heroux, Luszczek 2016, IJHPCA 30), or a
number in [0, 1) for each point. One step is one iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from miniapps.cg.plain import inexact, quotient, reference
from miniapps.contract import Check, Measure, Piece
from miniapps.parameters import Number, extents, integer, parameter, require, yes_or_no
from miniapps.plain_hash import digest_of
from miniapps.problem import SizedProblem
from miniapps.quantities import Quantity

OPERATORS = (27, 7)
SOLUTIONS = ("ones", "noise")
PRECONDITIONERS = ("none", "sgs")
MINIMAL: dict[str, Any] = {"size": (5, 4, 3), "solution": "noise", "steps": 3, "warmup": 0}
REFERENCE_UPDATES = 3e5  # points times iterations of the largest problem that a run solves again
EPS = float(np.finfo(float).eps)
# Limits of checks, in units of the last place: of A x, how far the residual of the iterations may
# be from b - A x, at once and per iteration; of the condition number, what is left of the energy.
AT_ONCE, PER_ITERATION, ENERGY_LEFT = 3.0, 0.1, 100.0
ALONG = 30.0  # of the residual along the last direction, besides one per iteration
DEPARTURE = 1.0  # from symmetry, in HPCG's unit
# Nothing is left: of the square of b, before numbers are subnormal; if pipelined, when the residual
# is some units of the last place of b, or of the rounding errors that are not avoidable in A x.
UNDERFLOW, UNITS_OF_B, UNITS_OF_AX = 2.0**-900, 64.0, 3.0


@dataclass(frozen=True)
class CgProblem(SizedProblem):
    """Parameters of CG."""

    app: ClassVar[str] = "cg"
    axes: ClassVar[int] = 3
    unit: ClassVar[str] = "flop"
    quantities: ClassVar[dict[str, Quantity]] = {"x": Quantity("the solution found so far")}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "minimal": MINIMAL,
        "sgs-minimal": MINIMAL | {"preconditioner": "sgs", "steps": 2},
        "pipelined-minimal": MINIMAL | {"pipelined": True},
        "tiny": {"size": (13, 11, 10), "solution": "noise", "steps": 12, "warmup": 2},
        "small": {"size": (104, 104, 104), "steps": 50, "warmup": 5},
        "large": {"size": (256, 256, 256), "steps": 50, "warmup": 5},
        "paper": {"size": (104, 104, 104), "preconditioner": "sgs", "steps": 50, "warmup": 0},
        "paper-smallest": {"size": (16, 16, 16), "preconditioner": "sgs", "steps": 50, "warmup": 0},
    }

    size: tuple[int, ...] = parameter("--size", (104, 104, 104), extents, "points, NxMxK")
    operator: int = parameter("--operator", 27, integer, "points of the operator, 27 or 7")
    solution: str = parameter("--solution", "ones", str, "the solution to be found", SOLUTIONS)
    preconditioner: str = parameter(
        "--preconditioner",
        "none",
        str,
        "sgs: symmetric Gauss-Seidel, in eight colours of points",
        PRECONDITIONERS,
    )
    tolerance: float = parameter(
        "--tolerance",
        0.0,
        Number(zero=True),
        "stop when the residual's norm is at most that of b times this; 0: never",
    )

    pipelined: bool = parameter(
        "--pipelined",
        False,
        yes_or_no,
        "one reduction per iteration, while a halo travels",
        flag=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.operator in OPERATORS, "--operator", self.operator, "must be 27 or 7")
        alone = not self.pipelined or self.preconditioner == "none"
        require(alone, "--pipelined", self.pipelined, "only with --preconditioner none")

    @property
    def periodic(self) -> tuple[bool, ...]:
        """No axis is: x is 0 beyond the box."""
        return (False,) * 3

    @property
    def points(self) -> float:
        """Number of unknowns."""
        return float(math.prod(self.size))

    @property
    def nonzeros(self) -> float:
        """Elements of A that are not 0."""
        if self.operator == 27:
            return float(math.prod(3 * n - 2 for n in self.size))
        return self.points + 2 * sum(self.points * (n - 1) / n for n in self.size)

    def work(self) -> float:
        """Operations of an iteration as HPCG counts them: 2 per element of A that is not 0.

        Of vectors, 2 for each point of a dot product or an update. The preconditioner passes
        over A twice, and needs one more dot product.
        """
        precondition = 0.0 if self.preconditioner == "none" else 4 * self.nonzeros + 2 * self.points
        return 2 * self.nonzeros + 10 * self.points + precondition

    def least_bytes(self) -> float:
        """Four vectors; one more with a preconditioner, three if pipelined."""
        more = 3 * self.pipelined + (self.preconditioner != "none")
        return 8.0 * (4 + more) * self.points

    def nothing_left(self, b_squared: float) -> float:
        """The square of the residual from which on x stays as it is.

        In a pipelined run w is no longer A r when the residual has come to its rounding errors, of
        the size of those of A x' times the root of the condition number: p A p may be negative.
        """
        if not self.pipelined:
            return UNDERFLOW * b_squared
        solution = self.points * (1 if self.solution == "ones" else 1 / 3)  # its square
        of_ax = (UNITS_OF_AX * 2 * self.operator) ** 2 * solution * condition(self)
        return EPS**2 * max(UNITS_OF_B**2 * b_squared, of_ax)

    def may_finish(self, step: int) -> bool:
        """Any iteration may meet the tolerance."""
        return self.tolerance > 0

    def results(self, measures: dict[str, Measure]) -> dict[str, Any]:
        """The norms at the end, relative to those of b and of the solution."""
        norms = Norms.of(measures)
        residual, error = norms.residual / norms.b, norms.error / norms.solution
        return {"relative_residual": residual, "relative_error": error}

    @classmethod
    def lines(cls, record: dict[str, Any]) -> list[str]:
        """The norms at the end."""
        residual, error = record["relative_residual"], record["relative_error"]
        return [f"norm of b - A x over that of b: {residual:.3g}; of x - x' over x': {error:.3g}"]


@dataclass(frozen=True)
class Norms:
    """Euclidean norms at the end of a run, and norms of the error that A defines."""

    b: float
    solution: float
    residual: float
    gap: float  # of the residual less the one that the iterations update
    error: float
    energy: float  # the root of e A e, where e is the error
    first_energy: float  # the same at the start
    p: float  # of the last direction
    along: float  # the root of the residual's product with that direction

    @classmethod
    def of(cls, measures: dict[str, Measure]) -> Self:
        """From sums of squares over all points."""
        return cls(*(math.sqrt(abs(square)) for square in measures["squares"].value.tolist()))


def extreme_eigenvalues(problem: CgProblem) -> tuple[float, float]:
    """The least and the largest eigenvalue of A.

    Along an axis of n points the sum of a point and those beside it has the eigenvalues
    1 + 2 cos(pi k / (n + 1)), k = 1 to n. The sum of 27 points is a product of such sums along
    three axes, and A is 27 less it; with seven points A is 9 less the sum of the three.
    """
    ends = [[1 + 2 * math.cos(math.pi * k / (n + 1)) for k in (1, n)] for n in problem.size]
    if problem.operator == 7:
        return 9 - sum(high for high, _ in ends), 9 - sum(low for _, low in ends)
    products = [x * y * z for x in ends[0] for y in ends[1] for z in ends[2]]
    return 27 - max(products), 27 - min(products)


def condition(problem: CgProblem) -> float:
    """A bound of the condition number of A, or of the preconditioned A.

    Gauss-Seidel's M is A + L D^-1 U, where D is d times 1, and A = L + D + U. So the eigenvalues of
    M^-1 A are at most 1, and at least a / (a + u u / d), where a is the least eigenvalue of A, and
    u <= d the norm of U.
    """
    low, high = extreme_eigenvalues(problem)
    return high / low if problem.preconditioner == "none" else 1 + (problem.operator - 1) / low


def rounding_of(problem: CgProblem, steps: int, norms: Norms) -> float:
    """How far the residual that iterations update may be from b - A x, over the norm of b.

    Each iteration adds rounding errors of the size of those of A x. A pipelined one adds more
    (Cools and others 2018, SIAM J. Matrix Anal. Appl. 39). What was found for up to 400 iterations
    was at most a quarter of this.
    """
    size = 2 * problem.operator * norms.solution / norms.b  # of A times x, over b
    amplified = 10 * math.sqrt(condition(problem)) if problem.pipelined else 1.0
    return EPS * (AT_ONCE + PER_ITERATION * steps) * size * amplified


def validate(
    problem: CgProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a finished run by the measures of its blocks and the hash of its state.

    Computed apart from the iterations: the residual b - A x and the error. The energy of the error
    must have shrunk as conjugate gradients must shrink it (Saad 2003, Iterative Methods, 6.11.3).
    """
    norms, kappa = Norms.of(measures), condition(problem)
    root = math.sqrt(kappa)
    rounding = rounding_of(problem, steps, norms)
    amplified = root if problem.pipelined else 1.0
    shrinks = 2 * ((root - 1) / (root + 1)) ** steps + ENERGY_LEFT * EPS * kappa * amplified
    dots = (measures[name].value for name in ("dots", "words of dots", "parts of dots"))
    not_exact = sum(map(inexact, *dots))
    checks = [
        Check("residual differs from the iterations'", norms.gap / norms.b, rounding),
        Check("energy of the error", norms.energy / norms.first_energy, shrinks),
        Check("dot products that are not exact", float(not_exact), 0),
        Check("ghosts that differ", float(bool(measures["ghosts"].value.any())), 0),
        Check("curvatures that are not positive", float(measures["not positive"].value), 0),
        Check("departure from symmetry", float(measures["departure"].value), DEPARTURE),
    ]
    if not problem.pipelined:
        square, before = float(measures["rr"].value), float(measures["rz before"].value)
        size = max(before, norms.p * math.sqrt(square))
        along = quotient(norms.along**2, size) if before else 0.0  # without a last step
        checks.append(Check("residual along the direction", along, EPS * (ALONG + steps)))
    relative = norms.residual / norms.b
    if measures["has met"].value:
        checks.append(Check("residual over tolerance", relative, problem.tolerance + rounding))
    elif problem.tolerance:
        unnoticed = float(relative < problem.tolerance - rounding)
        checks.append(Check("tolerance met unnoticed", unnoticed, 0))
    if problem.points * steps <= REFERENCE_UPDATES:
        found = reference(problem, steps)
        whole = Piece("x", found, (0,) * 3, problem.size)
        checks.append(Check("differs from reference", float(digest_of([whole]) != state_hash), 0))
    return checks
