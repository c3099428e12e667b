"""Ping-pong: an array goes forth and back between two blocks, which add one to it each time.

Each block reads all of the message that came and writes all of the next one, in one pass, as if it
unpacked and packed. A step is many turns, so that what a driver does once per step does not count.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from devices.backend import Device
from kernels.state_hash import digest, hash_cells
from miniapps.contract import BlockMaker, Check, Collect, Index, Measure, Piece, Post
from miniapps.decomposition import Layout
from miniapps.parameters import parameter, require
from miniapps.problem import BaseProblem

TURNS = 20  # of each block, per step
FORTH, BACK = ([f"{way} {turn}" for turn in range(TURNS)] for way in ("forth", "back"))
TO_SECOND, TO_FIRST = (1, 0), (-1, 0)  # the edges of the first and of the second block
SHAPE = 2, 1  # a counter per block


@dataclass(frozen=True)
class Problem(BaseProblem):
    """Parameters of ping-pong, which runs on two PEs."""

    bytes: int = parameter("--bytes", 1 << 20, int, "length of each message")

    def __post_init__(self) -> None:
        fits = self.bytes >= 8 and self.bytes % 8 == 0
        require(fits, "--bytes", self.bytes, "must be a multiple of 8, 8 or more")

    @property
    def shape(self) -> tuple[int, ...]:
        """A counter per block."""
        return SHAPE

    def work(self) -> float:
        """The messages of a step."""
        return 2.0 * TURNS


class Block:
    """One of the two players."""

    kind = "block"

    def __init__(self, problem: Problem, layout: Layout, index: Index, device: Device) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.bounds, self.neighbors = layout.bounds(index), layout.neighbors(index)
        self.counters = np.zeros(1, np.int64)
        self.latest = np.zeros(problem.bytes // 8)
        self.wrong = 0

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Send and receive a message per turn."""
        for forth, back in zip(FORTH, BACK, strict=True):
            if self.index == (0, 0):
                yield Post(forth, {TO_SECOND: self.next()})
                self.latest = (yield Collect(back, (TO_SECOND,)))[TO_SECOND]
            else:
                self.latest = (yield Collect(forth, (TO_FIRST,)))[TO_FIRST]
                yield Post(back, {TO_FIRST: self.next()})
        self.counters += count
        last = self.last()
        self.wrong += self.latest[0] != last or self.latest[-1] != last
        return False

    def last(self) -> int:
        """What each element of the last message must be."""
        return 2 * TURNS * int(self.counters[0]) - self.index[0]

    def next(self) -> Any:
        """The next message."""
        message = self.device.messages({(): self.latest.shape}, np.float64)[()]
        return np.add(self.latest, 1.0, out=message)

    def state(self) -> list[Piece]:
        """The block's counter."""
        return [Piece("steps", self.counters[:, None], self.index, SHAPE)]

    def measure(self) -> dict[str, Measure]:
        """How many messages were wrong; of the last one every element counts."""
        return {"wrong": Measure("sum", self.wrong + int(np.sum(self.latest != self.last())))}


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
