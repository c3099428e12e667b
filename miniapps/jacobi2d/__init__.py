"""Jacobi2D: five-point averaging on a rectangle."""

from miniapps.grid_audit import GridAudit as Audit
from miniapps.grid_loads import loads
from miniapps.jacobi2d.block import JacobiBlock as Block
from miniapps.jacobi2d.problem import JacobiProblem as Problem
from miniapps.jacobi2d.problem import reference, validate

__all__ = ["Audit", "Block", "Problem", "loads", "reference", "validate"]
