"""Makes a failing schedule small: delta debugging (Zeller, Hildebrandt, IEEE TSE 28(2), 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from miniapps.drivers.orders import Recorder, Scheduled
from miniapps.drivers.schedule import Event, Schedule
from miniapps.workbench.adversary.trial import Result, Subject

Part = tuple[str, Any, Any]  # "hold", event and cause; or "move", step and block, and PE


def parts_of(schedule: Schedule) -> list[Part]:
    """The exceptions that a schedule consists of."""
    holds = [("hold", event, cause) for event, cause in schedule.holds.items()]
    return [*holds, *(("move", where, pe) for where, pe in schedule.moves.items())]


def schedule_of(parts: Sequence[Part]) -> Schedule:
    """The schedule that consists of some exceptions."""
    holds = {event: cause for what, event, cause in parts if what == "hold"}
    return Schedule(holds, {where: pe for what, where, pe in parts if what == "move"})


def shrunk(subject: Subject, schedule: Schedule, wrong: Result) -> Schedule:
    """A schedule from which nothing can be left out: without any of its parts the run is right.

    Each remaining event is then held back for the earliest event that suffices.
    """

    def fails(parts: Sequence[Part]) -> bool:
        result = subject.run(Scheduled(schedule_of(parts)))
        return result.like(wrong) and (bool(result.error) or result != right)

    right = subject.run(Scheduled(Schedule()))
    parts = least(parts_of(schedule), fails)
    for number in range(len(parts)):
        parts = _earlier(subject, parts, number, fails)
    return schedule_of(least(parts, fails))


def least(parts: list[Part], fails: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """The algorithm ddmin: some of the parts, which fail, and do not fail without any of them."""
    pieces = 2
    while len(parts) >= 2:
        size = -(-len(parts) // pieces)
        chunks = [parts[low : low + size] for low in range(0, len(parts), size)]
        for number, chunk in enumerate(chunks):
            rest = [part for other in chunks[:number] + chunks[number + 1 :] for part in other]
            if pieces > 2 and fails(rest):
                parts, pieces = rest, max(pieces - 1, 2)
                break
            if fails(chunk):
                parts, pieces = chunk, 2
                break
        else:
            if pieces >= len(parts):
                break
            pieces = min(2 * pieces, len(parts))
    return [] if len(parts) == 1 and fails([]) else parts


def _earlier(
    subject: Subject, parts: list[Part], number: int, fails: Callable[[Sequence[Part]], bool]
) -> list[Part]:
    """The parts, with one event held back no longer than it must be, found by bisection."""
    what, event, cause = parts[number]
    if what != "hold":
        return parts

    def held_for(other: Event) -> list[Part]:
        return [*parts[:number], (what, event, other), *parts[number + 1 :]]

    recorder = Recorder(Scheduled(schedule_of(parts)))
    subject.run(recorder)
    events = recorder.events
    if cause not in events:
        return parts
    low, high = 0, events.index(cause)
    while low < high:
        middle = (low + high) // 2
        if fails(held_for(events[middle])):
            high = middle
        else:
            low = middle + 1
    better = held_for(events[high])
    return better if fails(better) else parts
