"""LeanMD: Lennard-Jones molecular dynamics, by blocks or cell pairs."""

from miniapps.leanmd.audit import Audit
from miniapps.leanmd.checks import validate
from miniapps.leanmd.kinds import Block
from miniapps.leanmd.loads import loads
from miniapps.leanmd.problem import LeanmdProblem as Problem
from miniapps.leanmd.reference_solution import reference

__all__ = ["Audit", "Block", "Problem", "loads", "reference", "validate"]
