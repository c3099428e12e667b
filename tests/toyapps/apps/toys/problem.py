"""A periodic grid of counters, whose blocks run a script of `miniapps.toys.scripts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from miniapps.rules.problem import reference

from kernels.state_hash import digest, hash_cells
from miniapps.contract import Check, Measure
from miniapps.parameters import extents, parameter
from miniapps.problem import BaseProblem

__all__ = ["ToysProblem", "reference", "validate"]


@dataclass(frozen=True)
class ToysProblem(BaseProblem):
    """Parameters: ``script`` names the steps that the blocks take."""

    size: tuple[int, ...] = parameter("--size", (9, 7), extents, "counters, NxM")
    script: str = parameter("--script", "exchange", str, "what blocks do in a step")

    @property
    def shape(self) -> tuple[int, ...]:
        """The size."""
        return self.size

    def may_finish(self, step: int) -> bool:
        """Where the script ends the run: after three steps."""
        return self.script == "ends_early" and step == 3

    def work(self) -> float:
        """The counters."""
        return float(np.prod(self.size))


def validate(
    problem: ToysProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """No answer was wrong, and every counter counted every step."""
    right = hash_cells("counters", reference(problem, steps), (0, 0), problem.size)
    wrong: Any = measures["wrong"].value
    return [
        Check("wrong answers", float(wrong), 0),
        Check("differs from reference", float(digest(right) != state_hash), 0),
    ]
