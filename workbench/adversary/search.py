"""Runs a program in many orders of events, until one gives another result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from miniapps.contract import Place
from miniapps.drivers.orders import NAMED, Order, Recorder, order_of
from miniapps.drivers.schedule import Event, Schedule
from miniapps.workbench.adversary.processes import in_processes
from miniapps.workbench.adversary.trial import Result, Subject

SHARE = 20  # schedules of a share


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


@dataclass
class Share:
    """What became of schedules of successive seeds, of which only the last one may have failed.

    ``pairs``: of events, those that the process had not seen before.
    """

    tried: int
    pairs: set[tuple[Event, Event]]
    failed: int | None = None  # its seed


def search(
    subject: Subject,
    schedules: int,
    seconds: float,
    first_seed: int = 0,
    progress: Callable[[int], None] = lambda tried: None,
    jobs: int = 1,
) -> Found:
    """Run in the usual order, then in orders drawn from seeds, which take turns.

    Ends after ``schedules`` runs or ``seconds``, or with the first result that differs. ``jobs``
    processes share the seeds. Unless ``seconds`` end it, their number does not change the result.
    Raises ChildProcessError if a process ends early.
    """
    began = monotonic()
    right = subject.run(Order())
    found = Found(0, 0.0, Coverage(), right)
    seeds = range(first_seed, first_seed + (0 if right.error else schedules))
    shares = [seeds[low : low + SHARE] for low in range(0, len(seeds), SHARE)]
    explored = partial(explore, subject, right, end=began + seconds)
    with closing(in_processes(explored, shares, jobs)) as results:
        for share in results:
            found.tried += share.tried
            found.coverage.pairs |= share.pairs
            progress(found.tried)
            if share.failed is not None:
                record(subject, share.failed, found)
                break
    found.seconds = monotonic() - began
    return found


def explore(
    subject: Subject, right: Result, shares: Iterable[range], end: float
) -> Iterator[Share]:
    """Run in the orders of some shares of seeds; begins no run after the time ``end``."""
    seen = Coverage()
    for seeds in shares:
        before, share = set(seen.pairs), Share(0, set())
        for seed in itertools.takewhile(lambda seed: monotonic() < end, seeds):
            noted = Noted(drawn(seed))
            result = subject.run(noted)
            share.tried += 1
            seen.add(noted.events)
            if result != right:
                share.failed = seed
                break
        share.pairs = seen.pairs - before
        yield share


def record(subject: Subject, seed: int, found: Found) -> None:
    """Repeat a run that has failed, and store its schedule and result."""
    recorder = Recorder(drawn(seed))
    found.wrong = subject.run(recorder)
    found.seed, found.order, found.schedule = seed, name_of(seed), recorder.schedule()


def name_of(seed: int) -> str:
    """The name of a seed's order."""
    names = list(NAMED)
    return names[seed % len(names)]


def drawn(seed: int) -> Order:
    """The order that is drawn from a seed."""
    return order_of(name_of(seed), seed)
