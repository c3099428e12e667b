"""Advect: a profile carried around a ring, the shortest app there is."""

from .block import AdvectBlock as Block
from .problem import AdvectProblem as Problem
from .problem import reference, validate

__all__ = ["Block", "Problem", "reference", "validate"]
