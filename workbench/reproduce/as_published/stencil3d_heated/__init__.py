"""Stencil3D that heats the low faces of every block: the result depends on the number of chares.

So do both public versions of stencil3d, whose heated boundary is that of a chare, not of the
domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from miniapps.contract import Edge
from miniapps.grid import HEATED
from miniapps.stencil3d import Problem, reference
from miniapps.stencil3d import validate as right
from miniapps.stencil3d.block import StencilBlock
from miniapps.workbench.reproduce.wrong import demanding

__all__ = ["Block", "Problem", "reference", "validate"]


class Block(StencilBlock):
    """A box of cells with a heater of its own."""

    def fill_ghosts(self, came: Mapping[Edge, Any]) -> None:
        """Copy what came from the high sides, and heat the low ones."""
        super().fill_ghosts({edge: HEATED if min(edge) < 0 else came[edge] for edge in came})


validate = demanding(
    right, must=("mode (0, 0, 0) error",), may=("beyond bounds", "mode", "differs from reference")
)
