"""What the trials of a benchmark give together: means with intervals, for each size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from miniapps.workbench.study.statistics import Interval, mean_interval

MEANS = (  # of trials, where they have them
    "least",
    "most",
    "touch_us",
    "unchanged",
    "messages_per_s",
    "compute_us",
    "pure_us",
    "overlap_percent",
    "begin_us",
    "wait_us",
)


def rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """For each size the mean over trials, its 99 % interval (None if it has none), and the rest."""
    made = []
    for size, iterations in zip(record["sizes"], record["iterations"], strict=True):
        trials = [one for one in record["measured"] if one["size"] == size]
        found = _interval([one["value"] for one in trials])
        row = {"size": size, "iterations": iterations, "value": _finite(found.value)}
        row |= {"low": _finite(found.low), "high": _finite(found.high)}
        mine = [name for name in MEANS if name in trials[0]]
        row |= {name: float(np.mean([one[name] for one in trials])) for name in mine}
        if "percentiles" in trials[0]:
            each = [one["percentiles"] for one in trials]
            row["percentiles"] = [float(value) for value in np.mean(each, axis=0)]
        made.append(row)
    return made


def _interval(values: list[float]) -> Interval:
    """The mean with its interval; NaN if a trial has no value."""
    if not all(map(math.isfinite, values)):
        return Interval(math.nan, math.nan, math.nan)
    return mean_interval(values)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
