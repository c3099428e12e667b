"""A block that exchanges arrays of any length and type, and reduces in all ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from math import prod
from typing import Any, ClassVar

import numpy as np
from miniapps.rules.problem import NAMES, RulesProblem

from miniapps.contract import AllReduce, Collect, Exchange, Measure, Pause, Piece, Post
from miniapps.devices.backend import Device
from miniapps.devices.messages import packed

# Longer than the mpi driver's first buffer, empty, shorter again, and longer than ever.
SHAPES = ((3,), (0,), (600,), (40, 30), (1,), (0, 4), (2, 3, 5, 4), (30000,), (7,))
TYPES = (np.float64, np.int64, np.float32, np.uint8, np.complex128)


class Behind(Device):
    """A device on which work is not done yet when a kernel has been called."""

    lag = 1

    def __reduce__(self) -> Any:
        return Behind, ()


class RulesBlock:
    """A rectangle of counters that advance while every answer is right."""

    kind = "block"
    asked: ClassVar[Counter[int]] = Counter()  # how many paused, by step

    def __init__(self, problem: RulesProblem, layout: Any, index: Any, device: Any) -> None:
        self.problem, self.index, self.device = problem, index, Behind()
        self.bounds, self.neighbors = layout.bounds(index), layout.neighbors(index, diagonals=True)
        self.grid, self.here, self.number = layout.grid, layout.odf, layout.numbers["block", index]
        self.counters = np.zeros([high - low for low, high in self.bounds], np.int64)
        self.wrong = np.zeros(len(NAMES), np.int64)
        self.time = 0

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Exchange and reduce in every way, and look at what comes back."""
        before = self.wrong.sum()
        came = yield from Exchange("plain", self.messages(0))
        self.look(0, came)
        yield AllReduce(0, "max")
        messages = self.messages(1)
        yield Post("in two parts", {edge: packed(m) for edge, m in messages.items()})
        edges = tuple(self.neighbors)
        came = dict((yield Collect("in two parts", edges[1::2])))
        yield from self.reduce()
        came |= yield Collect("in two parts", edges[::2])
        self.look(1, came)
        yield AllReduce(0, "max")  # now all are as far
        self.asked[self.time] += 1
        yield Pause()
        self.wrong[5] += self.asked[self.time] < self.here
        self.counters += self.wrong.sum() == before
        self.time += count
        return self.time == self.problem.stop

    def messages(self, phase: int) -> dict[Any, np.ndarray]:
        """What this block sends along each edge."""
        peers = self.neighbors.values()
        mine = [self.message(phase, self.index, peer.edge) for peer in peers]
        return dict(zip(self.neighbors, mine, strict=True))

    def message(self, phase: int, sender: Any, edge: Any) -> np.ndarray:
        """What a sender's message to the receiver's edge must be."""
        turn = self.time + 3 * edge[0] + edge[1] + 5 * phase
        value = 1 + (7 * self.time + 5 * sender[0] + 3 * sender[1] + turn) % 200
        return np.full(SHAPES[turn % len(SHAPES)], value, TYPES[turn % len(TYPES)])

    def look(self, phase: int, came: dict[Any, np.ndarray]) -> None:
        """Count the messages that are not what they must be; then write to them, as is allowed."""
        for edge, peer in self.neighbors.items():
            right = self.message(phase, peer.block, edge)
            same = came[edge].dtype == right.dtype and np.array_equal(came[edge], right)
            self.wrong[0] += not same
            came[edge][...] = 0

    def reduce(self) -> Generator[Any, Any, None]:
        """Reduce numbers and arrays; all results are known."""
        blocks = prod(self.grid)
        total = yield AllReduce(self.number + self.time, "sum")
        self.wrong[1] += total != blocks * (blocks - 1) // 2 + blocks * self.time
        most = yield AllReduce(float(self.number), "max")
        least = yield AllReduce(np.float64(-0.5 * self.number), "min")
        self.wrong[2] += most != blocks - 1 or least != -0.5 * (blocks - 1)
        array = yield AllReduce(np.array([[self.number, 1.0], [-self.number, self.time]]), "sum")
        triangle = blocks * (blocks - 1) / 2
        right = np.array([[triangle, blocks], [-triangle, blocks * self.time]])
        self.wrong[3] += np.shape(array) != (2, 2) or not np.array_equal(array, right)
        single = yield AllReduce(np.array([self.number]), "max")
        self.wrong[4] += np.shape(single) != (1,) or single[0] != blocks - 1
        array[...] = 0  # must be nobody else's

    def state(self) -> list[Piece]:
        """The block's counters."""
        origin = tuple(low for low, _ in self.bounds)
        return [Piece("counters", self.counters, origin, self.problem.size)]

    def measure(self) -> dict[str, Measure]:
        """How many answers were wrong."""
        return {"wrong": Measure("sum", self.wrong)}
