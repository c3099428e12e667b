"""AMR: a stencil on a grid with refinements that appear, move and vanish."""

from miniapps.amr.audit import Audit
from miniapps.amr.kinds import Block
from miniapps.amr.problem import AmrProblem as Problem
from miniapps.amr.problem import reference, validate

__all__ = ["Audit", "Block", "Problem", "reference", "validate"]
