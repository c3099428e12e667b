"""One figure for what was published and what was measured of it.

Left are the values over PEs or bytes. Published ones have dotted lines and open markers, and an
axis of their own where they are of another problem, or more than `APART` times as large or small;
the axis says so. Right are the claims that are ratios, and those that are differences, these over
the published one: what was measured, and the range of values that agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from miniapps.workbench.reproduce.papers import DIFFERENCE, Figure
from miniapps.workbench.reproduce.predicates import NEUTRAL, Outcome
from miniapps.workbench.reproduce.results import Found, Lines
from miniapps.workbench.show.captions import fitted, wrapped
from miniapps.workbench.show.marks import styled
from miniapps.workbench.study.comm.series import Line
from miniapps.workbench.study.drawing import (
    bounds_of,
    decimal_log_axis,
    draw_line,
    error_bars,
    fitted_legend,
    new_figure,
    styles_of,
)
from miniapps.workbench.study.figures import LETTERS, STYLE
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.study.titles import machine_of, title_of
from miniapps.workbench.study.validation import spaced

APART = 3.0  # ratio of means on logarithmic scales from which on two axes are drawn
DOTTED: dict[str, Any] = {"linestyle": ":", "markerfacecolor": "white", "linewidth": 1.2}
RATIOS = "ratio: measured (dot), published (diamond)"
OVER = "over the published: measured (dot), published (diamond)"
TICKS = 8  # labels of an axis of bytes or PEs


@styled(**STYLE)
def figure_of(found: Found) -> Any:
    """The figure of what has been measured; None if there is nothing to draw."""
    lines = drawn_lines(found)
    claims = {RATIOS: drawn_ratios(found), OVER: drawn_differences(found)}
    claims = {title: outcomes for title, outcomes in claims.items() if outcomes}
    count = len(claims) + bool(lines)
    if found.campaign is None or not count:
        return None
    height = max(4.2, 1.6 + 0.5 * max(map(len, claims.values()), default=0))
    figure, axes = new_figure(4.9 * count, height, 1, count)
    if lines:
        draw_values(axes[0][0], lines, bool(found.departures))
        legends = [part.get_legend_handles_labels() for part in figure.axes]
        handles = [one for mine, _ in legends for one in mine]
        fitted_legend(figure, handles, [one for _, mine in legends for one in mine])
    for place, (title, outcomes) in zip(axes[0][-len(claims) :], claims.items(), strict=False):
        draw_claims(place, outcomes, title)
    said = [f"{found.figure.source}, {found.figure.shows}: {found.figure.title}"]
    said += [title_of(found.campaign)] if found.departures else []
    said.append(f"measured on {machine_of(found.campaign)}")
    figure.suptitle(fitted(said, int(LETTERS * figure.get_figwidth())), fontsize=8)
    return figure


def drawn_lines(found: Found) -> Lines:
    """The lines of the figure's first part; those that are only published have no trials."""
    measured = found.lines.get(None, {})
    part = next(iter(of_parts(found.figure, measured)), None)
    lines = dict(measured.get(part, {}))
    lines = {name: line for name, line in lines.items() if not line.oversubscribed}
    for name, published in found.figure.lines.items():
        if name not in lines and lines:
            lines[name] = Line(name, "ms", (), {}, published, {})
    for model in found.figure.models:
        wrong = found.lines.get(model, {}).get(part, {})
        said = spaced(model)
        lines |= {f"{name}, {said}": replace(line, published={}) for name, line in wrong.items()}
    return lines


def of_parts(figure: Figure, measured: Mapping[str | None, Lines]) -> list[str | None]:
    """The parts of a figure that have lines; some have one for each number of ranks."""
    if not figure.parts:
        return [None]
    pattern = [re.compile(rf"{re.escape(part)}(-\d+)?") for part in figure.parts]
    named = [name for one in pattern for name in measured if name and one.fullmatch(name)]
    return [name for name in named if measured[name]]


def draw_values(axes: Any, lines: Lines, smaller: bool) -> None:
    """Draw the measured and the published values of lines; ``smaller``: of another problem."""
    looks = styles_of(list(lines))
    measured = [
        end for line in lines.values() if line.trials for end in bounds_of([*line.values.values()])
    ]
    published = [value for line in lines.values() for value in line.published.values()]
    unit = next(iter(lines.values())).unit
    what = "time per step [ms]" if unit == "ms" else f"value [{unit}]"
    apart = bool(published) and (smaller or are_apart(measured, published))
    other = axes.twinx() if apart else axes
    for name, line in lines.items():
        if line.trials:
            draw_line(axes, list(line.values), list(line.values.values()), looks[name], label=name)
        if line.published:
            label = f"{name}, published"
            values = list(line.published.values())
            other.plot(list(line.published), values, **(looks[name] | DOTTED), label=label)
    _scale(axes, [*measured, *(() if apart else published)], what)
    if apart:
        _scale(other, published, f"PUBLISHED {what}: another scale")
        other.grid(visible=False)
        other.spines["right"].set_visible(True)
    _positions(axes, lines, unit)


def are_apart(measured: Sequence[float], published: Sequence[float]) -> bool:
    """Whether published values are so much larger or smaller that they need their own axis."""
    means = [float(np.mean(np.log(values))) for values in (measured, published)]
    return abs(means[0] - means[1]) > math.log(APART)


def _scale(axes: Any, values: Sequence[float], title: str) -> None:
    """A logarithmic y axis for some values."""
    axes.set_yscale("log")
    decimal_log_axis(axes.yaxis, min(values), max(values), axes.set_ylim)
    axes.set_ylabel(title)


def _positions(axes: Any, lines: Lines, unit: str) -> None:
    """A logarithmic x axis of PEs or bytes, on which some have labels."""
    every = sorted({x for line in lines.values() for x in (*line.trials, *line.published)})
    shown = every[:: max(1, -(-len(every) // TICKS))]
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [str(x) for x in shown], fontsize=8)
    axes.minorticks_off()
    axes.set_xlim(every[0] / 2**0.4, every[-1] * 2**0.4)
    axes.set_xlabel("PEs" if unit == "ms" else "bytes")


def drawn_ratios(found: Found) -> list[Outcome]:
    """The claims that are ratios and have one measured value."""
    return [
        one
        for one in found.outcomes
        if one.values is not None and len(one.values) == 1 and one.claim.take in NEUTRAL
    ]


def drawn_differences(found: Found) -> list[Outcome]:
    """The claims that are differences, as they are over the published ones: these are at 1."""
    return [
        replace(
            one,
            values={at: value.times(1 / one.published) for at, value in one.values.items()},
            agrees=(one.agrees[0] / one.published, one.agrees[1] / one.published),
            published=1,
        )
        for one in found.outcomes
        if one.claim.take == DIFFERENCE and one.values and len(one.values) == 1 and one.agrees
        if isinstance(one.published, int | float) and one.published > 0
    ]


def draw_claims(axes: Any, outcomes: Sequence[Outcome], title: str) -> None:
    """Draw what was measured of claims, and what agrees with the published values."""
    places = np.arange(len(outcomes))
    values = [value for one in outcomes for value in (one.values or {}).values()]
    middle, bars = error_bars(values)
    ends = _ends(outcomes, values)
    for place, one in zip(places, outcomes, strict=True):
        if one.agrees is not None:
            low, high = (min(max(end, ends[0]), ends[1]) for end in one.agrees)
            axes.barh(place, high - low, 0.7, low, color="#cfe3f5", zorder=0)
        marks = [place] * len(one.numbers)
        axes.plot(one.numbers, marks, "D", color="black", markerfacecolor="white")
    axes.errorbar(middle, places, xerr=bars, fmt="o", color="#0072b2")
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
    axes.set_xlim(*ends)
    axes.set_yticks(places, [wrapped(_name(one), 34) for one in outcomes], fontsize=7)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(title)


def _name(one: Outcome) -> str:
    """A claim in a few words, with the program of which it is told."""
    claim = one.claim
    if claim.take == DIFFERENCE:
        return f"{claim.what.partition(' [')[0]}: {claim.published:g} {one.unit}"
    compared = f"{claim.of} / {claim.to}" if claim.to else f"{claim.of}, {claim.take}"
    return f"{spaced(one.model)}: {compared}" if one.model else compared


def _ends(outcomes: Sequence[Outcome], values: Sequence[Interval]) -> tuple[float, float]:
    """The ends of an axis for all values and limits."""
    ends = [end for value in values for end in (value.value, value.low, value.high)]
    ends += [end for one in outcomes for end in (*(one.agrees or ()), *one.numbers)]
    numbers = [1.0, *filter(math.isfinite, ends)]
    room = 0.08 * (max(numbers) - min(numbers)) or 0.1
    return min(numbers) - room, max(numbers) + room
