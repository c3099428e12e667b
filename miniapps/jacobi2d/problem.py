"""Jacobi2D as Fink et al. define it (ESPM2 2021, section III-B).

On n x m interior cells one sweep replaces each by the mean of itself and its four face neighbours,
added in the order centre, x-1, x+1, y-1, y+1. The published problem starts from 1.0 inside a ghost
ring that holds 255.0 on the low-x and low-y sides and 1.0 on the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from miniapps import grid
from miniapps.contract import Check, Measure
from miniapps.grid import BOUNDARIES, DTYPES, INITIALS, GridProblem
from miniapps.grid_reference import reference
from miniapps.parameters import Number, extents, integer_or_auto, parameter, require

__all__ = ["JacobiProblem", "reference", "validate"]


@dataclass(frozen=True)
class JacobiProblem(GridProblem):
    """Parameters of Jacobi2D.

    With a ``tolerance``, the run stops when no cell has changed by more than that in the last
    sweep; this is checked every ``check_every`` sweeps.
    """

    app: ClassVar[str] = "jacobi2d"
    axes: ClassVar[int] = 2
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "minimal": {  # reductions too
            "size": (9, 6),
            "initial": "noise",
            "time_tile": 2,
            "tolerance": 1e-9,
            "check_every": 2,
            "steps": 5,
            "warmup": 0,
        },
        "tiny": {"size": (101, 83), "initial": "noise", "steps": 20, "warmup": 2},
        "small": {"size": (1024, 1024), "initial": "noise", "steps": 200, "warmup": 10},
        "large": {"size": (8192, 8192), "initial": "noise", "steps": 100, "warmup": 10},
        "paper": {"size": (24576, 24576), "steps": 100, "warmup": 10, "time_tile": 1},
        "paper-weak": {"size": (6144, 6144), "steps": 100, "warmup": 10, "time_tile": 1},
        "paper-gpu": {"size": (73728, 73728), "steps": 100, "warmup": 10, "time_tile": 1},
        "demo": {"size": (2048, 2048), "initial": "noise", "steps": 200, "warmup": 10},
    }

    size: tuple[int, ...] = parameter("--size", (1024, 1024), extents, "interior cells, NxM")
    boundary: str = parameter(
        "--boundary",
        "heated",
        str,
        "heated: 255 beyond the low faces, 1 beyond the others; zero; periodic",
        BOUNDARIES,
    )
    initial: str = parameter("--initial", "ones", str, "field at step 0", INITIALS)
    time_tile: int | str = parameter(
        "--time-tile", "auto", integer_or_auto, "sweeps per halo exchange, or auto"
    )
    dtype: str = parameter("--dtype", "float64", str, "of a cell", DTYPES)
    tolerance: float = parameter(
        "--tolerance",
        0.0,
        Number(zero=True),
        "stop when no cell changes by more in a sweep; 0: never",
    )
    check_every: int = parameter(
        "--check-every", 10, int, "sweeps between two tests of the tolerance"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.check_every >= 1, "--check-every", self.check_every, "must be 1 or more")

    def void(self) -> dict[str, str]:
        """When to check a tolerance that there is not."""
        return {} if self.tolerance else {"check_every": "needs --tolerance"}

    def tile_limit(self) -> tuple[int, str]:
        """With a tolerance, at most the number of sweeps between two checks of it."""
        return (self.check_every, "--check-every") if self.tolerance else super().tile_limit()

    def may_finish(self, step: int) -> bool:
        """Where the tolerance is checked."""
        return self.is_tested(step)

    def is_tested(self, step: int) -> bool:
        """Whether the tolerance is checked after step ``step``."""
        return self.tolerance > 0 and step % self.check_every == 0

    def steps_per_round(self, step: int) -> int:
        """The sweeps per exchange, or fewer up to the next check of the tolerance."""
        if not self.tolerance:
            return super().steps_per_round(step)
        return min(super().steps_per_round(step), self.check_every - step % self.check_every)


def validate(
    problem: JacobiProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a finished run as `grid.validate` does, and whether it has ended where it must."""
    checks = grid.validate(problem, steps, measures, state_hash)
    if "change" not in measures:
        return checks
    change = float(measures["change"].value)
    if measures["has met"].value:
        return [*checks, Check("change in the last sweep", change, problem.tolerance)]
    unnoticed = float(change <= problem.tolerance)
    return [*checks, Check("tolerance met unnoticed", unnoticed, 0)]
