"""Ping-pong: arrays go forth and back between two blocks, each larger by one than that before.

Each block writes all of every message that it sends and reads all of every message that comes, as
if it packed and unpacked. In a turn, the first block sends a window of messages, then the second
sends one. A step is many turns, so that what a driver does once per step does not count.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from miniapps.contract import BlockMaker, Check, Collect, Edge, Index, Measure, Piece, Post
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.kernels.state_hash import digest, hash_cells
from miniapps.parameters import parameter, require
from miniapps.problem import BaseProblem

TURNS = 20  # of each block, per step
TO_SECOND, TO_FIRST = (1, 0), (-1, 0)  # the edges of the first and of the second block
SHAPE = 2, 1  # a counter per block


@dataclass(frozen=True)
class Problem(BaseProblem):
    """Parameters of ping-pong, which runs on two PEs."""

    bytes: int = parameter("--bytes", 1 << 20, int, "length of each message")
    window: int = parameter("--window", 1, int, "messages that go forth before one comes back")

    def __post_init__(self) -> None:
        fits = self.bytes >= 8 and self.bytes % 8 == 0
        require(fits, "--bytes", self.bytes, "must be a multiple of 8, 8 or more")
        require(self.window > 0, "--window", self.window, "must be 1 or more")

    @property
    def shape(self) -> tuple[int, ...]:
        """A counter per block."""
        return SHAPE

    def work(self) -> float:
        """The messages of a step."""
        return TURNS * (self.window + 1.0)


class Block:
    """One of the two players."""

    kind = "block"

    def __init__(self, problem: Problem, layout: Layout, index: Index, device: Device) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.bounds, self.neighbors = layout.bounds(index), layout.neighbors(index)
        self.counters = np.zeros(1, np.int64)
        self.length, self.value, self.wrong = problem.bytes // 8, 0, 0

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Send and receive a message per turn."""
        for turn in range(TURNS):
            for number in range(self.problem.window):
                phase = f"forth {turn} {number}"
                if self.index == (0, 0):
                    yield Post(phase, self.next(TO_SECOND))
                else:
                    self.check((yield Collect(phase, (TO_FIRST,)))[TO_FIRST])
            phase = f"back {turn}"
            if self.index == (0, 0):
                self.check((yield Collect(phase, (TO_SECOND,)))[TO_SECOND])
            else:
                yield Post(phase, self.next(TO_FIRST))
        self.counters += count
        return False

    def next(self, edge: Edge) -> Any:
        """The next message, in memory that suits its edge."""
        self.value += 1
        messages = self.device.messages({edge: (self.length,)}, np.float64)
        messages[edge][:] = self.value
        return messages

    def check(self, message: Any) -> None:
        """Read all of a message, and count it if any element is wrong."""
        self.value += 1
        self.wrong += float(np.sum(message)) != self.length * self.value

    def state(self) -> list[Piece]:
        """The block's counter."""
        return [Piece("steps", self.counters[:, None], self.index, SHAPE)]

    def measure(self) -> dict[str, Measure]:
        """How many messages were wrong."""
        return {"wrong": Measure("sum", self.wrong)}


_: BlockMaker = Block  # mypy: it keeps the contract


def reference(problem: Problem, steps: int) -> np.ndarray:
    """The counters after ``steps`` steps."""
    return np.full(SHAPE, steps, np.int64)


def validate(
    problem: Problem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """No message was wrong, and both blocks made every step."""
    right = digest(hash_cells("steps", reference(problem, steps), (0, 0), SHAPE))
    return [
        Check("wrong messages", float(measures["wrong"].value), 0),
        Check("differs from reference", float(right != state_hash), 0),
    ]
