"""A figure for each claim: values over the size of messages, and ratios to the first line.

Published values are dotted lines without markers, in the colour of the line that they belong to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from miniapps.workbench.show.captions import fitted
from miniapps.workbench.show.comm_figure import draw_over_sizes
from miniapps.workbench.show.marks import styled
from miniapps.workbench.study.comm.series import Result
from miniapps.workbench.study.drawing import fitted_legend, new_figure, styles_of
from miniapps.workbench.study.figures import LETTERS, STYLE
from miniapps.workbench.study.statistics import Interval

PUBLISHED = "published"
Drawn = tuple[str, Sequence[int], Sequence[Interval]]


def figures(found: Sequence[Result], machine: str) -> dict[str, Any]:
    """The figures of all claims with values, by the name of the claim."""
    with styled(**STYLE):
        return {
            result.name: claim_figure(result, machine)
            for result in found
            if result.lines and not result.oversubscribed
        }


def claim_figure(result: Result, machine: str) -> Any:
    """The values of a claim, and beside them the ratios if it compares several lines."""
    base, *others = result.lines
    figure, axes = new_figure(9.0 if others else 5.2, 4.6, 1, 2 if others else 1)
    looks = _looks(result)
    left = axes[0][0]
    values = [(line.name, line.values, line.published) for line in result.lines]
    draw_over_sizes(left, _drawn(values), looks)
    left.set_ylabel("bandwidth [MB/s]" if base.unit == "MB/s" else "latency [us]")
    if others:
        right = axes[0][1]
        ratios = [(line.name, line.ratios(base), line.published_ratios(base)) for line in others]
        draw_over_sizes(right, _drawn(ratios), looks, 1)
        right.set_ylabel(f"ratio to {base.name}")
    fitted_legend(figure, *left.get_legend_handles_labels())
    pes = sorted({record["pes"] for line in result.lines for record in line.records})
    ranks = f"{' and '.join(map(str, pes))} rank{'s' if pes != [1] else ''}"
    said = [f"{result.claim['title']}, {ranks}", machine]
    figure.suptitle(fitted(said, int(LETTERS * figure.get_figwidth())), fontsize=8)
    return figure


def captions(found: Sequence[Result]) -> dict[str, tuple[str, str]]:
    """Title and caption of each figure."""
    return {result.name: (str(result.claim["title"]), _caption(result)) for result in found}


def _caption(result: Result) -> str:
    """What a figure shows."""
    shifted = ", shifted a little against each other" if len(result.lines) > 1 else ""
    words = [f"Means of the trials with 99 % intervals{shifted}; both axes are logarithmic."]
    if len(result.lines) > 1:
        words.append(f"Right: ratios to {result.lines[0].name}.")
    if any(line.published for line in result.lines):
        words.append(f"Dotted: published values ({result.claim['published']}).")
    return " ".join(words)


def _looks(result: Result) -> Mapping[str, dict[str, Any]]:
    """The styles of all lines, and of their published values."""
    looks = styles_of([line.name for line in result.lines])
    plain = {"linestyle": ":", "marker": "None", "linewidth": 1.4, "elinewidth": 0, "capsize": 0}
    return looks | {_published(name): look | plain for name, look in looks.items()}


def _published(name: str) -> str:
    return f"{name}, {PUBLISHED}"


def _drawn(lines: Sequence[tuple[str, Mapping[int, Interval], Mapping[int, float]]]) -> list[Drawn]:
    """Names, values by size, and published ones, as lines to be drawn."""
    drawn: list[Drawn] = []
    for name, found, published in lines:
        drawn.append((name, list(found), list(found.values())))
        if published:
            values = [Interval(value, math.nan, math.nan) for value in published.values()]
            drawn.append((_published(name), list(published), values))
    return drawn
