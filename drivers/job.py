"""What a driver is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import kernels
import miniapps
from devices import backend as device
from drivers.descriptor import Options
from miniapps.contract import Index, Piece
from miniapps.decomposition import Layout


class RunError(RuntimeError):
    """The run failed: the message says which PE or block, and in which step."""


class Watcher(Protocol):
    """Who is told how far each PE has come: cheap, as it is told every round. Must pickle."""

    def beat(self, pe: int, step: int) -> None:
        """PE ``pe`` begins the round at ``step``."""

    def finish(self, pe: int) -> None:
        """PE ``pe`` has made its last step."""

    def fail(self, error: Exception) -> None:
        """Say why this process cannot go on."""


class Store(Protocol):
    """Who takes the state, block by block; must pickle."""

    def wants(self, before: int, step: int) -> bool:
        """Whether the state after a round from step ``before`` to ``step`` belongs into a frame."""

    def keep(self, pe: int, before: int, step: int, pieces: list[Piece]) -> None:
        """Take a block's pieces of a frame that it wants; PEs may call it at once."""

    def create(self, pieces: list[Piece]) -> None:
        """Make room for the global state, given any block's pieces; called once, first."""

    def write(self, pieces: list[Piece]) -> None:
        """Take one block's pieces; never called by two PEs at once."""


@dataclass(frozen=True)
class Job:
    """A run: which problem, cut how, for how many steps.

    ``steps`` are timed, after ``warmup`` steps that are not; both count for the physics.
    ``balancer``, ``lb_period`` (steps) and ``lb_first`` (a step; None: the period) are for drivers
    that balance; ``options`` are the driver's own. A run that is ``traced`` keeps what each block
    did between two requests. Processes of a host share its first ``gpus_per_host`` GPUs, or all.
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
    traced: bool = False
    gpus_per_host: int | None = None
    lb_first: int | None = None
    options: Options = Options()

    def take_device(self, local_rank: int) -> None:
        """Let this process, of those on its host the one of that number, use one device."""
        device.open_backend(self.device, local_rank, self.gpus_per_host)

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

    def keep_frame(self, pe: int, before: int, step: int, block: Any) -> None:
        """Hand a block's state to the store, if it wants a frame, at the end of a round."""
        if self.store is not None and self.store.wants(before, step):
            self.store.keep(pe, before, step, block.state())

    def phases(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Warm-up and timed phase: (first step, end) of each. Only the second may end early."""
        return (0, self.warmup), (self.warmup, self.warmup + self.steps)

    def count(self, step: int, end: int) -> int:
        """Steps of the round that begins at ``step``, in a phase that ends at ``end``."""
        return min(self.problem.stride(step), end - step)

    def balancing_due(self, before: int, step: int) -> bool:
        """Whether blocks are balanced after a round from step ``before`` to ``step``.

        They are at the first such step, and whenever a multiple of the period has passed since.
        """
        period = self.lb_period
        first = period if self.lb_first is None else self.lb_first
        if period == 0 or step < first:
            return False
        return (before - first) // period < (step - first) // period

    def rounds(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The rounds from step ``start`` to ``end``: (first step, number of steps)."""
        step = start
        while step < end:
            count = self.count(step, end)
            yield step, count
            step += count
