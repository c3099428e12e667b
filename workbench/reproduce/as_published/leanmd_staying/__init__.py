"""LeanMD whose atoms never change cell: those that leave it are missed by their new neighbours.

So does the public port to Python, which migrates no atom.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from miniapps.leanmd import Problem, reference
from miniapps.leanmd import validate as right
from miniapps.leanmd.block import LeanmdBlock
from miniapps.workbench.reproduce.wrong import demanding

__all__ = ["Block", "Problem", "reference", "validate"]


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


validate = demanding(
    right,
    must=("atoms outside their cell",),
    may=("net force", "momentum change per atom", "energy drift", "differs from reference"),
)
