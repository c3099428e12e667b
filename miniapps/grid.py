"""Problems of the stencil apps: fields on a grid, and checks that follow from linearity.

A sweep replaces each cell by the mean of itself and its face neighbours. That map is linear and its
eigenvectors are known, so the projection of the field on one of them follows from the initial field
for any number of steps, boundaries included (`projections`): a check that costs one pass over the
field for each mode, needs no gather and sees any wrong cell.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar, Self

import numpy as np

from miniapps import tiling
from miniapps.contract import Check, Measure, Piece
from miniapps.decomposition import Bounds, Layout
from miniapps.grid_reference import reference
from miniapps.parameters import require, require_tile
from miniapps.plain_hash import digest_of
from miniapps.problem import SizedProblem, Variant
from miniapps.quantities import Quantity

BOUNDARIES = ("heated", "zero", "periodic")
INITIALS = ("ones", "mode", "ramp", "noise")
DTYPES = ("float64", "float32")
HEATED = 255.0
RAMP = (1e6, 1e3, 1.0)
BEYOND_LIMIT = 1e-12  # of a cell beyond the bounds of the field, at least
REFERENCE_CELLS, REFERENCE_UPDATES = 1e6, 2e7  # largest problem that a run solves again
SLAB_CELLS = 1 << 17  # cells handled at a time where a temporary is needed: 1 MiB


@dataclasses.dataclass(frozen=True)
class GridProblem(SizedProblem):
    """Repeated averaging over a grid with fixed or periodic boundaries."""

    variants: ClassVar[tuple[Variant, ...]] = tuple(Variant("time_tile", t) for t in (1, 2, 5, 8))
    quantities: ClassVar[dict[str, Quantity]] = {
        "u": Quantity("value of each interior cell of the domain")
    }
    app: ClassVar[str]

    boundary: str
    initial: str
    time_tile: int | str
    dtype: str

    def __post_init__(self) -> None:
        super().__post_init__()
        require_tile(self.time_tile)

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Whether the axes are periodic: all or none."""
        return (self.boundary == "periodic",) * len(self.size)

    def rounding(self, steps: int) -> float:
        """The largest relative error that rounding may cause in ``steps`` sweeps."""
        return float(np.finfo(self.dtype).eps) * (45 + 0.9 * steps)

    @property
    def weight(self) -> float:
        """The factor of the mean: 1 over the number of points of the stencil."""
        return 1.0 / (2 * len(self.size) + 1)

    def ghost_values(self) -> tuple[float, float]:
        """The fixed values beyond the low and the high faces of the domain."""
        return {"heated": (HEATED, 1.0), "zero": (0.0, 0.0)}[self.boundary]

    def work(self) -> float:
        """The cells, each updated once a step."""
        return float(math.prod(self.size))

    def steps_per_round(self, step: int) -> int:
        """The number of sweeps per halo exchange."""
        assert isinstance(self.time_tile, int), "prepared() sets the tile"
        return self.time_tile

    def least_bytes(self) -> float:
        """Two arrays of all cells."""
        return 2.0 * math.prod(self.size) * np.dtype(self.dtype).itemsize

    def tile_limit(self) -> tuple[int, str]:
        """The largest number of sweeps per exchange that the other parameters allow, and why."""
        return 1 << 30, ""

    def prepared(self, layout: Layout, device: str, measure: bool = False) -> Self:
        """The problem with sweeps per exchange determined; halos come from adjacent blocks only.

        On a GPU they are not measured: that would open it before the run does.
        """
        limit, why = min((layout.thinnest(), "cells of the thinnest block"), self.tile_limit())
        if self.time_tile == "auto":
            tile = min(tiling.UNTUNED, limit)
            if measure and device == "cpu" and limit > 1:
                grow = [n > 1 or wraps for n, wraps in zip(layout.grid, self.periodic, strict=True)]
                tile = tiling.best_tile(self.app, layout.block_shape(), grow, limit, self.dtype)
            return dataclasses.replace(self, time_tile=tile)
        allowed = f"must be at most {limit} here ({why})"
        require(int(self.time_tile) <= limit, "--time-tile", self.time_tile, allowed)
        return self


def slabs(bounds: Bounds) -> Iterator[Bounds]:
    """Cut a box along axis 0 into slabs of about SLAB_CELLS, so that temporaries stay small."""
    (low, high), rest = bounds[0], bounds[1:]
    rows = max(1, SLAB_CELLS // max(1, math.prod(b - a for a, b in rest)))
    for start in range(low, high, rows):
        yield ((start, min(start + rows, high)), *rest)


def initial_field(problem: GridProblem, bounds: Bounds) -> np.ndarray:
    """The initial values of a box of global cells.

    ``ones``; ``mode``: the eigenvector `mode_weights` of the second checked mode; ``ramp``: 1e6 x +
    1e3 y + z; ``noise``: a hash of the cell's global index, uniform in [0, 1).
    """
    axes = [np.arange(low, high) for low, high in bounds]
    grids = np.ix_(*axes)
    if problem.initial == "ones":
        return np.ones([len(axis) for axis in axes])
    if problem.initial == "mode":
        weights = mode_weights(problem, smooth_modes(problem)[1], bounds)
        return np.asarray(math.prod(np.ix_(*weights)))
    if problem.initial == "ramp":
        return np.asarray(sum(c * g for c, g in zip(RAMP, grids, strict=False)), dtype=float)
    return noise(np.ravel_multi_index(np.broadcast_arrays(*grids), problem.size))


def noise(index: np.ndarray) -> np.ndarray:
    """Uniform numbers in [0, 1) that depend on nothing but the global index (SplitMix64)."""
    z = (index.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def value_limits(problem: GridProblem) -> tuple[float, float]:
    """Bounds that averaging can never leave: the extremes of initial and boundary values."""
    low, high = {
        "ones": (1.0, 1.0),
        "mode": (-1.0, 1.0),
        "ramp": (0.0, sum(c * (n - 1) for c, n in zip(RAMP, problem.size, strict=False))),
        "noise": (0.0, 1.0),
    }[problem.initial]
    fixed = () if problem.boundary == "periodic" else problem.ghost_values()
    return min((low, *fixed)), max((high, *fixed))


# Eigenvectors ------------------------------------------------------------------------------------


def checked_modes(problem: GridProblem, steps: int) -> list[tuple[int, ...]]:
    """Wave numbers of the modes that a run is checked on, each once: smooth ones and a fine one."""
    return [*dict.fromkeys([*smooth_modes(problem), finest_mode(problem, steps)])]


def smooth_modes(problem: GridProblem) -> list[tuple[int, ...]]:
    """The smoothest mode, which is nowhere zero, and two others.

    Every mirror image of the field changes the sign of at least one of these two.
    """
    axes = len(problem.size)
    smoothest = (0,) * axes if problem.boundary == "periodic" else (1,) * axes
    return [smoothest, (1, 2, 3)[:axes], (2, 1, 2)[:axes]]


def finest_mode(problem: GridProblem, steps: int) -> tuple[int, ...]:
    """The mode with the shortest waves that ``steps`` sweeps leave about 1/e of.

    It differs most between neighbouring cells: smooth modes hardly see two that were exchanged.
    The waves are at least four cells long.
    """
    axes = len(problem.size)
    shrinks = min((1 + 2 * axes) / (2 * axes * max(steps, 1)), 1.0)  # 1 - cos(angle per cell)
    waves = math.acos(1 - shrinks) / (2 * math.pi)  # per cell
    if problem.boundary == "periodic":
        return tuple(round(waves * n) for n in problem.size)
    return tuple(max(1, round(2 * waves * (n + 1))) for n in problem.size)


def mode_weights(problem: GridProblem, mode: tuple[int, ...], bounds: Bounds) -> list[np.ndarray]:
    """One axis-wise factor per axis of an eigenvector of the sweep, on a box of global cells.

    sin(pi p (i+1)/(n+1)) vanishes at the ghost layer of a fixed boundary; cos(2 pi p i/n + 1) is
    periodic (because of the phase 1 it has no mirror symmetry).
    """
    factors = []
    for p, n, (low, high) in zip(mode, problem.size, bounds, strict=True):
        cells = np.arange(low, high)
        if problem.boundary == "periodic":
            factors.append(np.cos(2 * np.pi * ((p * cells) % n) / n + (1.0 if p else 0.0)))
        else:
            factors.append(np.sin(np.pi * ((p * (cells + 1)) % (2 * (n + 1))) / (n + 1)))
    return factors


def mode_decay(problem: GridProblem, mode: tuple[int, ...]) -> float:
    """The eigenvalue of a mode: the factor by which one sweep shrinks it."""
    wraps = problem.boundary == "periodic"
    angles = [
        2 * math.pi * p / n if wraps else math.pi * p / (n + 1)
        for p, n in zip(mode, problem.size, strict=True)
    ]
    return (1 + 2 * sum(map(math.cos, angles))) / (1 + 2 * len(angles))


def mode_source(problem: GridProblem, mode: tuple[int, ...]) -> float:
    """The amount that the fixed boundary adds to a mode's projection in each sweep."""
    if problem.boundary == "periodic":
        return 0.0
    low, high = problem.ghost_values()
    factors = mode_weights(problem, mode, tuple((0, n) for n in problem.size))
    total = 0.0
    for axis, factor in enumerate(factors):
        others = math.prod(f.sum() for d, f in enumerate(factors) if d != axis)
        total += (low * factor[0] + high * factor[-1]) * others
    return total * problem.weight


def project(values: np.ndarray, factors: list[np.ndarray]) -> float:
    """The sum over a box of values times the product of its axis-wise factors."""
    for factor in reversed(factors):
        values = values @ factor
    return float(values)


def projections(problem: GridProblem, bounds: Bounds, values: np.ndarray, steps: int) -> np.ndarray:
    """Per test mode, the projections of a box's initial field and of its ``values``: (modes, 2)."""
    modes = checked_modes(problem, steps)
    sums = np.zeros((len(modes), 2))
    for slab in slabs(bounds):
        low, high = (row - bounds[0][0] for row in slab[0])
        fields = initial_field(problem, slab), values[low:high]
        for m, mode in enumerate(modes):
            factors = mode_weights(problem, mode, slab)
            sums[m] += [project(field, factors) for field in fields]
    return sums


# Validation --------------------------------------------------------------------------------------


def validate(
    problem: GridProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a finished run by the joined measures of its blocks and the hash of its state.

    Compares with the exact projection of each test mode, with the bounds that averaging cannot
    leave and, if the problem is small, with the bits of `reference`.
    """
    low, high = value_limits(problem)
    scale = max(abs(low), abs(high), 1e-300)
    spread = measures["min"].value, measures["max"].value
    rounding = problem.rounding(steps)
    beyond = max(low - float(spread[0]), float(spread[1]) - high) / scale
    checks = [Check("beyond bounds", beyond, max(BEYOND_LIMIT, rounding))]
    checks.append(Check("missing cells", abs(measures["cells"].value - problem.work()), 0))
    modes = checked_modes(problem, steps)
    for mode, (before, after) in zip(modes, measures["modes"].value, strict=True):
        decay = mode_decay(problem, mode)
        grown_source = steps if decay == 1 else (1 - decay**steps) / (1 - decay)
        exact = before * decay**steps + mode_source(problem, mode) * grown_source
        error = abs(after - exact) / (problem.work() * scale)
        checks.append(Check(f"mode {mode} error", error, rounding))
    if problem.work() <= REFERENCE_CELLS and problem.work() * steps <= REFERENCE_UPDATES:
        whole = Piece("u", reference(problem, steps), (0,) * len(problem.size), problem.size)
        right = digest_of([whole])
        checks.append(Check("differs from reference", float(right != state_hash), 0))
    return checks
