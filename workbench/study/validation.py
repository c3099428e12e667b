"""Decides which runs of a study count, and which runs must end in the same state."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from miniapps.parameters import shown
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.plan import case_of
from miniapps.workbench.study.revalidation import answer_key, objection_to
from miniapps.workbench.study.statistics import mean_interval

TICKS = 100  # the least mean length of a round, in ticks of the clock


def label(head: dict[str, Any], number: int) -> str:
    """A point of the matrix in a few words; with its problem if problems differ between points."""
    problem = own_problem(head, number)
    return f"{case_of(head['points'][number])}{problem and f', {problem}'}"


def own_problem(head: dict[str, Any], number: int) -> str:
    """The parameters of a point's problem that differ between points; empty if none does."""
    points = [point["problem"] for point in head["points"]]
    return differences(points[number], points)


def differences(one: dict[str, Any], problems: Sequence[dict[str, Any]]) -> str:
    """The parameters of a problem that differ between some; empty if none does."""
    first = problems[0]
    differing = [key for key in first if any(other[key] != first[key] for other in problems)]
    return ", ".join(in_words(key, one[key]) for key in differing)


def in_words(key: str, value: Any) -> str:
    """A key of a record and its value, written as on the command line but without dashes."""
    return f"{spaced(key)} {shown(tuple(value) if isinstance(value, list) else value)}"


def spaced(key: str) -> str:
    """A key of a file as words: ``time_tile`` as "time tile"."""
    return key.replace("_", " ")


def mean_step_s(record: dict[str, Any]) -> float:
    """Wall time per step, s: from the common start to the end of the last PE, over all steps."""
    return record["wall_s"] / record["steps"]


def rejection_reason(campaign: Campaign, point: int, record: dict[str, Any]) -> str | None:
    """Why the record of a point's run does not count; None if it does."""
    reason = objection_to(campaign.head, point, record)
    if reason is not None:
        return reason
    tick = max((start["clock_tick_s"] for start in campaign.of("start")), default=0.0)
    usual = statistics.fmean(record["rounds"]["wall_s"])
    if usual < TICKS * tick:
        return f"a round of {usual:.2g} s is too short for a clock that ticks {tick:.2g} s"
    for run in campaign.of("run"):
        other = run["record"]
        if other["state_hash"] != record["state_hash"] and answer_key(other) == answer_key(record):
            return f"ended in another state than run {run['point']} of trial {run['trial'] + 1}"
    return None


def wide_points(campaign: Campaign, until: float) -> dict[int, float]:
    """Points whose mean has an interval of relative half width above ``until``, with that width.

    Points with a wrong run are left out: more runs would not help.
    """
    wrong = campaign.wrong
    shares = {
        point: mean_interval([mean_step_s(record) for record in records]).relative_half_width
        for point, records in campaign.records.items()
        if point not in wrong
    }
    return {point: share for point, share in shares.items() if not share <= until}
