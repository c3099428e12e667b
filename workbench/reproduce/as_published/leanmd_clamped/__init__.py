"""LeanMD that clamps velocities: no atom becomes faster than a limit, so energy is lost.

So do all public versions of LeanMD, whose atoms overlap at the start and would fly apart. Here the
atoms do not overlap, and the limit is below the speed of many.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from miniapps.leanmd import Problem, reference
from miniapps.leanmd import validate as right
from miniapps.leanmd.block import LeanmdBlock
from miniapps.workbench.reproduce.wrong import demanding

__all__ = ["Block", "Problem", "reference", "validate"]

FASTEST = 1.0  # sigma / tau, along an axis


class Block(LeanmdBlock):
    """A box of cells, in which no atom is fast."""

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Make a step, and clamp the velocities without an error."""
        finished = yield from super().step(count)
        np.clip(self.atoms.velocity, -FASTEST, FASTEST, out=self.atoms.velocity)
        return finished


validate = demanding(
    right, must=("energy drift",), may=("momentum change per atom", "differs from reference")
)
