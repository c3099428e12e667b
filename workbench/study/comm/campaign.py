"""The campaign file of communication benchmarks: its shape, and which of its runs count.

The lines are those of `workbench.study.campaign`, but for the head and the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from miniapps import communication
from miniapps.communication.catalogue import ANATOMY, CATALOGUE
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.run import launch
from miniapps.workbench.run.revalidation import HOST
from miniapps.workbench.run.shapes import (
    AMOUNT,
    COUNT,
    FLAG,
    LINE,
    NAME,
    NUMBER,
    OBJECT,
    POSITIVE,
    SEVERAL,
    VERSIONS,
    Kind,
    fits,
    misfit,
    unprintable,
)
from miniapps.workbench.study.campaign import VERSION, Campaign
from miniapps.workbench.study.comm.claims import CLAIM_NAME, calls_of
from miniapps.workbench.study.comm.libraries import Library
from miniapps.workbench.study.comm.plan import Plan, label
from miniapps.workbench.study.revalidation import dropped
from miniapps.workbench.study.runner import Subject

Event = dict[str, Any]


def _is_series(value: Any) -> bool:
    """Whether a value has an object for each line, with numbers by size."""
    if not isinstance(value, dict) or not all(isinstance(line, dict) for line in value.values()):
        return False
    pairs = [pair for line in value.values() for pair in line.items()]
    return all(size.isdecimal() and POSITIVE.fits(number) for size, number in pairs)


SETTINGS: Mapping[str, Any] = {
    "benchmark": NAME,
    "driver": NAME,
    "pes": SEVERAL,
    "buffer": NAME,
    "pickle": NAME.or_null(),
    "touch": NAME,
    "window": SEVERAL,
    "thread_level": NAME.or_null(),
    "method": NAME.or_null(),
    "sizes": [COUNT],
}
HEAD: Mapping[str, Any] = {
    "study": {
        "kind": NAME,
        "source": LINE,
        "shuffle_seed": NUMBER,
        "claims": [
            {
                "name": Kind("of a-z, 0-9 and -", lambda name: fits(CLAIM_NAME, name)),
                "title": LINE,
                "says": LINE,
                "benchmark": NAME,
                "ranks": SEVERAL,
                "lines": [{"name": LINE, "point": COUNT, "call": LINE.or_null()}],
                "published": LINE.or_null(),
                "series": Kind("published values by line and size", _is_series),
            }
        ],
    },
    "points": [{**SETTINGS, "library": NAME.or_null(), "arguments": [LINE]}],
}
RECORD: Mapping[str, Any] = {
    **SETTINGS,
    "host": HOST,
    "versions": VERSIONS,
    "oversubscribed": FLAG,
    "disturbance": {"waited": AMOUNT, "steal": AMOUNT},
}
MEASURED: Mapping[str, Any] = {"measured": [{"trial": COUNT, "size": COUNT}], "barrier_us": AMOUNT}
ANATOMIES: Mapping[str, Any] = {"whole": OBJECT, "sides?": OBJECT, "without_c": LINE.or_null()}


class CommCampaign(Campaign):
    """The contents of a campaign file of communication benchmarks."""

    @staticmethod
    def misfit_of_head(head: dict[str, Any]) -> str | None:
        """Why the first line is no head of such a campaign; None if it is one."""
        words = misfit(head, HEAD, "head") or unprintable(head, "head")
        if words is not None:
            return words
        points = len(head["points"])
        lines = [line for claim in head["study"]["claims"] for line in claim["lines"]]
        beyond = [line["point"] for line in lines if line["point"] >= points]
        calls = (None, *calls_of(communication.runtimes()))
        unknown = [line["call"] for line in lines if line["call"] not in calls]
        if beyond:
            return f"a line is of point {beyond[0]}, of {points} points"
        return f"a line is of the call {unknown[0]}" if unknown else None

    @staticmethod
    def revalidated(head: dict[str, Any], events: list[Event]) -> list[Event]:
        """The events, in which each run that must not count is a dropped one."""
        kept: list[Event] = []
        for event in events:
            if event["event"] == "run":
                reason = objection(head["points"][event["point"]], event["record"])
                reason = reason or _unchecked(kept, event)
                event = dropped(event, reason) if reason else event
            kept.append(event)
        return kept


def objection(point: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    """Why the record of a point does not count, whatever other runs are; None if it does."""
    words = misfit(record, {**RECORD, "valid": FLAG.or_null()}, "record")
    words = words or unprintable(record, "record")
    if words is None and record["valid"] is False:
        return f"wrong data: {record.get('wrong')}"
    anatomy = point["benchmark"] == ANATOMY.name
    words = words or misfit(record, ANATOMIES if anatomy else MEASURED, "record")
    if words is not None:
        return f"is no whole record: {words}"
    for name in SETTINGS:
        if record[name] != point[name]:
            return f"{name} was {record[name]}, asked was {point[name]}"
    loaded = str(record["versions"].get(record["driver"]))
    return Library(point["library"]).objection(loaded) or _misfit_of_values(point, record)


def _misfit_of_values(point: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    """Why the measured values of a record are not whole; None if they are."""
    for size in point["sizes"]:
        values = list(values_of(record, size))
        numbers = [value for value in values if isinstance(value, int | float)]
        right = [value for value in numbers if 0 < value < math.inf]
        if not values or len(right) < len(values):
            return f"has a time or rate for {size} B that is no number above 0"
    return None


def values_of(record: Mapping[str, Any], size: int, call: str | None = None) -> Iterator[Any]:
    """The values of a size in a record, of one path or all if it is an anatomy."""
    if record["benchmark"] == ANATOMY.name:
        parts = (record["whole"].get(str(size)), record.get("sides", {}).get(str(size)))
        paths = [one for part in parts if isinstance(part, dict) for one in part.items()]
        for path, values in paths:
            if call in (None, path):
                yield from values if isinstance(values, list) else [None]
        return
    for one in record["measured"]:
        if one["size"] == size:
            yield one.get("value")


def _unchecked(events: Sequence[Event], run: Event) -> str | None:
    """Whether no data of this point were ever checked, in words."""
    if run["record"]["valid"] or is_checked(events, run["point"]):
        return None
    return "no run of this launch has checked its data"


def is_checked(events: Sequence[Event], point: int) -> bool:
    """Whether a run that counts has checked the data of a point."""
    return any(
        event["event"] == "run" and event["point"] == point and event["record"]["valid"]
        for event in events
    )


@dataclass(frozen=True)
class CommRuns(Subject):
    """A campaign of communication benchmarks.

    No points are wide: each size has an interval of its own, and no option asks for narrow ones.
    """

    reader = CommCampaign
    label = staticmethod(label)
    plan: Plan
    pin: bool = True  # ranks to cores

    def header(self) -> dict[str, Any]:
        """The first line of the campaign file."""
        points = [one.point() for one in self.plan.launches]
        return {"campaign": VERSION, "study": self.plan.head(), "points": points}

    def noted(self) -> dict[str, Any]:
        """What cannot be measured here, and why."""
        return {"left_out": self.plan.left_out}

    def launched(self, campaign: Campaign, trial: int, point: int) -> tuple[CommSpec, list[str]]:
        """A launch, whose sizes come in an order of its own; data are checked until they were."""
        spec, library = self.plan.launches[point].spec, self.plan.launches[point].library
        seed = Random(f"{self.plan.wanted.seed} {trial} {point}").randrange(1 << 31)
        checked = spec.benchmark != ANATOMY and is_checked(campaign.events, point)
        settings = replace(spec.settings, seed=seed, no_check=checked)
        spec = replace(spec, settings=settings)
        pinned = launch.pinning(spec, library.launcher) if self.pin else []
        words = launch.command(spec, [*pinned, *library.runtime], library.launcher)
        return spec, library.command(words)

    def shown(self, record: dict[str, Any]) -> str:
        """The first and the last value."""
        sizes, unit = record["sizes"], CATALOGUE.get(record["benchmark"], ANATOMY).unit
        first, last = (next(values_of(record, size)) for size in (sizes[0], sizes[-1]))
        ends = f"{first:.4g} {unit} for {sizes[0]} B"
        return ends if len(sizes) == 1 else f"{ends}, {last:.4g} for {sizes[-1]} B"

    def rejection(self, campaign: Campaign, point: int, record: dict[str, Any]) -> str | None:
        """Why a run does not count; None if it does."""
        return objection(campaign.head["points"][point], record)
