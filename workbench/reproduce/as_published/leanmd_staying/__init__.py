"""LeanMD whose atoms never change cell: those that leave it are missed by their new neighbours.

So does the public port to Python, which migrates no atom.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from miniapps.contract import Check, Measure
from miniapps.leanmd import Problem, reference
from miniapps.leanmd import validate as right
from miniapps.leanmd.block import LeanmdBlock
from miniapps.workbench.reproduce.wrong import as_it_must_fail

__all__ = ["Block", "Problem", "reference", "validate"]

MAY = ("net force", "momentum change per atom", "energy drift", "differs from reference")


class Block(LeanmdBlock):
    """A box of cells, and the atoms that were in it at the start."""

    def change_domains(self) -> Generator[Any, Any, None]:
        """Keep the atoms."""
        atoms = self.atoms
        atoms.set(atoms.ids, atoms.own("position"), atoms.own("velocity"))
        atoms.clear_error_flags()
        self.built = self.time
        return
        yield  # makes this a generator; it sends no request


def validate(
    problem: Problem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """The right program's checks, of which that of atoms outside their domain must fail."""
    checks = right(problem, steps, measures, state_hash)
    return as_it_must_fail(checks, ("atoms outside their cell",), MAY)
