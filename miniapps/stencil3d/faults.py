"""The faults of this app are those of both stencils."""

from miniapps.grid_faults import FAULTS

__all__ = ["FAULTS", "PROBLEM"]

PROBLEM = {"size": (13, 11, 10), "time_tile": 1}
