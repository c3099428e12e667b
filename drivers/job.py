"""What a driver is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import numpy as np

import kernels
import miniapps
from kernels import device, state_hash
from miniapps.block import Index, Measure, Piece
from miniapps.decomposition import Layout


class RunError(RuntimeError):
    """The run failed: the message says which PE or block, and in which step."""


class Watcher(Protocol):
    """Who is told how far each PE has come; must be cheap, it is called every round; must pickle."""

    def beat(self, pe: int, step: int) -> None:
        """PE ``pe`` begins the round at ``step``."""

    def finish(self, pe: int) -> None:
        """PE ``pe`` has made its last step."""

    def fail(self, error: Exception) -> None:
        """Say why this process cannot go on."""


class Store(Protocol):
    """Who takes the final state, block by block; must pickle."""

    def create(self, pieces: list[Piece]) -> None:
        """Make room for the global state, given any block's pieces; called once, first."""

    def write(self, pieces: list[Piece]) -> None:
        """Take one block's pieces; never called by two PEs at once."""


@dataclass(frozen=True)
class Job:
    """A run: which problem, cut how, for how many steps.

    ``steps`` are timed, after ``warmup`` steps that are not; both count for the physics.
    ``balancer`` and ``lb_period`` (steps) concern the charm driver alone.
    """

    app: str
    problem: Any
    layout: Layout
    steps: int
    warmup: int = 0
    device: str = "cpu"
    balancer: str | None = None
    lb_period: int = 0
    store: Store | None = None

    def compile(self) -> float:
        """Compile the app's kernels, or load them from numba's cache; returns the seconds."""
        before = perf_counter()
        if self.problem.app is not None:
            kernels.load(self.problem.app, self.device)
        return perf_counter() - before

    def build(self, index: Index) -> Any:
        """Create one block."""
        app = miniapps.load(self.app)
        return app.Block(self.problem, self.layout, index, device.get(self.device))

    def rounds(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The rounds from step ``start`` to ``end``: (first step, number of steps)."""
        step = start
        while step < end:
            count = min(self.problem.stride(step), end - step)
            yield step, count
            step += count


@dataclass
class Outcome:
    """What a run did. ``rounds``: those that were timed, (first step, number of steps).

    ``wall_s`` (rounds,): slowest PE; ``compute_s`` (PEs, rounds): inside blocks; ``blocks``: one
    row per block and round, as `timing.ROW`; ``measures`` and ``words`` (the state hash) are joined
    over all blocks; ``balancing``: one entry per balancing; ``pes``: the PEs that took part.
    """

    pes: int
    rounds: list[tuple[int, int]]
    wall_s: np.ndarray
    compute_s: np.ndarray
    blocks: np.ndarray
    measures: dict[str, Measure]
    words: np.ndarray
    jit_s: float
    steps_done: int
    balancing: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


Report = Callable[[Outcome], int]  # returns the exit status


def hashed(pieces: list[Piece]) -> np.ndarray:
    """The state hash of one block's pieces: (4,) uint64, to be added over blocks."""
    words = np.zeros(state_hash.WORDS, np.uint64)
    for piece in pieces:
        if piece.ids is not None:
            words += state_hash.hash_rows(piece.name, piece.values, piece.ids)
        elif piece.origin is not None:
            words += state_hash.hash_cells(piece.name, piece.values, piece.origin, piece.shape)
    return words


def measured(block: Any) -> dict[str, Measure]:
    """A finished block's measures, its part of the state hash among them as ``words``."""
    return block.measure() | {"words": Measure("sum", hashed(block.state()))}
