"""PIC: particles among fixed charges, with injection and removal."""

from miniapps.pic.audit import Audit
from miniapps.pic.block import PicBlock as Block
from miniapps.pic.loads import loads
from miniapps.pic.problem import PicProblem as Problem
from miniapps.pic.problem import validate
from miniapps.pic.reference_solution import reference

__all__ = ["Audit", "Block", "Problem", "loads", "reference", "validate"]
