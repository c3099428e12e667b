"""A periodic grid of counters, like echo's, whose blocks may end the run early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miniapps.contract import Check, Measure
from miniapps.kernels.state_hash import digest, hash_cells
from miniapps.parameters import extents, parameter
from miniapps.problem import BaseProblem


@dataclass(frozen=True)
class RulesProblem(BaseProblem):
    """Parameters: the run ends after ``stop`` steps, if that is not 0."""

    size: tuple[int, ...] = parameter("--size", (7, 5), extents, "counters, NxM")
    stop: int = parameter("--stop", 0, int, "end after so many steps; 0: never")

    @property
    def shape(self) -> tuple[int, ...]:
        """The size."""
        return self.size

    def may_finish(self, step: int) -> bool:
        """After ``stop`` steps."""
        return step == self.stop

    def work(self) -> float:
        """The counters."""
        return float(np.prod(self.size))


def reference(problem: Any, steps: int) -> np.ndarray:
    """All counters after ``steps`` steps."""
    return np.full(problem.size, steps, np.int64)


def validate(
    problem: RulesProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """No answer was wrong, and every counter counted every step."""
    right = hash_cells("counters", reference(problem, steps), (0, 0), problem.size)
    wrong: Any = measures["wrong"].value
    return [
        *(Check(f"wrong {name}", float(n), 0) for name, n in zip(NAMES, wrong, strict=True)),
        Check("differs from reference", float(digest(right) != state_hash), 0),
    ]


NAMES = ("messages", "sums", "extremes", "arrays", "single elements", "turns")
