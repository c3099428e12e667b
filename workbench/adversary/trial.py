"""One run of a small problem in one order of events."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from miniapps.contract import SETUP, AllReduce, Collect, CollectSum, Place
from miniapps.drivers.checkpoints import words_of_state
from miniapps.drivers.engine import Phase, Round, Runner, nothing
from miniapps.drivers.orders import Order
from miniapps.drivers.schedule import Event
from miniapps.drivers.shares import hashed
from miniapps.kernels.state_hash import digest


class Result(NamedTuple):
    """The outcome of a run: the hash of the final state, or the error that ended the run."""

    state_hash: str
    error: str = ""

    def like(self, other: Result) -> bool:
        """Whether both have failed in the same way: by a wrong state, or by the same error."""
        return self.error.partition(":")[0] == other.error.partition(":")[0]


@dataclass(frozen=True)
class Subject:
    """A program to test: how to make its blocks and engine, and how many steps to run.

    ``blocks()`` makes new blocks, none if they exist for a time; ``engine(blocks, order)`` makes an
    engine that follows an order.
    """

    blocks: Callable[[], Sequence[Any]]
    engine: Callable[[Sequence[Any], Order], Any]
    steps: int
    problem: Any = None  # None: that of the blocks

    def run(self, order: Order, seen: Seen | None = None) -> Result:
        """Run all steps in an order. An error of the run is a result."""
        return self.outcome(order, seen)[0]

    def outcome(self, order: Order, seen: Seen | None = None) -> tuple[Result, list[Any]]:
        """As `run`; also returns the blocks at the end, none of a run that failed."""
        blocks = self.blocks()
        problem = self.problem or blocks[0].problem

        def steps(step: int) -> int:
            return min(problem.steps_per_round(step), self.steps - step)

        try:
            engine = self.engine(blocks, order)
            engine.transport.observer = seen
            ended = nothing if seen is None else seen.ended
            engine.setup()
            engine.close(engine.play(Phase(0, self.steps, steps), ended=ended))
        except Exception as error:  # whatever a block or a driver raises is the run's result
            return Result("", f"{type(error).__name__}: {error}"), []
        return Result(digest(words_of_state(engine.blocks))), engine.blocks


class Answer(NamedTuple):
    """A part of the answer to a block's request, and its digest.

    ``edge``: of a message; of sums and reductions, the number of the request in its round.
    """

    what: str
    place: Place
    step: int
    phase: str
    edge: Any
    value: bytes


@dataclass
class Seen:
    """What was sent, received and computed in a run, as digests; an observer of the driver.

    ``answers``: in order of time; ``posts``: by delivery; ``states``: by step and block;
    ``requests``: what a block asked for, by the event that answered it; ``turns``: that event, by
    the first five parts of an answer.
    """

    answers: list[Answer] = field(default_factory=list)
    posts: dict[Event, bytes] = field(default_factory=dict)
    senders: dict[Event, Place] = field(default_factory=dict)
    states: dict[tuple[int, Place], bytes] = field(default_factory=dict)
    requests: dict[Event, str] = field(default_factory=dict)
    turns: dict[Any, Event] = field(default_factory=dict)
    counts: dict[tuple[Place, int], int] = field(default_factory=dict)

    def posted(self, event: Event, sender: Place, message: Any) -> None:
        """A message was sent."""
        self.posts[event], self.senders[event] = digest_of(message), sender

    def answered(self, runner: Runner, request: Any, answer: Any) -> None:
        """A block got an answer."""
        place, step = runner.place, runner.inbox.step
        number = self.counts.get((place, step), 0)
        self.counts[place, step] = number + 1
        phase = getattr(request, "phase", "")
        what = type(request).__name__
        turn = "turn", step, place, number
        self.requests[turn] = f"{what} {phase!r}" if phase else what
        parts: list[Answer] = []
        if isinstance(request, Collect):
            digests = {edge: digest_of(answer[edge]) for edge in sorted(answer)}
            parts = [Answer("message", place, step, phase, *one) for one in digests.items()]
        elif isinstance(request, CollectSum | AllReduce):
            name = "sum" if phase else "reduction"
            parts = [Answer(name, place, step, phase, number, digest_of(answer))]
        self.answers += parts
        self.turns |= {part[:5]: turn for part in parts}

    def ended(self, runner: Runner, this: Round) -> None:
        """A block ended a round."""
        if this.step != SETUP:
            words = hashed(runner.block.state())
            self.states[this.step + this.steps - 1, runner.place] = words.tobytes()


def digest_of(value: Any) -> bytes:
    """A digest of an array's or number's type, shape and bits."""
    array = np.ascontiguousarray(value)
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.blake2b(head + array.tobytes(), digest_size=8).digest()
