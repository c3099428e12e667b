"""Orders of events: which of the possible events happens next, and which blocks migrate."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import takewhile
from random import Random
from types import MappingProxyType
from typing import Any

from miniapps.contract import Edge, Place
from miniapps.drivers.schedule import Event, Schedule

MOVES = 0.25  # share of rounds before which a block migrates
CHANGES = 0.02  # share of events after which a priority changes


class Order:
    """The usual order: events happen in the order in which they become possible."""

    def table(self) -> dict[Event, Any]:
        """An empty table of events; its first entry is found at once, however many there are.

        In a plain dict the search passes all entries that were removed before it.
        """
        return OrderedDict()

    def connect(self, edges: list[tuple[Place, Edge]]) -> None:
        """Get to know the run: the edges of all blocks, by receiver."""

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Choose one of the possible events, of which there is at least one."""
        return next(iter(events))

    def move(self, step: int, place: Place, pes: int) -> int | None:
        """The virtual PE to which a block migrates before its round at ``step``; None: nowhere."""
        return None


class RandomOrder(Order):
    """Any possible event may be next."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def table(self) -> dict[Event, Any]:
        """A table that is listed fast, as `pick` does."""
        return {}

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Draw an event."""
        return self.draw(list(events))

    def draw(self, events: list[Event]) -> Event:
        """Draw one of some events."""
        return events[int(self.random.random() * len(events))]

    def move(self, step: int, place: Place, pes: int) -> int | None:
        """Draw whether the block migrates, and where to."""
        if self.random.random() >= MOVES:
            return None
        return int(self.random.random() * pes)


class Newest(RandomOrder):
    """The event that became possible last, with some exceptions."""

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Choose the newest event, one time in ten another one."""
        return next(reversed(list(events))) if self.random.random() < 0.9 else super().pick(events)


class Delaying(RandomOrder):
    """A random order, in which some events happen only when nothing else can."""

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Draw an event that is not delayed."""
        chosen = super().pick(events)
        if self.delayed(chosen):
            return self.draw([e for e in events if not self.delayed(e)] or list(events))
        return chosen

    def delayed(self, event: Event) -> bool:
        """Whether an event has to wait."""
        raise NotImplementedError


class Starved(Delaying):
    """The messages on one edge are delayed."""

    edge: tuple[Place, Edge] | None = None

    def connect(self, edges: list[tuple[Place, Edge]]) -> None:
        """Draw the edge."""
        self.edge = self.draw(edges) if edges else None

    def delayed(self, event: Event) -> bool:
        """Whether the event is a message on that edge."""
        return event[0] in ("message", "sum") and event[3:5] == self.edge


class Slow(Delaying):
    """One block is delayed."""

    place: Place | None = None

    def connect(self, edges: list[tuple[Place, Edge]]) -> None:
        """Draw the block."""
        self.place = self.draw(edges)[0] if edges else None

    def delayed(self, event: Event) -> bool:
        """Whether the event resumes that block."""
        return event[0] in ("begin", "turn") and event[2] == self.place


class Priorities(RandomOrder):
    """Blocks and edges have random priorities, and now and then the highest becomes the lowest.

    After the PCT scheduler (Burckhardt and others, ASPLOS 2010): it finds a bug that depends on the
    order of few events with a probability that does not fall exponentially with the run's length.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.priorities: dict[Any, float] = {}

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Choose the event with the highest priority."""
        chosen = max(events, key=self.priority)
        if self.random.random() < CHANGES:
            self.priorities[_owner(chosen)] = min(self.priorities.values()) - 1
        return chosen

    def priority(self, event: Event) -> float:
        """The priority of the event's block or edge."""
        owner = _owner(event)
        found = self.priorities.get(owner)
        if found is None:
            found = self.priorities[owner] = self.random.random()
        return found


def _owner(event: Event) -> Any:
    """The block or edge whose event it is; reductions have one owner."""
    if event[0] in ("message", "sum"):
        return event[3:5]
    return event[2] if event[0] in ("begin", "turn") else event[0]


class Scheduled(Order):
    """The usual order with the exceptions of a schedule.

    An event that is held back for one that never happens, happens when nothing else can.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.holds = schedule, dict(schedule.holds)
        self.causes = set(self.holds.values())
        self.happened: set[Event] = set()

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Choose the first event that is not held back."""
        holds, happened = self.holds, self.happened
        for event in events:
            cause = holds.get(event)
            if cause is None or cause in happened:
                break
        else:
            event = next(iter(events))
        if event in self.causes:
            happened.add(event)
        return event

    def move(self, step: int, place: Place, pes: int) -> int | None:
        """The migration in the schedule, if any."""
        pe = self.schedule.moves.get((step, place))
        return None if pe is None else pe % pes


class Recorder(Order):
    """Follows another order and records it."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.events: list[Event] = []
        self.passed: set[Event] = set()  # events that were possible when a later one was chosen
        self.moves: dict[tuple[int, Place], int] = {}

    def connect(self, edges: list[tuple[Place, Edge]]) -> None:
        """Pass on the edges."""
        self.order.connect(edges)

    def pick(self, events: Mapping[Event, Any]) -> Event:
        """Record the choice of the other order."""
        chosen = self.order.pick(events)
        self.passed.update(takewhile(lambda event: event != chosen, events))
        self.events.append(chosen)
        return chosen

    def move(self, step: int, place: Place, pes: int) -> int | None:
        """Record the migration that the other order chooses."""
        pe = self.order.move(step, place, pes)
        if pe is not None:
            self.moves[step, place] = pe
        return pe

    def schedule(self) -> Schedule:
        """A schedule that repeats what was recorded.

        In it, each event that was passed is held back for the one after which it happened.
        """
        holds = {
            event: self.events[number - 1]
            for number, event in enumerate(self.events)
            if event in self.passed
        }
        left = self.passed.difference(self.events)  # of a run that failed before they happened
        return Schedule(holds | dict.fromkeys(sorted(left, key=str), self.events[-1]), self.moves)


USUAL = "usual"
NAMED: Mapping[str, type[RandomOrder]] = MappingProxyType(
    {
        "random": RandomOrder,
        "newest": Newest,
        "starved": Starved,
        "slow": Slow,
        "pct": Priorities,
    }
)


def order_of(name: str, seed: int) -> Order:
    """The usual order, or one of `NAMED`, drawn from a seed."""
    return Order() if name == USUAL else NAMED[name](seed)
