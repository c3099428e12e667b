"""PIC: the Parallel Research Kernels' particles among fixed charges, with injection and removal."""

from miniapps.pic.block import PicBlock as Block
from miniapps.pic.oracle import reference
from miniapps.pic.problem import PicProblem as Problem
from miniapps.pic.problem import validate

__all__ = ["Block", "Problem", "reference", "validate"]
