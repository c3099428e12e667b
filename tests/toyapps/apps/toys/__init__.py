"""Toys: blocks whose steps are a script, for tests of drivers against the contract."""

from miniapps.toys.block import ToyBlock as Block
from miniapps.toys.problem import ToysProblem as Problem
from miniapps.toys.problem import reference, validate

__all__ = ["Block", "Problem", "reference", "validate"]
