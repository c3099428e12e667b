"""CG: conjugate gradients on HPCG's operator, with exact dot products."""

from miniapps.cg.audit import CgAudit as Audit
from miniapps.cg.kinds import Block
from miniapps.cg.problem import CgProblem as Problem
from miniapps.cg.problem import reference, validate

__all__ = ["Audit", "Block", "Problem", "reference", "validate"]
