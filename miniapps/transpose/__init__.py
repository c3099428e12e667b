"""Transpose: PRK's matrix transpose, or a 3D Fourier transform in pencils: all blocks to all."""

from miniapps.transpose.audit import Audit
from miniapps.transpose.kinds import Block
from miniapps.transpose.problem import TransposeProblem as Problem
from miniapps.transpose.problem import reference, validate

__all__ = ["Audit", "Block", "Problem", "reference", "validate"]
