"""Advect: a profile carried around a ring by the upwind scheme of first order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from miniapps.contract import Check, Measure
from miniapps.kernels.state_hash import digest, hash_cells
from miniapps.parameters import extents, parameter, require
from miniapps.problem import SizedProblem
from miniapps.quantities import Quantity


@dataclass(frozen=True)
class AdvectProblem(SizedProblem):
    """Parameters of Advect."""

    axes: ClassVar[int] = 1
    quantities: ClassVar[dict[str, Quantity]] = {"u": Quantity("value of each cell of the ring")}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"size": (101,), "steps": 20, "warmup": 2},
        "small": {"size": (1_000_000,), "steps": 100, "warmup": 10},
    }

    size: tuple[int, ...] = parameter("--size", (1_000_000,), extents, "cells")
    courant: float = parameter("--courant", 0.3, float, "cells travelled per step, 0 to 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.courant <= 1, "--courant", self.courant, "must be from 0 to 1")

    def work(self) -> float:
        """The cells, each updated once a step."""
        return float(self.size[0])

    def initial(self, low: int, high: int) -> np.ndarray:
        """The cells [low, high) of the profile at step 0: a parabola and a box."""
        x = np.arange(low, high) / self.size[0]
        return 4 * x * (1 - x) + (x < 0.25)


def reference(problem: AdvectProblem, steps: int) -> np.ndarray:
    """The whole profile after ``steps`` steps: (n,) float64."""
    u = problem.initial(0, problem.size[0])
    for _ in range(steps):
        u = u - problem.courant * (u - np.roll(u, 1))
    return u


def validate(
    problem: AdvectProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a run by its first Fourier mode, known exactly, and a small one by every bit."""
    (cells,) = problem.size
    before, after = measures["mode"].value
    factor = 1 - problem.courant * (1 - np.exp(-2j * np.pi / cells))
    error = abs(after - before * factor**steps) / cells
    checks = [Check("mode error", float(error), 1e-15 * (steps + 100))]
    if cells * steps <= 1e6:
        right = digest(hash_cells("u", reference(problem, steps), (0,), problem.size))
        checks.append(Check("differs from reference", float(right != state_hash), 0))
    return checks
