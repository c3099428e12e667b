"""The faults of this app are those of both stencils."""

from miniapps.grid_faults import FAULTS, ONE, UNSEEN

__all__ = ["FAULTS", "PROBLEMS", "UNSEEN"]

PROBLEMS = {"tiny": ONE | {"size": (13, 11, 10)}, "small": ONE, "large": ONE}
