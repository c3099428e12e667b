"""A periodic grid of counters, whose blocks run a script of `miniapps.toys.scripts`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from miniapps.contract import Check, Measure, Piece
from miniapps.kernels.state_hash import digest, hash_cells
from miniapps.parameters import extents, parameter
from miniapps.problem import BaseProblem
from miniapps.snapshots import SnapshotWriter


class SlowSnapshots:
    """Takes a quarter of a second for each block, and writes nothing."""

    name: ClassVar[str] = "slow"
    every: ClassVar[int] = 2
    seconds: ClassVar[float] = 0.25
    frame_bytes: ClassVar[float] = 0.0

    def wants(self, before: int, step: int) -> bool:
        """After every second step."""
        return step % 2 == 0

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Wait."""
        time.sleep(self.seconds)

    def join(self, file: Any, frames: Any, record: dict[str, Any], steps: int) -> None:
        """Leave the file as it is."""

    def earlier(self, file: Any) -> dict[int, list[Any]]:
        """None."""
        return {}


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

    def snapshots(self) -> tuple[SnapshotWriter, ...]:
        """Slow ones after every second step."""
        return (SlowSnapshots(),)

    def work(self) -> float:
        """The counters."""
        return float(np.prod(self.size))


def reference(problem: Any, steps: int) -> np.ndarray:
    """All counters after ``steps`` steps."""
    return np.full(problem.size, steps, np.int64)


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
