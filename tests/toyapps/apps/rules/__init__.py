"""Rules: an app that uses all that the contract allows, and looks at every answer."""

from miniapps.rules.block import RulesBlock as Block
from miniapps.rules.problem import RulesProblem as Problem
from miniapps.rules.problem import reference, validate

__all__ = ["Block", "Problem", "reference", "validate"]
