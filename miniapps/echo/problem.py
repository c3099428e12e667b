"""Echo: each block sends its neighbours messages that identify themselves, and checks theirs.

The blocks cut a periodic grid of counters. A message holds its step, phase, sender and the
receiver's edge, then a pattern made of these up to ``bytes``. In each step without a wrong message
a block adds one to its counters, so after s steps all counters are s on every decomposition. That
messages carry their step and sender, and receivers check them, follows Task Bench (Slaughter et
al., SC 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from miniapps.contract import Check, Measure, Piece
from miniapps.parameters import extents, parameter, require
from miniapps.plain_hash import digest_of
from miniapps.problem import SizedProblem
from miniapps.quantities import Quantity

PHASES = ("there", "back")
WORDS = 8  # int64 words of a message's header


@dataclass(frozen=True)
class EchoProblem(SizedProblem):
    """Parameters of Echo."""

    axes: ClassVar[int] = 2
    unit: ClassVar[str] = "counters"
    quantities: ClassVar[dict[str, Quantity]] = {
        "counters": Quantity("steps in which the block of this counter got no wrong message")
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "minimal": {"size": (3, 2), "bytes": 64, "steps": 3, "warmup": 0},
        "tiny": {"size": (8, 6), "bytes": 64, "steps": 10, "warmup": 1},
        "small": {"size": (64, 64), "bytes": 1024, "steps": 1000, "warmup": 10},
        "large": {"size": (64, 64), "bytes": 1 << 20, "steps": 1000, "warmup": 10},
        "paper": {"size": (64, 64), "bytes": 4096, "steps": 1000, "warmup": 60},
    }

    size: tuple[int, ...] = parameter("--size", (64, 64), extents, "counters, NxM")
    bytes: int = parameter("--bytes", 1024, int, "length of each message")

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.bytes >= 8 * WORDS and self.bytes % 8 == 0
        require(fits, "--bytes", self.bytes, f"must be a multiple of 8, {8 * WORDS} or more")

    def least_bytes(self) -> float:
        """The counters, and those of the reference."""
        return 16.0 * math.prod(self.size)

    def work(self) -> float:
        """The number of counters, each advanced once per step."""
        return float(math.prod(self.size))


def reference(problem: EchoProblem, steps: int) -> np.ndarray:
    """The counters after ``steps`` steps: (n, m) int64."""
    return np.full(problem.size, steps, np.int64)


def validate(
    problem: EchoProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a run: no message was wrong or missing, every counter counted every step."""
    counters = reference(problem, steps)
    right = digest_of([Piece("counters", counters, (0, 0), problem.size)])
    missing = measures["edges"].value * steps * len(PHASES) - measures["messages"].value
    return [
        Check("wrong messages", float(abs(measures["wrong"].value)), 0),
        Check("missing messages", float(abs(missing)), 0),
        Check("differs from reference", float(right != state_hash), 0),
    ]
