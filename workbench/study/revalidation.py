"""Validates a campaign again when its file is read, because the file may have been changed.

A run counts only if its record is whole, valid and free of contradictions, if it is the run that
the matrix asked for, and if it agrees with the other runs of the same problem. Any other run
becomes a dropped one, with the reason, so no table or figure has its numbers.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from miniapps.workbench.run.record import fixed_parameters
from miniapps.workbench.run.revalidation import CASE, EXACT, HOST, near, objection
from miniapps.workbench.run.shapes import (
    AMOUNT,
    COUNT,
    FLAG,
    LINE,
    NAME,
    NUMBER,
    OBJECT,
    PARAMETERS,
    POSITIVE,
    SEVERAL,
    TEXT,
    VERSIONS,
    misfit,
    unprintable,
)
from miniapps.workbench.study.plan import steps_of

Event = dict[str, Any]

HEAD: Mapping[str, Any] = {
    "study": {
        "kind": NAME,
        "app": NAME,
        "problem": PARAMETERS,
        "steps": SEVERAL,
        "warmup": COUNT,
        "device": NAME,
        "shuffle_seed": NUMBER,
        "lb_first?": COUNT.or_null(),
        "hosts?": LINE,
        "vary?": [LINE],
    },
    "points": [{**CASE, "problem": PARAMETERS, "steps?": SEVERAL, "arguments": [LINE]}],
}
RUN: Mapping[str, Any] = {"trial": COUNT, "point": COUNT, "command": LINE, "seconds?": AMOUNT}
EVENTS: Mapping[str, Any] = {
    "start": {
        "versions": VERSIONS,
        "host": HOST,
        "clock_tick_s": AMOUNT,
        "pinned": FLAG,
        "until_ci?": NUMBER.or_null(),
        "left_out?": [{"claim": TEXT, "variants": TEXT, "reason": TEXT}],
    },
    "noise": {"seconds": POSITIVE},
    "run": {**RUN, "record": OBJECT},
    "dropped": {**RUN, "reason": TEXT, "final": FLAG},
}

FREE = ("record", "reason", "left_out")  # of an event: has a shape of its own, or is free text


def misfit_of_head(head: dict[str, Any]) -> str | None:
    """Why the first line of a file is no head, in a few words; None if it is one."""
    words = misfit(head, HEAD, "head") or unprintable(head, "head")
    if words is not None:
        return words
    keys = {tuple(sorted(point["problem"])) for point in head["points"]}
    return "the problems of its points have different keys" if len(keys) > 1 else None


def misfit_of_event(head: dict[str, Any], event: Event) -> str | None:
    """Why a line is no event, in a few words; None if it is one. Other kinds of event may be."""
    kind = event.get("event")
    if not isinstance(kind, str) or not NAME.fits(kind):
        return "has no event"
    words = misfit(event, EVENTS.get(kind, {}), kind)
    words = words or unprintable({key: event[key] for key in event if key not in FREE}, kind)
    if words is None and kind in ("run", "dropped") and event["point"] >= len(head["points"]):
        return f"{kind}.point is {event['point']}, of {len(head['points'])} points"
    return words


def revalidated(head: dict[str, Any], events: list[Event]) -> list[Event]:
    """The events, in which each run that must not count is a dropped one."""
    reasons = {
        number: objection_to(head, event["point"], event["record"])
        for number, event in enumerate(events)
        if event["event"] == "run"
    }
    runs = {number: events[number] for number, reason in reasons.items() if reason is None}
    for number, reason in _disagreements(runs):
        reasons[number] = reasons[number] or reason
    return [
        dropped(event, reasons[number]) if reasons.get(number) else event
        for number, event in enumerate(events)
    ]


def once(events: list[Event]) -> list[Event]:
    """The events, in which each run that repeats an earlier one's trial and point is dropped."""
    runs = [event for event in reversed(events) if event["event"] == "run"]
    first = {(run["trial"], run["point"]): run for run in runs}
    repeated = {id(run) for run in runs} - {id(run) for run in first.values()}
    reason = "there is another run of this trial and point before"
    return [dropped(event, reason) if id(event) in repeated else event for event in events]


def dropped(run: Event, reason: str | None) -> Event:
    """A run as a dropped one; it may be repeated, as nothing says that it would fail again."""
    kept = {key: value for key, value in run.items() if key != "record"}
    return kept | {"event": "dropped", "reason": reason, "final": False}


def asked_of(head: dict[str, Any], number: int) -> dict[str, Any]:
    """What the matrix asks of the runs of a point, by keys of a record, without the steps."""
    study, point = head["study"], head["points"][number]
    asked = {name: study[name] for name in ("app", "device", "warmup")}
    return asked | {name: point[name] for name in (*CASE, "problem")}


def objection_to(head: dict[str, Any], number: int, record: Any) -> str | None:
    """Why the record of a point does not count, whatever others are; None if it does."""
    reason = objection(record)
    if reason is not None:
        return reason
    for name, value in asked_of(head, number).items():
        if record[name] != value:
            return f"{name} was {record[name]}, asked was {value}"
    steps = steps_of(head, head["points"][number])
    if record["steps"] > steps:
        return f"steps were {record['steps']}, asked were {steps}"
    return None


def _disagreements(runs: Mapping[int, Event]) -> Iterator[tuple[int, str]]:
    """The runs that differ from most others of the same problem, and in what."""
    answers: dict[Any, list[int]] = {}
    for number, run in runs.items():
        answers.setdefault(answer_key(run["record"]), []).append(number)
    for numbers in answers.values():
        states = [runs[n]["record"]["state_hash"] for n in numbers]
        usual = statistics.mode(states)
        if 2 * states.count(usual) > len(states):  # else the report says that states differ
            others = (n for n, state in zip(numbers, states, strict=True) if state != usual)
            yield from (
                (n, "ended in another state than most runs of this problem") for n in others
            )
        work = [work_of(runs[n]["record"]) for n in numbers]
        middle = statistics.median_low(work)
        for n, one in zip(numbers, work, strict=True):
            if not near(one, middle, EXACT):
                yield n, f"rate x wall_s is {one:.6g}, that of most runs {middle:.6g}"


def work_of(record: dict[str, Any]) -> float:
    """The work of all timed steps, in the unit of the app."""
    return float(record["rate"]["value"] * record["wall_s"])


def answer_key(record: dict[str, Any]) -> tuple[Any, ...]:
    """Everything that the final state of a run depends on: app, steps, problem."""
    fixed = sorted(fixed_parameters(record).items())
    return record["app"], record["warmup"] + record["steps"], repr(fixed)
