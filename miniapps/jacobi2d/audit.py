"""The audit of Jacobi2D, which shares no code with its kernels."""

from __future__ import annotations

from miniapps.grid_audit import GridAudit


class JacobiAudit(GridAudit):
    """The mean of five cells, added in the order centre, x-1, x+1, y-1, y+1."""

    weight = 0.2
