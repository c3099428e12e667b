"""The faults of this app are those of both stencils."""

from miniapps.grid_faults import FAULTS

__all__ = ["FAULTS", "PROBLEM"]

PROBLEM = {"size": (23, 19), "time_tile": 1}
