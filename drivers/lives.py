"""Blocks that exist for a time: which there are in a step, and what they may ask for.

`BaseProblem.kinds_at` says which kinds of blocks exist in a step. Where it does, a driver has a
runner for each place, with a block while there is one: the block is made when the first round of
its kind begins, and is let go when the last one has ended. So the inbox of a place keeps messages
that come before the block does, and audits outlive it. docs/contract.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from miniapps.contract import (
    AllReduce,
    Begin,
    Collect,
    CollectSum,
    Edge,
    Index,
    MessageError,
    Place,
    Post,
    PostSum,
)
from miniapps.drivers.inbox import Inbox
from miniapps.drivers.job import Job, RunError
from miniapps.drivers.timing import Stepper
from miniapps.drivers.waits import step_name

NOT_FOR_A_TIME = PostSum, CollectSum, AllReduce, Begin


class Lives(NamedTuple):
    """The places of a process, and when there are blocks; ``start``: the first step of the run."""

    problem: Any
    places: Sequence[Place]
    build: Callable[[Index], Any]
    start: int = 0

    @classmethod
    def of(cls, job: Job, places: Iterable[Place]) -> Self | None:
        """Those of a job; None where all blocks exist in all steps."""
        if job.problem.kinds_at(0) is None:
            return None
        return cls(job.problem, list(places), job.build, job.start)


def exists(problem: Any, kind: str, step: int) -> bool:
    """Whether blocks of a kind exist in a step."""
    kinds = problem.kinds_at(step)
    return kinds is None or kind in kinds


def outlasts(problem: Any, kind: str, step: int) -> bool:
    """Whether blocks of a kind exist between the round before a step and the one that begins it."""
    return exists(problem, kind, step - 1) and exists(problem, kind, step)


def require_whole(problem: Any, step: int, count: int) -> None:
    """Raise RunError if other kinds exist after the first of ``count`` steps, all of one round."""
    for later in range(step + 1, step + count):
        if problem.kinds_at(later) != problem.kinds_at(step):
            raise RunError(
                f"a round of {count} steps begins at step {step}, but other kinds of blocks exist "
                f"in step {later}: steps_per_round must end rounds there"
            )


def require_existing(problem: Any, block: Any, step: int, request: Any) -> None:
    """Raise MessageError for a request that needs a block which does not exist in the step."""
    if isinstance(request, NOT_FOR_A_TIME):
        raise MessageError(
            f"yields {type(request).__name__}, but blocks of this problem exist for a time: they "
            "may Post, Collect, Pause and Batch"
        )
    if not isinstance(request, Post | Collect):
        return
    edges: Iterable[Edge] = request.edges if isinstance(request, Collect) else request.messages
    kinds = problem.kinds_at(step)
    for edge in edges:
        peer = block.neighbors.get(edge)
        if peer is not None and peer.kind not in kinds:
            does = "collects from" if isinstance(request, Collect) else "posts to"
            raise MessageError(
                f"phase {request.phase!r}: {does} {peer.kind} {peer.block} on edge {edge}, which "
                f"does not exist in {step_name(step)}"
            )


class CheckedStepper(Stepper):
    """Refuses requests to blocks that do not exist."""

    def __init__(self, block: Any, traced: bool, problem: Any) -> None:
        super().__init__(block, traced)
        self.problem = problem

    def resume(self, answer: Any) -> Any:
        """Answer the block; returns its next request."""
        request = super().resume(answer)
        try:
            require_existing(self.problem, self.block, self.step, request)
        except MessageError as error:
            raise self._placed(error)  # noqa: B904 - it is what was raised
        return request


@dataclass(frozen=True)
class Absent:
    """In place of a block that does not exist."""

    index: Index
    neighbors: dict[Edge, Any] = field(default_factory=dict)


class EarlyInbox(Inbox):
    """The inbox of a place: keeps what comes before its first block, and checks it then."""

    def __init__(self, place: Place) -> None:
        super().__init__(Absent(place[1]))
        self.unchecked: list[tuple[int, str, Edge, Place, np.ndarray]] | None = []

    def deliver(self, step: int, phase: str, edge: Edge, sender: Place, array: np.ndarray) -> None:
        """Store a message; before the first block there is nothing to check it against."""
        if self.unchecked is None:
            super().deliver(step, phase, edge, sender, array)
        else:
            self.unchecked.append((step, phase, edge, sender, array))

    def meet(self, block: Any) -> None:
        """Serve a block. Raises MessageError for a message that came early and is not for it."""
        self.block = block
        self.senders = {edge: peer.place for edge, peer in block.neighbors.items()}
        early, self.unchecked = self.unchecked or [], None
        for message in early:
            self.deliver(*message)

    def leave(self) -> None:
        """Let the block go; those of later lives have the same neighbours."""
        self.block = Absent(self.block.index)
