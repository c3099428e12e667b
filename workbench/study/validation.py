"""Which runs count, and which must have come to the same answer."""

from __future__ import annotations

import statistics
from typing import Any

from workbench.run.record import fixed_parameters
from workbench.study.campaign import Campaign
from workbench.study.plan import CASE, case_of
from workbench.study.statistics import mean_interval

TICKS = 100  # a round must last as many steps of the clock, on average


def label(head: dict[str, Any], number: int) -> str:
    """A point of the matrix in a few words, its problem where the points have different ones."""
    problem = own_problem(head, number)
    return f"{case_of(head['points'][number])}{problem and f', {problem}'}"


def own_problem(head: dict[str, Any], number: int) -> str:
    """What of a point's problem is not the same for all points; empty where all is."""
    points = [point["problem"] for point in head["points"]]
    differing = [key for key in points[0] if any(point[key] != points[0][key] for point in points)]
    return ", ".join(f"{key} {plain(points[number][key])}" for key in differing)


def plain(value: Any) -> str:
    """A parameter as the command line writes it."""
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def mean_step_s(record: dict[str, Any]) -> float:
    """Wall over steps: from the common start to the last PE's end, and no slow step is hidden."""
    return record["wall_s"] / record["steps"]


def judge(campaign: Campaign, point: dict[str, Any], result: dict[str, Any] | int) -> str | None:
    """Why the run of a point does not count; None where it does.

    ``result`` is its record, or the exit status of a run that failed.
    """
    if isinstance(result, int):
        return f"failed with status {result}"
    if not result["valid"]:
        wrong = [check["name"] for check in result["checks"] if not check["ok"]]
        return f"not valid: {', '.join(wrong)}"
    for name in CASE:
        if result[name] != point[name]:
            return f"{name} was {result[name]}, asked was {point[name]}"
    tick = max((start["clock_tick_s"] for start in campaign.of("start")), default=0.0)
    usual = statistics.fmean(result["rounds"]["wall_s"])
    if usual < TICKS * tick:
        return f"a round of {usual:.2g} s is too short for a clock that ticks {tick:.2g} s"
    for run in campaign.of("run"):
        other = run["record"]
        if other["state_hash"] != result["state_hash"] and same_answer(other, result):
            return f"ended in another state than run {run['point']} of trial {run['trial'] + 1}"
    return None


def same_answer(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two runs must end in the same state: the same problem for the same steps."""
    return answer_key(one) == answer_key(other)


def answer_key(record: dict[str, Any]) -> tuple[Any, ...]:
    """What the state at the end of a run depends on."""
    fixed = sorted(fixed_parameters(record).items())
    return record["app"], record["warmup"] + record["steps"], repr(fixed)


def wide_points(campaign: Campaign, until: float) -> dict[int, float]:
    """Points whose mean is known less exactly than to a share of itself, and how exactly it is.

    Not those of which a run was wrong: more runs would not mend that.
    """
    times: dict[int, list[float]] = {}
    for run in campaign.of("run"):
        times.setdefault(run["point"], []).append(mean_step_s(run["record"]))
    wrong = {entry["point"] for entry in campaign.of("dropped") if entry["final"]}
    shares = {
        point: mean_interval(values).half_width_share
        for point, values in times.items()
        if point not in wrong
    }
    return {point: share for point, share in shares.items() if not share <= until}
