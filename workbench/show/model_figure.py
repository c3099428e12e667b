"""The figure of ``miniapps model``: predicted times per step, with their intervals as bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.workbench.quoting import figure as quoted
from miniapps.workbench.show.captions import fitted, problem_text
from miniapps.workbench.show.marks import styled
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study.drawing import (
    bounds_of,
    decimal_log_axis,
    draw_legend,
    error_bars,
    new_figure,
    pe_axis,
    styles_of,
)
from miniapps.workbench.study.figures import STYLE
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.study.titles import TITLES

LETTERS = 70  # of a title
Lines = Mapping[str, Sequence[tuple[int, Interval]]]  # PEs or ODF, and seconds, by configuration


@styled(**STYLE)
def figure_of(kind: str, machine: str, app: str, problems: Sequence[Any], lines: Lines) -> Any:
    """Times per step over PEs, or over ODF in a study of it; both axes are logarithmic."""
    figure, axes = new_figure()
    for name, look in styles_of(list(lines)).items():
        places = [place for place, _ in lines[name]]
        values = [value.times(1e3) for _, value in lines[name]]
        axes.plot(places, [value.value for value in values], **look, label=name)
        low, high = np.array([(value.low, value.high) for value in values]).T
        axes.fill_between(places, low, high, color=look["color"], alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    every = sorted({place for line in lines.values() for place, _ in line})
    pe_axis(axes, every, "ODF: blocks per PE" if kind == "odf" else "PEs")
    axes.set_ylabel("predicted time per step [ms]")
    times = [value.times(1e3) for line in lines.values() for _, value in line]
    decimal_log_axis(axes.yaxis, *bounds_of(times), axes.set_ylim)
    said = f"{TITLES[kind]} of {app}, {problem_text(app, [p.parameters() for p in problems])}"
    axes.set_title(fitted([said, f"predicted for {quoted(machine)}"], LETTERS), fontsize=8)
    draw_legend(figure, axes, False)
    return figure


@styled(**STYLE)
def checked_figure(tables: Mapping[str, Sequence[tuple[Any, float]]]) -> Any:
    """Published times per step, and crosses where the model predicts them: a panel per table.

    Tables of a single place are left out, as they have no line.
    """
    several = {title: rows for title, rows in tables.items() if len({r.place for r, _ in rows}) > 1}
    figure, grid = new_figure(10.4, 7.0, -(-len(several) // 2), 2)
    for axes, (title, rows) in zip(grid.flat, several.items(), strict=False):
        places = [row.place for row, _ in rows]
        published = [Interval(r.published_s, r.low_s, r.high_s).times(1e3) for r, _ in rows]
        middle, bars = error_bars(published)
        fine = {"color": "#555555", "marker": "o", "linestyle": "none"}
        axes.errorbar(places, middle, yerr=bars, label="published", **fine)
        predicted = [seconds * 1e3 for _, seconds in rows]
        cross = {"marker": "x", "markersize": 9, "markeredgewidth": 2, "color": COLOURS[1]}
        axes.plot(places, predicted, label="predicted", **cross)
        axes.set_yscale("log")
        pe_axis(axes, places, "ODF" if title.startswith("H200") else "PEs")
        axes.tick_params(axis="x", labelrotation=45)
        shown = [Interval(value, value, value) for value in predicted]
        decimal_log_axis(axes.yaxis, *bounds_of([*published, *shown]), axes.set_ylim)
        axes.set_ylabel("time per step [ms]")
        axes.set_title(title)
    for axes in grid.flat[len(several) :]:
        axes.remove()
    draw_legend(figure, grid.flat[0], False)
    return figure
