"""Runs a program in many orders of events, until one gives another result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any

from drivers.orders import NAMED, Order, Recorder, order_of
from drivers.schedule import Event, Schedule
from miniapps.contract import Place
from workbench.adversary.trial import Result, Subject


class Noted(Order):
    """Follows another order and notes the events."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.events: list[Event] = []
        self.connect, self.move = order.connect, order.move  # type: ignore[method-assign]

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Note the event that the other order chooses."""
        event = self.order.pick(events)
        self.events.append(event)
        return event


@dataclass
class Coverage:
    """Pairs of events that happened one directly after the other at the same block."""

    pairs: set[tuple[Event, Event]] = field(default_factory=set)

    def add(self, events: Iterable[Event]) -> None:
        """Add the pairs of a run."""
        last: dict[Place, Event] = {}
        for event in events:
            what = event[0]
            if what in ("reduce", "batch"):
                continue
            place = event[2] if what in ("begin", "turn") else event[3]
            before = last.get(place)
            if before is not None:
                self.pairs.add((before, event))
            last[place] = event

    @property
    def both(self) -> int:
        """The number of pairs that happened in both orders."""
        return sum((b, a) in self.pairs for a, b in self.pairs) // 2


@dataclass
class Found:
    """The end of a search: how many schedules were tried, and the failure, if one was found."""

    tried: int
    seconds: float
    coverage: Coverage
    right: Result
    wrong: Result | None = None
    seed: int = 0
    order: str = ""
    schedule: Schedule = field(default_factory=Schedule)


def search(
    subject: Subject,
    schedules: int,
    seconds: float,
    first_seed: int = 0,
    progress: Callable[[int], None] = lambda tried: None,
) -> Found:
    """Run in the usual order, then in orders drawn from seeds, which take turns.

    Ends after ``schedules`` runs or ``seconds``, or with the first result that differs.
    """
    began = monotonic()
    right = subject.run(Order())
    found = Found(0, 0.0, Coverage(), right)
    names = list(NAMED)
    for seed in count(first_seed):
        found.seconds = monotonic() - began
        if found.tried >= schedules or found.seconds >= seconds or right.error:
            return found
        name = names[seed % len(names)]
        noted = Noted(order_of(name, seed))
        result = subject.run(noted)
        found.tried += 1
        found.coverage.add(noted.events)
        progress(found.tried)
        if result != right:
            recorder = Recorder(order_of(name, seed))
            found.wrong = subject.run(recorder)
            found.seed, found.order, found.schedule = seed, name, recorder.schedule()
            found.seconds = monotonic() - began
            return found
    raise AssertionError("seeds have no end")
