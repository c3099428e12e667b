"""The faults of this app: those of both stencils, and of the test of the tolerance."""

from __future__ import annotations

from typing import Any

from miniapps import grid_faults
from miniapps.faults import in_place_of
from miniapps.grid_faults import ONE, UNSEEN

__all__ = ["OTHERS", "PROBLEMS", "UNSEEN"]

OTHERS = (grid_faults,)
PROBLEMS = {"tiny": ONE | {"size": (23, 19)}, "small": ONE, "large": ONE}


@in_place_of("miniapps.jacobi2d:Block.sweep_measured", given={"tolerance": 1e-3, "check_every": 2})
def tolerance_met_too_early(right: Any, self: Any, count: int) -> float:
    """The largest change of a cell in a sweep is found to be 0, so that the run ends early."""
    right(self, count)
    return 0.0
