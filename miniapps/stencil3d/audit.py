"""The audit of Stencil3D, which shares no code with its kernels."""

from __future__ import annotations

from miniapps.grid_audit import GridAudit


class StencilAudit(GridAudit):
    """The mean of seven cells, added in the order centre, x-1, x+1, y-1, y+1, z-1, z+1."""

    weight = 1.0 / 7.0
