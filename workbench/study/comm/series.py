"""The results of a campaign of communication benchmarks: lines, ratios, and published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from miniapps.communication.catalogue import ANATOMY, CATALOGUE
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.comm.campaign import values_of
from miniapps.workbench.study.statistics import Interval, mean_interval, ratio_interval


@dataclass(frozen=True)
class Line:
    """A variant of a claim: the trials of each size, and what was published.

    ``trials``: by size, one value per launch, in us or MB/s; ``published``: by size.
    """

    name: str
    unit: str
    records: tuple[dict[str, Any], ...]
    trials: Mapping[int, np.ndarray]
    published: Mapping[int, float]
    point: Mapping[str, Any]

    @property
    def oversubscribed(self) -> bool:
        """Whether there were more ranks than cores in any launch."""
        return any(record["oversubscribed"] for record in self.records)

    @cached_property
    def values(self) -> dict[int, Interval]:
        """The means over trials, by size."""
        return {size: mean_interval(found) for size, found in self.trials.items()}

    def ratios(self, base: Line) -> dict[int, Interval]:
        """The ratios of means to those of another line, for the sizes that both have."""
        return {
            size: ratio_interval(found, base.trials[size])
            for size, found in self.trials.items()
            if size in base.trials
        }

    def published_ratios(self, base: Line) -> dict[int, float]:
        """The same of published values."""
        return {
            size: value / base.published[size]
            for size, value in self.published.items()
            if base.published.get(size)
        }


@dataclass(frozen=True)
class Result:
    """A claim with its lines that have been measured; the others are compared with the first."""

    claim: Mapping[str, Any]
    lines: tuple[Line, ...]

    @property
    def name(self) -> str:
        """The name of the claim."""
        return str(self.claim["name"])

    @property
    def sizes(self) -> list[int]:
        """All sizes of its lines."""
        return sorted({size for line in self.lines for size in line.trials})

    @property
    def oversubscribed(self) -> bool:
        """Whether there were more ranks than cores."""
        return any(line.oversubscribed for line in self.lines)

    def line(self, name: str) -> Line | None:
        """The line with a name, if it has been measured."""
        return next((line for line in self.lines if line.name == name), None)


def results(campaign: Campaign) -> list[Result]:
    """All claims, with the lines that have runs that count."""
    head, records, wrong, found = campaign.head, campaign.records, campaign.wrong, []
    for claim in head["study"]["claims"]:
        known = (line for line in claim["lines"] if line["point"] not in wrong)
        lines = (_line(head, claim, line, records.get(line["point"], [])) for line in known)
        found.append(Result(claim, tuple(filter(None, lines))))
    return found


def _line(
    head: Mapping[str, Any],
    claim: Mapping[str, Any],
    line: Mapping[str, Any],
    records: Sequence[dict[str, Any]],
) -> Line | None:
    """A line of a claim; None without values."""
    point = head["points"][line["point"]]
    trials = {}
    for size in point["sizes"]:
        each = [list(values_of(record, size, line["call"])) for record in records]
        means = [float(np.mean(values)) for values in each if values]
        if means:
            trials[size] = np.array(means)
    published = claim["series"].get(line["name"], {})
    shown = {int(size): float(value) for size, value in published.items()}
    if not trials:
        return None
    unit = CATALOGUE.get(point["benchmark"], ANATOMY).unit
    return Line(line["name"], unit, tuple(records), trials, shown, point)
