"""A LeanMD problem whose atoms a test places one by one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from miniapps.leanmd.problem import LeanmdProblem


@dataclasses.dataclass(frozen=True, eq=False)
class Placed(LeanmdProblem):
    """Atoms 1 to n where a test puts them, as fast as it says: (3, n) each."""

    __eq__ = object.__eq__  # the base compares its own fields, and runs share equal problems
    __hash__ = object.__hash__
    at: Any = None
    speed: Any = None

    @property
    def atoms(self) -> int:
        """How many atoms there are."""
        return self.at.shape[1]

    @property
    def draws_velocities(self) -> bool:
        """They bring theirs along."""
        return False

    def beginning(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
        """Those that begin in [low, high)."""
        at = np.rint(self.at / self.quantum) * self.quantum % self.box[:, None]
        here = np.flatnonzero(np.all((at.T >= low) & (at.T < high), axis=1))
        return 1 + here, at[:, here], self.speed[:, here]
