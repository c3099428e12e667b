"""Stencil3D: seven-point averaging in a box, with a load imbalance."""

from miniapps.grid_audit import GridAudit as Audit
from miniapps.stencil3d.block import StencilBlock as Block
from miniapps.stencil3d.loads import loads
from miniapps.stencil3d.problem import StencilProblem as Problem
from miniapps.stencil3d.problem import reference, validate

__all__ = ["Audit", "Block", "Problem", "loads", "reference", "validate"]
