"""One block of Echo: it sends messages, checks those that it receives, and counts."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from miniapps.contract import (
    BlockMaker,
    Checkpoint,
    Edge,
    Exchange,
    Index,
    Measure,
    Pause,
    Piece,
    Saved,
)
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.devices.messages import packed
from miniapps.echo.problem import PHASES, WORDS, EchoProblem

FACTORS = np.array([1, 3, 5, 7, 11, 13, 17, 19])  # combine a header into one number


class EchoBlock:
    """A rectangle of counters that advance in each step without a wrong message."""

    kind = "block"

    def __init__(self, problem: EchoProblem, layout: Layout, index: Index, device: Device) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.bounds = layout.bounds(index)
        self.neighbors = layout.neighbors(index)
        self.counters = np.zeros([high - low for low, high in self.bounds], np.int64)
        self.time = self.messages = self.wrong = 0

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Exchange one message per edge and phase, and check each."""
        wrong = 0
        for phase in range(len(PHASES)):
            messages = {
                edge: packed(self.message(phase, self.index, peer.edge))
                for edge, peer in self.neighbors.items()
            }
            came = yield from Exchange(PHASES[phase], messages)
            for edge, peer in self.neighbors.items():
                wrong += self.is_wrong(came[edge], self.message(phase, peer.block, edge))
            self.messages += len(came)
            yield Pause()
        self.wrong += wrong
        self.counters += wrong == 0
        self.time += count
        return False

    def message(self, phase: int, sender: Index, edge: Edge) -> np.ndarray:
        """The correct message from ``sender`` to the receiver's ``edge``; (bytes / 8,) int64."""
        message = np.empty(self.problem.bytes // 8, np.int64)
        message[:WORDS] = self.time, phase, *sender, *edge, 0, 0
        message[WORDS:] = message[:WORDS] @ FACTORS
        return message

    @staticmethod
    def is_wrong(came: np.ndarray, right: np.ndarray) -> bool:
        """Whether a message differs from the correct one."""
        return came.shape != right.shape or came.tobytes() != right.tobytes()

    def state(self) -> list[Piece]:
        """The block's counters."""
        origin = tuple(low for low, _ in self.bounds)
        return [Piece("counters", self.counters, origin, self.problem.size)]

    def checkpoint(self) -> Checkpoint:
        """Beside the counters, how many messages have been missing, and how many wrong."""
        counts = np.array([self.due() - self.messages, self.wrong])
        return Checkpoint(totals={"missing and wrong": Measure("sum", counts)})

    def resume(self, saved: Saved) -> None:
        """Take up the counters; the first block takes up what all blocks have missed."""
        self.time = saved.step
        self.counters = saved.cells("counters", self.bounds)
        missing, self.wrong = map(int, saved.total("missing and wrong"))
        self.messages = self.due() - missing

    def due(self) -> int:
        """The number of messages that should have come so far."""
        return len(self.neighbors) * self.time * len(PHASES)

    def measure(self) -> dict[str, Measure]:
        """The number of messages received, of wrong messages, and of edges."""
        return {
            "messages": Measure("sum", self.messages),
            "wrong": Measure("sum", self.wrong),
            "edges": Measure("sum", len(self.neighbors)),
        }


_: BlockMaker = EchoBlock  # mypy: it keeps the contract
