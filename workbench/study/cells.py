"""Cells and columns of the tables of a campaign: numbers with their intervals, problems."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.study.validation import own_problem
from miniapps.workbench.table import NONE, Column

FEW = 5  # trials; with fewer, an interval is hardly wider than their range
NO_RUN = "no run that counts"


def number(value: float, digits: int = 4) -> str:
    """A number with ``digits`` significant digits; very small or large ones have an exponent."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "infinite"
    if value and not 1e-5 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    decimals = digits - 1 - (math.floor(math.log10(abs(value))) if value else 0)
    return f"{value:,.{max(decimals, 0)}f}"


def with_bounds(interval: Interval, scale: float = 1.0) -> str:
    """A value with the bounds of its interval, if any, in brackets.

    It has two to four significant digits: one more than the interval allows.
    """
    if math.isnan(interval.low):
        return f"{number(interval.value * scale)} [none]"
    width = min(1.0, max(1e-4, interval.relative_half_width))
    digits = max(2, min(4, 1 + math.ceil(-math.log10(width))))
    bounds = (interval.value, interval.low, interval.high)
    value, low, high = (number(bound * scale, digits) for bound in bounds)
    return f"{value} [{low}, {high}]"


def share(value: float, decimals: int = 1) -> str:
    """A fraction in percent; no number if it is not defined."""
    return NONE if math.isnan(value) else f"{value:.{decimals}%}"


def columns_of(*titles: str) -> tuple[Column, ...]:
    """Columns by their titles; a leading # marks numbers, a leading $ code."""
    return tuple(
        Column(title.lstrip("#$"), title.startswith("#"), title.startswith("$")) for title in titles
    )


def problem_cell(campaign: Campaign, number: int) -> str:
    """The parameters of a point's problem that differ between points."""
    return own_problem(campaign.head, number) or "the same"


def distinct(values: Iterable[Any]) -> list[str]:
    """The distinct values as one-line texts, in their original order."""
    return list(dict.fromkeys(" ".join(str(value).split()) for value in values))


def few_trials(counts: Iterable[int]) -> list[str]:
    """A note if some numbers of trials are small."""
    note = f"fewer than {FEW} trials: an interval is hardly more than their range"
    return [note] if any(count < FEW for count in counts) else []


def outcome(campaign: Campaign, point: int) -> str:
    """Whether a point has runs that count, or why runs of it do not."""
    reasons = [entry["reason"] for entry in campaign.failures if entry["point"] == point]
    if reasons:
        return f"{len(reasons)} dropped: {'; '.join(distinct(reasons))}"
    made = any(run["point"] == point for run in campaign.of("run"))
    return "valid" if made else NO_RUN


def half_point(length: Interval) -> str:
    """METG(50 %), from s, as text: a value and the measured steps on both sides, or a bound."""
    low, high = (number(bound * 1e3, 2) for bound in (length.low, length.high))
    if not math.isnan(length.value):
        return f"{number(length.value * 1e3, 2)} ms [{low}, {high}]"
    if not length.low:
        return f"below {high} ms"
    if math.isinf(length.high):
        return f"above {low} ms"
    return f"not monotone: {low} to {high} ms"
