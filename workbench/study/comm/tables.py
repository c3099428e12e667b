"""The tables of a campaign of communication benchmarks, for the terminal and the report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from miniapps import communication
from miniapps.workbench.plural import counted
from miniapps.workbench.quoting import csv_of
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.cells import (
    NO_RUN,
    columns_of,
    distinct,
    few_trials,
    number,
    outcome,
    with_bounds,
)
from miniapps.workbench.study.comm.plan import POINT, label
from miniapps.workbench.study.comm.series import Line, Result
from miniapps.workbench.study.comm.written import comparisons_table, effects_table, pairs
from miniapps.workbench.study.provenance import Item, environment_table, noise_line
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.table import NONE, Column, Table

OVERSUBSCRIBED = "more ranks than cores: no figure, and no time to quote"
CSV = (
    *("claim", "line", "unit", "size", "trials", "value", "low", "high"),
    *("ratio", "ratio_low", "ratio_high", "published", "published_ratio"),
)  # the columns, before those of the launch
LAUNCH = ("benchmark", "driver", "library", "pes", *(name for name in POINT if name != "window"))
# Of a line: its name, its unit, the values by size, and the published ones.
Shown = tuple[str, str, Mapping[int, Interval], Mapping[int, float]]


def tables(campaign: Campaign, found: Sequence[Result]) -> list[Table]:
    """All tables of a campaign."""
    made = [claims_table(campaign, found)]
    left_out = left_out_table(campaign, found)
    if left_out.rows:
        made.append(left_out)
    for result in found:
        if result.lines:
            made.append(values_table(result))
        if len(result.lines) > 1:
            made.append(ratios_table(result))
    both = pairs(found)
    made += [table for table in (effects_table(both), comparisons_table(both)) if table.rows]
    return [*made, points_table(campaign), environment_table(campaign, settings(campaign))]


def claims_table(campaign: Campaign, found: Sequence[Result]) -> Table:
    """Each claim, and what was measured of it in a few words."""
    rows = []
    for result in found:
        here = "; ".join(_summary(result)) or "not measured"
        rows.append((str(result.claim["title"]), str(result.claim["says"]) or NONE, here))
    trials = [len(line.records) for result in found for line in result.lines]
    notes = [noise_line(campaign), *few_trials(trials)]
    columns = columns_of("claim", "published", "here")
    return Table("Claims", columns, tuple(rows), tuple(notes))


def _summary(result: Result) -> Iterator[str]:
    """For each line but the first the span of its ratios to the first."""
    if result.oversubscribed:
        yield OVERSUBSCRIBED
        return
    base, *others = result.lines or (None,)
    if base is not None and not others:
        ends = [base.values[size] for size in (result.sizes[0], result.sizes[-1])]
        yield f"{base.name}: {span([end.value for end in ends])} {base.unit}"
    for line in others:
        assert base is not None
        ratios = [ratio.value for ratio in line.ratios(base).values()]
        text = f"{line.name}: {span(ratios)} times {base.name}"
        published = list(line.published_ratios(base).values())
        yield f"{text} (published {span(published)})" if published else text


def span(values: Sequence[float]) -> str:
    """The smallest and the largest of some values."""
    if not values:
        return NONE
    low, high = number(min(values), 3), number(max(values), 3)
    return low if low == high else f"{low} to {high}"


def left_out_table(campaign: Campaign, found: Sequence[Result]) -> Table:
    """What could not be measured here, and why."""
    starts = list(campaign.of("start"))
    entries = starts[-1].get("left_out", []) if starts else []
    rows = [(entry["claim"], entry["variants"], entry["reason"]) for entry in entries]
    for result in found:
        for line in result.claim["lines"]:
            if result.line(line["name"]) is None:
                reason = why_missing(campaign, line)
                rows.append((result.name, line["name"], reason))
    return Table("Left out", columns_of("claim", "variants", "reason"), tuple(rows))


def why_missing(campaign: Campaign, line: Mapping[str, Any]) -> str:
    """Why a line that was launched has no values."""
    alone = [runtime.library_alone for runtime in communication.runtimes().values()]
    reasons = distinct(
        record["without_c"]
        for record in campaign.records.get(line["point"], [])
        if line["call"] in alone and record.get("without_c") is not None
    )
    return f"no ping-pong in C: {'; '.join(reasons)}" if reasons else NO_RUN


def values_table(result: Result) -> Table:
    """The values of a claim, a row for each size, with the published ones."""
    shown = [(one.name, f" [{one.unit}]", one.values, one.published) for one in result.lines]
    return _by_size(result, str(result.claim["title"]), shown)


def ratios_table(result: Result) -> Table:
    """The ratios of a claim's lines to the first one, with the published ones."""
    base, *others = result.lines
    shown = [(line.name, "", line.ratios(base), line.published_ratios(base)) for line in others]
    return _by_size(result, f"{result.claim['title']}: ratios to {base.name}", shown)


def _by_size(result: Result, title: str, shown: Sequence[Shown]) -> Table:
    titles, cells = ["bytes"], [list(map(str, result.sizes))]
    for name, unit, values, published in shown:
        titles.append(f"{name}{unit}")
        cells.append([with_bounds(values[n]) if n in values else NONE for n in result.sizes])
        if published:
            titles.append(f"{name}, published")
            cells.append([number(published[n]) if n in published else NONE for n in result.sizes])
    columns = tuple(Column(each, numeric=True) for each in titles)
    return Table(title, columns, tuple(zip(*cells, strict=True)), _notes(result))


def _notes(result: Result) -> tuple[str, ...]:
    counts = sorted({len(line.records) for line in result.lines})
    least = f"{counts[0]} to " if len(counts) > 1 else ""
    trials = counted(counts[-1], "trial")
    notes = [f"means of {least}{trials}, a launch for each; every byte was checked in the first"]
    if any(line.published for line in result.lines):
        notes.append(f"published: {result.claim['published']}, on another machine")
    if result.oversubscribed:
        notes.append(OVERSUBSCRIBED)
    return tuple(notes)


def points_table(campaign: Campaign) -> Table:
    """All runs of a trial: how often they count, and why others do not."""
    made = campaign.records
    rows = tuple(
        (label(campaign.head, point), str(len(made.get(point, []))), outcome(campaign, point))
        for point in range(len(campaign.head["points"]))
    )
    return Table("Runs", columns_of("run", "#trials", "result"), rows)


def settings(campaign: Campaign) -> Iterator[Item]:
    """The settings of the runs."""
    runs = counted(len(campaign.head["points"]), "run")
    yield "runs", [f"{runs} in each trial"]
    yield "shuffle seed", [str(campaign.head["study"]["shuffle_seed"])]


# CSV ----------------------------------------------------------------------------------------------


def csv_text(found: Sequence[Result]) -> str:
    """All values as comma-separated values, a row for each claim, line and size."""
    rows = [row for result in found for line in result.lines for row in _csv_rows(result, line)]
    return csv_of(rows, [*CSV, *LAUNCH])


def _csv_rows(result: Result, line: Line) -> Iterator[dict[str, Any]]:
    base = result.lines[0]
    ratios, published = line.ratios(base), line.published_ratios(base)
    same: dict[str, Any] = {"claim": result.name, "line": line.name, "unit": line.unit}
    same |= {name: line.point[name] for name in LAUNCH}
    for size, value in line.values.items():
        row = same | {"size": size, "trials": len(line.trials[size])}
        row |= _bounds("", "value", value) | {"published": line.published.get(size)}
        if line is not base and size in ratios:
            row |= _bounds("ratio_", "ratio", ratios[size])
            row |= {"published_ratio": published.get(size)}
        yield row


def _bounds(prefix: str, name: str, found: Interval) -> dict[str, Any]:
    """A value with its bounds, if it has any."""
    row: dict[str, Any] = {name: found.value}
    if not math.isnan(found.low):
        row |= {f"{prefix}low": found.low, f"{prefix}high": found.high}
    return row
