"""Timing of rounds and blocks: the same definitions under every driver.

A *round* is one call of a block's ``step``. The *wall* of a round is the time from the moment the
last block of all finished the round before (or the common start) to the moment the last block of
all finished this one, so the walls of all rounds add up to the time that passed. *Compute* is the
time inside blocks, with the device synchronised. `Stepper` measures it where a block is resumed,
`PELog` keeps it per PE.
"""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter, time
from typing import Any

import numpy as np

ROW = np.dtype(
    [
        ("block", np.int32),  # Layout.number of the block's index
        ("pe", np.int32),
        ("round", np.int32),
        ("begin_s", np.float64),  # when the block began the round, from the PE's common start
        ("end_s", np.float64),
        ("compute_s", np.float64),
    ]
)


class Stepper:
    """Runs one block's generator, one round at a time, and measures the time inside it."""

    def __init__(self, block: Any) -> None:
        self.block = block
        self.generator: Generator[Any, Any, Any] | None = None
        self.finished = False  # the block said that the whole run is finished
        self.begin = self.compute = 0.0

    def start(self, count: int) -> Any:
        """Begin a round of ``count`` steps; returns the block's first request."""
        self.generator = self.block.step(count)
        self.begin, self.compute = perf_counter(), 0.0
        return self.resume(None)

    def resume(self, answer: Any) -> Any:
        """Answer the block; returns its next request, or None at the end of the round."""
        assert self.generator is not None, "start() comes first"
        before = perf_counter()
        try:
            request = self.generator.send(answer)
        except StopIteration as stop:
            self.generator, request = None, None
            self.finished = bool(stop.value)
        self.block.device.synchronize()
        self.compute += perf_counter() - before
        return request


class PELog:
    """What one PE did: when each round ended, and what each block computed in it."""

    def __init__(self, pe: int) -> None:
        self.pe = pe
        self.born = time()  # since the epoch: when this PE was ready to step
        self.start()

    def start(self) -> None:
        """Forget what was; time runs from now."""
        self.origin = perf_counter()
        self.rows: list[tuple[int, int, int, float, float, float]] = []

    def add(self, block: int, number: int, stepper: Stepper) -> None:
        """Note that a block has just finished the round of that number."""
        begin, end = stepper.begin - self.origin, perf_counter() - self.origin
        self.rows.append((block, self.pe, number, begin, end, stepper.compute))

    def table(self) -> np.ndarray:
        """All rows, as an array of `ROW`."""
        return np.array(self.rows, ROW)


def wall_of_rounds(rows: np.ndarray, rounds: int) -> np.ndarray:
    """Wall seconds of each round (rounds,), from all PEs' rows."""
    ends = np.zeros(rounds)
    np.maximum.at(ends, rows["round"], rows["end_s"])
    return np.diff(ends, prepend=0.0)


def compute_per_pe(rows: np.ndarray, pes: int, rounds: int) -> np.ndarray:
    """Compute seconds of each PE in each round (pes, rounds), from all PEs' rows."""
    compute = np.zeros((pes, rounds))
    np.add.at(compute, (rows["pe"], rows["round"]), rows["compute_s"])
    return compute


def imbalance(compute: np.ndarray) -> float:
    """Slowest over mean PE, of compute (PEs, rounds), over all rounds: what balancing can gain."""
    mean = compute.mean(axis=0).sum()
    return float(compute.max(axis=0).sum() / mean) if mean else 1.0
