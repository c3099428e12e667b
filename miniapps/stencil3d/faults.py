"""The faults of this app are those of both stencils."""

from miniapps import grid_faults
from miniapps.grid_faults import ONE, UNSEEN

__all__ = ["OTHERS", "PROBLEMS", "UNSEEN"]

OTHERS = (grid_faults,)
PROBLEMS = {"tiny": ONE | {"size": (13, 11, 10)}, "small": ONE, "large": ONE}
