"""A block that takes the steps of a script and counts wrong answers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from miniapps.toys.problem import ToysProblem
from miniapps.toys.scripts import SCRIPTS, exchange

from miniapps.contract import Measure, Piece
from miniapps.devices.backend import Device


class Behind(Device):
    """A device on which work is not done yet when a kernel has been called."""

    lag = 1

    def __reduce__(self) -> Any:
        return Behind, ()


class ToyBlock:
    """A rectangle of counters that advance with every step."""

    kind = "block"

    def __init__(self, problem: ToysProblem, layout: Any, index: Any, device: Any) -> None:
        self.problem, self.index = problem, index
        self.device = Behind() if problem.script.startswith("late_") else device
        corners = problem.script == "late_any_arrays"
        self.bounds, self.neighbors = layout.bounds(index), layout.neighbors(index, corners)
        self.grid, self.here, self.number = layout.grid, layout.odf, layout.numbers["block", index]
        self.counters = np.zeros([high - low for low, high in self.bounds], np.int64)
        self.time = self.wrong = 0

    def setup(self) -> Generator[Any, Any, None]:
        """Exchange messages, as some blocks begin before others are ready to receive."""
        yield from exchange(self)

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Take a step of the script; block n takes the n-th kind of step, if there are several."""
        steps = SCRIPTS[self.problem.script]
        finished = yield from steps[self.number % len(steps)](self)
        self.counters += 1
        self.time += count
        return bool(finished)

    def expect(self, right: bool) -> None:
        """Count an answer that is not right."""
        self.wrong += not right

    def state(self) -> list[Piece]:
        """The block's counters."""
        origin = tuple(low for low, _ in self.bounds)
        return [Piece("counters", self.counters, origin, self.problem.size)]

    def measure(self) -> dict[str, Measure]:
        """How many answers were wrong."""
        return {"wrong": Measure("sum", self.wrong)}
