"""AMR of the Parallel Research Kernels: a stencil on a grid, and on refinements of its corners.

On a background of n x m points, a star stencil is applied in each step, its results are added up,
and the values grow by 1. Every ``period`` steps a refinement of one corner appears, at another
corner each time. Its values are interpolated, it is swept ``sub_iterations`` times in each step,
and it vanishes after ``duration`` steps. (Van der Wijngaart, Georganas, Mattson, Wissink, ISC 2017,
and MPI1/AMR of the kernels, where the values of a refinement grow, too.)
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from miniapps.amr.layout import (
    BACKGROUND,
    CORNERS,
    FINE_GRAIN,
    HIGH_WATER,
    NO_TALK,
    PLACEMENTS,
    AmrLayout,
    refinement,
)
from miniapps.amr.plain import BITS, SLOPE, reference
from miniapps.contract import Check, Measure
from miniapps.decomposition import Layout, require_parts
from miniapps.grid import DTYPES
from miniapps.kernels.amr import REACH
from miniapps.parameters import extents, integer, parameter, require
from miniapps.plain_hash import digest_of
from miniapps.problem import SizedProblem, Variant, grown, halved, steps_made
from miniapps.quantities import Overlay, Quantity

INITIALS = ("linear", "noise")
MOST_LEVELS = 8  # so that all numbers are exact
FLOPS = 19  # per point of a sweep, as the Parallel Research Kernels count
REFERENCE_UPDATES = 2e6  # of the largest problem that a run solves again, in plain NumPy
# What a grid contributes at its end, besides the sum of its absolute sums: a row of integers.
POINTS, WRONG, HASH, ROW = 0, 1, slice(2, 6), 6
HASHED_POINTS = 20_000  # of the largest refinement that is hashed as it ends, which takes time
KINDS = {None: frozenset([BACKGROUND])} | {
    corner: frozenset([BACKGROUND, refinement(corner)]) for corner in range(CORNERS)
}


@dataclass(frozen=True)
class AmrProblem(SizedProblem):
    """Parameters of AMR."""

    app: ClassVar[str] = "amr"
    axes: ClassVar[int] = 2
    unit: ClassVar[str] = "flop"
    variants: ClassVar[tuple[Variant, ...]] = tuple(Variant("placement", p) for p in PLACEMENTS)
    quantities: ClassVar[dict[str, Quantity]] = {
        f"{what} of {kind}": Quantity(f"{text} of the {kind}")
        for kind in (BACKGROUND, *map(refinement, range(CORNERS)))
        for what, text in (("values", "values"), ("sums", "sums of the stencil's results"))
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "minimal": {
            "size": (9, 8), "refinement": (3, 3), "level": 1, "period": 2, "duration": 1,
            "sub_iterations": 2, "initial": "noise", "steps": 7, "warmup": 0,
        },
        "tiny": {
            "size": (41, 38), "refinement": (8, 7), "level": 2, "period": 4, "duration": 3,
            "sub_iterations": 2, "initial": "noise", "steps": 20, "warmup": 2,
        },
        "small": {
            "size": (1000, 1000), "refinement": (200, 200), "level": 1, "period": 20,
            "duration": 10, "sub_iterations": 4, "steps": 160, "warmup": 1,
        },
        "large": {
            "size": (4000, 4000), "refinement": (500, 500), "level": 2, "period": 20,
            "duration": 10, "sub_iterations": 4, "steps": 80, "warmup": 1,
        },
        "paper": {
            "size": (1000, 1000), "refinement": (100, 100), "level": 2, "period": 2,
            "duration": 1, "sub_iterations": 5, "steps": 10, "warmup": 1,
        },
    }  # fmt: skip

    size: tuple[int, ...] = parameter("--size", (1000, 1000), extents, "background points, NxM")
    refinement: tuple[int, ...] = parameter(
        "--refinement", (200, 200), extents, "background cells that a refinement covers, NxM"
    )
    level: int = parameter("--level", 1, integer, "a refinement's spacing is 2^-level")
    period: int = parameter("--period", 20, integer, "steps from one refinement to the next")
    duration: int = parameter("--duration", 10, integer, "steps for which a refinement exists")
    sub_iterations: int = parameter(
        "--sub-iterations", 4, integer, "sweeps of a refinement in a step"
    )
    initial: str = parameter("--initial", "linear", str, "background at step 0", INITIALS)
    placement: str = parameter(
        "--placement",
        FINE_GRAIN,
        str,
        "fine-grain: a refinement is cut for all PEs; no-talk: as the background under it; "
        "high-water: PEs are its own",
        PLACEMENTS,
        metavar="MODE",
    )
    dtype: str = parameter("--dtype", "float64", str, "type of the values and sums", DTYPES)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.refinement) == 2, "--refinement", self.refinement, "must name 2 axes")
        least = 2 * REACH + 1
        require(
            min(self.size) >= least, "--size", self.size, f"must be {least} or more along each axis"
        )
        fits = all(1 <= n < m for n, m in zip(self.refinement, self.size, strict=True))
        require(fits, "--refinement", self.refinement, "must be 1 or more, and less than --size")
        allowed = f"must be 0 to {MOST_LEVELS}"
        require(0 <= self.level <= MOST_LEVELS, "--level", self.level, allowed)
        wide = min(self.fine_shape) >= least
        require(wide, "--refinement", self.refinement, f"must have {least} points along each axis")
        require(self.period >= 1, "--period", self.period, "must be 1 or more")
        fits = 1 <= self.duration <= self.period
        require(fits, "--duration", self.duration, "must be 1 or more, and at most --period")
        sweeps = self.sub_iterations
        require(sweeps >= 1, "--sub-iterations", sweeps, "must be 1 or more")

    def check_steps(self, steps: int) -> None:
        """Raise InputError if some number would be rounded."""
        needed, there = self.bits_after(steps), np.finfo(self.dtype).nmant + 1
        allowed = f"exact numbers need {needed} bits then, of which {self.dtype} has {there}"
        require(needed <= there, "--steps with --warmup", steps, allowed)

    @property
    def bits(self) -> int:
        """Bits of a random number of the start, in [0, 1)."""
        return BITS[self.dtype]

    def bits_after(self, steps: int) -> int:
        """The bits that the values, the sums, and what they are added up from have at most.

        A product of an interpolation has 2 ``level`` bits behind the point more than the
        background's values. The stencil's smallest weight is 1/8, times 2^level.
        """
        sweeps = min(steps, self.duration) * self.sub_iterations  # of a refinement
        if self.initial == "linear":
            behind, start, slope = 0, float(sum(self.size)), SLOPE
        else:
            behind, start, slope = self.bits, 1.0, 0.75 * self.expand
        values = 2 * self.level + behind, start + steps + sweeps
        sums = self.level + behind + 3, slope * max(steps, sweeps)
        return max(points + math.frexp(most)[1] for points, most in (values, sums))

    # Refinements ---------------------------------------------------------------------------------

    @property
    def expand(self) -> int:
        """Points of a refinement per point of the background, along an axis."""
        return 1 << self.level

    @property
    def fine_shape(self) -> tuple[int, int]:
        """Points of a refinement along each axis."""
        x, y = (n * self.expand + 1 for n in self.refinement)
        return x, y

    @property
    def is_hashed(self) -> bool:
        """Whether refinements are small enough to be hashed as they end."""
        x, y = self.fine_shape
        return x * y <= HASHED_POINTS

    @property
    def corners(self) -> tuple[tuple[int, int], ...]:
        """The background point at which each refinement begins."""
        x, y = (n - r - 1 for n, r in zip(self.size, self.refinement, strict=True))
        return (0, 0), (x, y), (0, y), (x, 0)

    def corner_at(self, step: int) -> int | None:
        """The number of the refinement that exists in a step; None if there is none."""
        if step < 0 or step % self.period >= self.duration:
            return None
        return step // self.period % CORNERS

    def begins_at(self, step: int) -> int | None:
        """The number of the refinement that begins in a step."""
        return self.corner_at(step) if step % self.period == 0 else None

    def ends_after(self, step: int) -> int | None:
        """The number of the refinement that ends after a step."""
        return self.corner_at(step) if step % self.period == self.duration - 1 else None

    def kinds_at(self, step: int) -> frozenset[str]:
        """The background, and the refinement that exists in the step."""
        return KINDS[self.corner_at(step)]

    def begins_before(self, steps: int) -> list[range]:
        """By corner, the steps before step ``steps`` in which a refinement begins there."""
        every = CORNERS * self.period
        return [range(corner * self.period, steps, every) for corner in range(CORNERS)]

    def sweeps_of(self, steps: int) -> list[int]:
        """How often each refinement has been swept after ``steps`` steps."""
        return [
            self.sub_iterations * sum(min(self.duration, steps - begin) for begin in begins)
            for begins in self.begins_before(steps)
        ]

    def lives_of(self, steps: int) -> list[int]:
        """How many refinements there have been at each corner after ``steps`` steps."""
        return list(map(len, self.begins_before(steps)))

    def overlays(self) -> dict[str, Overlay]:
        """The sums of refinements, at their places on the background."""
        names = (f"sums of {refinement(corner)}" for corner in range(CORNERS))
        places = (Overlay(corner, 1 / self.expand) for corner in self.corners)
        return dict(zip(names, places, strict=True))

    # Decomposition and size ----------------------------------------------------------------------

    @property
    def periodic(self) -> tuple[bool, ...]:
        """No axis is."""
        return False, False

    @property
    def least_cells(self) -> tuple[int, ...]:
        """As many as the stencil reaches, so that halos come from adjacent blocks only."""
        return REACH, REACH

    def cut(self, pes: int, odf: int, pe_grid: tuple[int, ...] | None) -> AmrLayout:
        """The layout of the background and the refinements. Raises InputError.

        Where refinements have PEs of their own, a grid of PEs says only how many there are.
        """
        own = self._own_pes(pes)
        if own and pe_grid is not None:
            require_parts(pe_grid, len(self.size), pes)
            pe_grid = None
        base = super().cut(pes - own, odf, pe_grid)
        fine = None
        if self.placement != NO_TALK:
            how = self.periodic, own or pes, odf, None, self.last_axis_cut, self.least_cells
            fine = Layout.create(self.fine_shape, *how)
        layout = AmrLayout(
            base.shape, base.periodic, base.pe_grid, base.sub_grid,
            fine=fine, placement=self.placement, corners=self.corners,
            fine_shape=self.fine_shape, expand=self.expand, total_pes=pes,
        )  # fmt: skip
        layout.check_labels()
        return layout

    def _own_pes(self, pes: int) -> int:
        """The number of PEs that only refinements use: their share of the work."""
        if self.placement != HIGH_WATER or pes == 1:
            return 0
        coarse, fine = active_points(self.size), active_points(self.fine_shape)
        share = fine * self.sub_iterations / (fine * self.sub_iterations + coarse)
        return min(max(1, round(pes * share)), pes - 1)

    def work(self) -> float:
        """Operations of a step on the background."""
        return float(FLOPS * active_points(self.size))

    def work_done(self, first: int, end: int, measures: dict[str, Measure]) -> float:
        """Operations in some steps: sweeps, and 3 per axis and interpolated point."""
        swept = sum(self.sweeps_of(end)) - sum(self.sweeps_of(first))
        begun = sum(self.lives_of(end)) - sum(self.lives_of(first)) if self.level else 0
        (x, y), (cells, _) = self.fine_shape, self.refinement
        interpolated = 3 * y * (x + cells + 1) * begun
        return (
            self.work() * (end - first)
            + FLOPS * active_points(self.fine_shape) * swept
            + interpolated
        )

    def least_bytes(self) -> float:
        """Two arrays of the background, and of a refinement."""
        points = np.prod(self.size) + np.prod(self.fine_shape)
        return float(2 * np.dtype(self.dtype).itemsize * points)

    def weak(self, pes: int) -> Self:
        """The same points per PE, of the background and of a refinement."""
        return dataclasses.replace(super().weak(pes), refinement=grown(self.refinement, pes))

    def smaller(self) -> Self:
        """Half the points of the background and of a refinement."""
        return dataclasses.replace(super().smaller(), refinement=halved(self.refinement))

    def results(self, measures: dict[str, Measure]) -> dict[str, Any]:
        """The mean of the absolute sums, of the background and over all lives of refinements."""
        coarse, fine = norms(self, measures)
        return {"norm": coarse, "refinement_norms": fine}


def active_points(shape: tuple[int, ...]) -> int:
    """Points at which the stencil is applied: all but the outermost layers."""
    x, y = (n - 2 * REACH for n in shape)
    return x * y


def norms(problem: AmrProblem, measures: dict[str, Measure]) -> tuple[float, list[float]]:
    """The L1 norms of the sums as the Parallel Research Kernels define them.

    Of the background, and of each refinement, where the sums over all its lives are added up.
    """
    found = [float(norm) for norm in measures["norms"].value]
    coarse = found[0] / active_points(problem.size)
    return coarse, [sums / active_points(problem.fine_shape) for sums in found[1:]]


def validate(
    problem: AmrProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a finished run by the joined measures of its blocks and the hash of its state.

    All numbers are exact, so no limit is above 0, but that of norms, which may be rounded.
    """
    rows = measures["grids"].value
    coarse, fine = norms(problem, measures)
    points = [active_points(problem.size)]
    points += [lives * active_points(problem.fine_shape) for lives in problem.lives_of(steps)]
    missing = max(abs(int(row[POINTS]) - due) for row, due in zip(rows, points, strict=True))
    checks = [
        Check("missing points", float(missing), 0),
        Check("points that are wrong", float(rows[:, WRONG].sum()), 0),
        steps_made(steps, measures),
    ]
    if problem.initial == "linear":
        sweeps = [steps, *problem.sweeps_of(steps)]
        errors = [abs(n - SLOPE * made) for n, made in zip([coarse, *fine], sweeps, strict=True)]
        checks.append(Check("L1 norm off", max(errors), 0))
    work = problem.work_done(0, steps, measures) / FLOPS
    if work <= REFERENCE_UPDATES:
        found, ended, right = reference(problem, steps)
        checks.append(Check("differs from reference", float(digest_of(found) != state_hash), 0))
        off = np.abs(measures["norms"].value - right) / np.where(right, right, 1.0)
        checks.append(Check("norms off", float(off.max()), REFERENCE_UPDATES * np.finfo(float).eps))
        if problem.is_hashed:
            same = np.array_equal(rows[1:, HASH].view(np.uint64), ended)
            checks.append(Check("ended refinements differ", float(not same), 0))
    return checks
