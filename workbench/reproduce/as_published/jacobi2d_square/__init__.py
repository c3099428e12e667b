"""Jacobi2D that cuts every axis as x: the wrong domain unless the grid of PEs is square.

So does the public program of Fink et al. (ESPM2 2021), which had no check.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from miniapps.contract import Index
from miniapps.decomposition import Bounds, Layout
from miniapps.jacobi2d import Block, reference
from miniapps.jacobi2d import Problem as Right
from miniapps.jacobi2d import validate as right
from miniapps.workbench.reproduce.wrong import demanding

__all__ = ["Block", "Problem", "reference", "validate"]


class SquareLayout(Layout):
    """A layout whose blocks are as if there were as many along y as along x."""

    def bounds(self, index: Index) -> Bounds:
        """The cells of a block."""
        axes = len(self.grid)
        square = replace(self, pe_grid=self.pe_grid[:1] * axes, sub_grid=self.sub_grid[:1] * axes)
        return super(SquareLayout, square).bounds(index)


@dataclass(frozen=True)
class Problem(Right):
    """The problem of the right program, decomposed wrongly."""

    def cut(self, pes: int, odf: int, pe_grid: tuple[int, ...] | None) -> Layout:
        """The layout for some PEs."""
        cut = super().cut(pes, odf, pe_grid)
        return SquareLayout(**{field.name: getattr(cut, field.name) for field in fields(Layout)})


validate = demanding(
    right, must=("missing cells",), may=("beyond bounds", "mode", "differs from reference")
)
