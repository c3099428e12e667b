"""Figures of a campaign, for a page or a paper.

A configuration has the same colour, marker and line style in all figures of a study, and can be
recognised without its colour. Intervals are 99 % intervals. Points with more PEs than cores have
open markers without a line. matplotlib needs no display, and no global setting is changed.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.workbench.show.captions import fitted
from miniapps.workbench.show.marks import styled
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study import analysis
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.cells import half_point
from miniapps.workbench.study.drawing import (
    HALF,
    MARKER,
    METG,
    NO_GAIN,
    OVERSUBSCRIBED,
    beside,
    bounds_of,
    broken,
    decimal_log_axis,
    draw_legend,
    draw_line,
    draw_steps,
    error_bars,
    host_edge,
    new_figure,
    pe_axis,
    steps_ms,
    styles_of,
)
from miniapps.workbench.study.laws import Fit
from miniapps.workbench.study.overlay import GAINS, NOTE, Overlay
from miniapps.workbench.study.parts import parts_figure
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.study.tables import POOR
from miniapps.workbench.study.titles import machine_of, title_of
from miniapps.workbench.study.validation import differences

DPI = 200
LETTERS = 14  # of a title, per inch
WIDEST, LINE = 52, 0.14  # letters of a line of a label; its height, inches
STYLE: Mapping[str, Any] = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": MARKER,
    "errorbar.capsize": 2.5,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,  # text in a PDF stays text
    "text.parse_math": False,
}
CAPTIONS: Mapping[str, tuple[str, str]] = {
    "step-time": (
        "Time per step over PEs",
        "Means of the trials with 99 % intervals, shifted sideways by less than a marker; both "
        "axes are logarithmic. Dashed: ideal scaling of the fastest configuration on the "
        "fewest PEs.",
    ),
    "speed-up": (
        "Speed-up over PEs",
        "Relative to the fewest PEs of the same configuration, with 99 % intervals. Dashed: "
        "ideal. Thin curves: fitted laws; points do not test a law with as many parameters.",
    ),
    "efficiency": (
        "Parallel efficiency over PEs",
        "Relative to the fewest PEs of the same configuration, with 99 % intervals. Dashed: ideal.",
    ),
    "parts": (
        "Where a PE's time goes",
        "Means over PEs, steps and trials. Wait is all time that is neither compute nor load "
        "balancing: messages, the runtime, and waiting for slower PEs.",
    ),
    "odf": (
        "Time per step over the over-decomposition factor",
        "Means of the trials with 99 % intervals. A horizontal line and band are a "
        "driver that has one block per PE.",
    ),
    "gain": (
        "Gain of load balancing, and the ideal gain",
        "Time per step without balancing over time with it, with 99 % intervals. The ideal "
        "gain is the imbalance (max/mean) without balancing: the gain of a perfect balancer "
        "without cost.",
    ),
    "granularity": (
        "Efficiency over the length of a step",
        "Rate per PE over the best rate per PE of the study, joined in order of the problem's "
        "size. Crosses: METG(50 %), the step length at which the efficiency is one half.",
    ),
}


def figures(campaign: Campaign, overlay: Overlay | None = None) -> dict[str, Any]:
    """The figures for which the study has points, by name (see `CAPTIONS`).

    ``overlay``: what the performance model predicts, to be drawn over the points.
    """
    found = analysis.results(campaign)
    kind = campaign.head["study"]["kind"]
    drawn: dict[str, Any] = {}
    with styled(**STYLE):
        if not found:
            return drawn
        if kind in ("strong", "weak"):
            drawn["step-time"] = step_time_figure(found, kind == "weak")
            if ideal_times(found, kind == "weak"):
                drawn["speed-up"] = speedup_figure(found, kind == "weak")
                drawn["efficiency"] = efficiency_figure(found, kind == "weak")
        elif kind == "odf":
            drawn["odf"] = odf_figure(found)
        elif kind == "lb" and analysis.gains(found):
            drawn["gain"] = gain_figure(found)
        elif kind == "granularity" and analysis.granularity(found):
            drawn["granularity"] = granularity_figure(found)
        drawn["parts"] = parts_figure(campaign, found)
        for name, figure in drawn.items():
            said = [title_of(campaign), machine_of(campaign)]
            if overlay and overlay.draw(name, figure.axes[0], found, kind == "weak"):
                said.append(NOTE)
            figure.suptitle(fitted(said, int(LETTERS * figure.get_figwidth())), fontsize=8)
    return drawn


def saved(figure: Any, form: str, salt: str) -> bytes:
    """A figure's file as bytes, the same every time. ``salt`` seeds the ids of an SVG."""
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    with styled(**STYLE, **{"svg.hashsalt": salt}):
        figure.savefig(buffer, format=form, dpi=DPI, metadata=dates.get(form))
    return buffer.getvalue()


# Strong and weak scaling --------------------------------------------------------------------------


def step_time_figure(found: list[Result], weak: bool) -> Any:
    """Time per step over PEs, with ideal scaling."""
    figure, axes = new_figure()
    configurations = analysis.by_configuration(found)
    styles = styles_of(list(configurations))
    for position, (configuration, mine) in enumerate(configurations.items()):
        look = styles[configuration] | {"transform": beside(axes, position, len(configurations))}
        draw_steps(axes, [result.pes for result in mine], mine, look, configuration)
    ideal = ideal_times(found, weak)
    if ideal:
        _draw_ideal(axes, {pes: seconds * 1e3 for pes, seconds in ideal.items()})
    axes.set_yscale("log")
    pe_axis(axes, [result.pes for result in found])
    host_edge(axes, found)
    low, high = bounds_of(steps_ms(found))
    decimal_log_axis(
        axes.yaxis, min([low, *(1e3 * t for t in ideal.values())]), high, axes.set_ylim
    )
    axes.set_ylabel("time per step [ms]")
    draw_legend(figure, axes, any(result.oversubscribed for result in found))
    return figure


def ideal_times(found: list[Result], weak: bool) -> dict[int, float]:
    """Ideal seconds per step by PEs, from the fastest configuration on the fewest PEs.

    Uses the points with a core for each PE; empty if these have a single number of PEs.
    """
    counted = analysis.comparable(found)
    pes = sorted({result.pes for result in counted})
    if len(pes) < 2:
        return {}
    base = min(result.step.value for result in counted if result.pes == pes[0])
    return {count: base if weak else base * pes[0] / count for count in pes}


def _draw_ideal(axes: Any, values: dict[int, float]) -> None:
    """Draw the ideal values by PEs, which are on a straight line if both axes are logarithmic."""
    look: dict[str, Any] = {"color": "black", "linewidth": 1, "linestyle": "--", "label": "ideal"}
    axes.plot(list(values), list(values.values()), **look)


def speedup_figure(found: list[Result], weak: bool) -> Any:
    """Speed-up over PEs with the ideal diagonal and the fitted laws."""
    figure, axes = new_figure()
    rows = analysis.scaling(found, weak)
    styles = _draw_configurations(axes, found, rows, lambda row: row.speedup)
    laws = _draw_laws(axes, found, weak, styles)
    pes = sorted({row.result.pes for row in rows})
    ideal = {count: count / pes[0] for count in pes}
    _draw_ideal(axes, ideal)
    axes.set_yscale("log")
    pe_axis(axes, pes)
    host_edge(axes, found)
    low, high = bounds_of([row.speedup for row in rows])
    decimal_log_axis(axes.yaxis, low, max(high, ideal[pes[-1]]), axes.set_ylim)
    axes.set_ylabel("scaled speed-up" if weak else "speed-up")
    draw_legend(figure, axes, False, laws)
    return figure


def _draw_configurations(
    axes: Any,
    found: list[Result],
    rows: Sequence[analysis.Scaling],
    value: Callable[[analysis.Scaling], Interval],
) -> dict[str, dict[str, Any]]:
    """Draw a line over PEs for each configuration; returns the styles of all configurations."""
    styles = styles_of(list(analysis.by_configuration(found)))
    for position, configuration in enumerate(styles):
        mine = [row for row in rows if row.result.configuration == configuration]
        if mine:
            look = styles[configuration] | {"transform": beside(axes, position, len(styles))}
            pes = [row.result.pes for row in mine]
            draw_line(axes, pes, list(map(value, mine)), look, label=configuration)
    return styles


LAW_STYLES: Mapping[str, str] = {"Amdahl": ":", "Gustafson": ":", "USL": "-."}


def _draw_laws(
    axes: Any, found: list[Result], weak: bool, styles: dict[str, Any]
) -> list[tuple[str, str]]:
    """Draw thin curves of the fitted laws; returns their names and styles for the legend."""
    shown = {}
    for configuration, fit in analysis.fits(found, weak):
        if not isinstance(fit, Fit) or fit.residual > POOR:
            continue
        counted = analysis.comparable(analysis.by_configuration(found)[configuration])
        pes, gains = law_curve(counted, fit, weak)
        style = LAW_STYLES[fit.title]
        colour = styles[configuration]["color"]
        axes.plot(pes, gains, color=colour, linewidth=0.9, linestyle=style, label="_law")
        shown[fit.title] = (f"fit of {fit.title}", style)
    return list(shown.values())


def law_curve(counted: list[Result], fit: Fit, weak: bool) -> tuple[np.ndarray, np.ndarray]:
    """PEs (n,) and the speed-up (n,) over the measured base that a law predicts."""
    base = counted[0]
    pes = np.geomspace(base.pes, counted[-1].pes, 60)
    growth = pes / base.pes if weak else 1.0
    return pes, growth * base.step.value / fit.predict(pes)


def efficiency_figure(found: list[Result], weak: bool) -> Any:
    """Parallel efficiency over PEs; 1 is ideal."""
    figure, axes = new_figure()
    rows = analysis.scaling(found, weak)
    _draw_configurations(axes, found, rows, lambda row: row.efficiency)
    axes.axhline(1.0, color="black", linewidth=1, linestyle="--", label="ideal")
    pe_axis(axes, [row.result.pes for row in rows])
    host_edge(axes, found)
    axes.set_ylim(0, 1.08 * max(1.0, bounds_of([row.efficiency for row in rows])[1]))
    axes.set_ylabel("parallel efficiency")
    draw_legend(figure, axes, False)
    return figure


# Over-decomposition, balancing, granularity -------------------------------------------------------


def odf_figure(found: list[Result]) -> Any:
    """Time per step over ODF; drivers without over-decomposition are horizontal lines."""
    figure, axes = new_figure()
    configurations: dict[str, list[Result]] = {}
    for result in found:
        configurations.setdefault(_configuration_of_any_odf(result), []).append(result)
    styles = styles_of(list(configurations))
    for configuration, mine in configurations.items():
        by_odf = sorted(mine, key=lambda result: result.case.odf)
        _draw_odf(axes, configuration, by_odf, styles[configuration])
    odfs = [result.case.odf for result in found]
    axes.set_yscale("log")
    pe_axis(axes, odfs, "ODF: blocks per PE")
    decimal_log_axis(axes.yaxis, *bounds_of(steps_ms(found)), axes.set_ylim)
    axes.set_ylabel("time per step [ms]")
    draw_legend(figure, axes, any(result.oversubscribed for result in found))
    return figure


def _configuration_of_any_odf(result: Result) -> str:
    case = result.case
    return ", ".join(filter(None, (f"{case.driver} {case.balancing}".strip(), result.pe_count)))


def _draw_odf(axes: Any, name: str, mine: list[Result], look: dict[str, Any]) -> None:
    if not mine[0].case.can.over_decomposition:
        (step,) = steps_ms(mine)
        mark = OVERSUBSCRIBED if mine[0].oversubscribed else ""
        label = f"{name}, {mark}" if mark else name
        axes.axhline(step.value, color=look["color"], linestyle=look["linestyle"], label=label)
        if not math.isnan(step.low):
            axes.axhspan(step.low, step.high, color=look["color"], alpha=0.18, linewidth=0)
        return
    draw_steps(axes, [result.case.odf for result in mine], mine, look, name)


def gain_figure(found: list[Result]) -> Any:
    """The gain of each balanced result, at least one, with its interval, beside the ideal gain.

    Of more than `GAINS` results, those with the largest and the smallest gains; of fewer where
    labels are long.
    """
    every = analysis.gains(found)
    lines = max(_gain_label(row, every).count("\n") + 1 for row in every)
    gains = extremes(every, 2 * GAINS // lines)
    labels = [_gain_label(row, every) for row in gains]
    figure, axes = new_figure(5.6, 1.7 + (0.27 + LINE * lines) * len(gains))
    positions = np.arange(len(gains))
    values, bars = error_bars([row.gain for row in gains])
    look: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.5}
    axes.barh(positions - 0.19, values, 0.38, xerr=bars, color=COLOURS[0], label="gain", **look)
    ideals = [row.ideal for row in gains]
    look |= {"color": "white", "hatch": "////"}
    axes.barh(positions + 0.19, ideals, 0.38, label="ideal gain (max/mean)", **look)
    axes.axvline(1.0, color="black", linewidth=1, linestyle="--", label=NO_GAIN)
    axes.set_yticks(positions, labels, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time per step without balancing / with it")
    if len(gains) < len(every):
        axes.set_title(f"{len(gains)} of {len(every)}: largest and smallest gains")
    draw_legend(figure, axes, False)
    return figure


def _gain_label(row: analysis.Gain, every: Sequence[analysis.Gain]) -> str:
    """What is compared: of the problem what others have not, and of the other's what it has not."""
    one, other = row.balanced, row.other
    own = differences(one.problem, [some.balanced.problem for some in every])
    not_own = differences(other.problem, [one.problem, other.problem])
    balanced = ", ".join(filter(None, (one.configuration, one.pe_count, own)))
    against = ", ".join(filter(None, (other.configuration, not_own)))
    return f"{broken(balanced, WIDEST)}\n{broken(f'against {against}', WIDEST)}"


def extremes(gains: Sequence[analysis.Gain], most: int) -> list[analysis.Gain]:
    """The results with the largest and with the smallest gains, ``most`` in all, in their order."""
    ranked = sorted(range(len(gains)), key=lambda number: gains[number].gain.value)
    half = most // 2
    kept = {*ranked[:half], *ranked[half - most :]}
    return [gains[number] for number in sorted(kept)]


def granularity_figure(found: list[Result]) -> Any:
    """Efficiency over step length, METG(50 %) marked."""
    figure, axes = new_figure()
    rows = analysis.granularity(found)
    styles = styles_of([row.configuration for row in rows])
    mark: dict[str, Any] = {"marker": "x", "markersize": 9, "markeredgewidth": 2}
    for row in rows:
        points = sorted(row.points, key=lambda point: point.result.number)  # the largest first
        steps = [point.result.step.value * 1e3 for point in points]
        label = f"{row.configuration}, METG {half_point(row.metg_s)}"
        axes.plot(
            steps, [point.efficiency for point in points], **styles[row.configuration], label=label
        )
        if not math.isnan(row.metg_s.value):
            colour = styles[row.configuration]["color"]
            place = [row.metg_s.value * 1e3]
            axes.plot(place, [0.5], color=colour, label="_metg", zorder=3, **mark)
    if any(not math.isnan(row.metg_s.value) for row in rows):
        axes.plot([], [], color="#555555", label=METG, linestyle="none", **mark)
    axes.axhline(0.5, color="black", linewidth=1, linestyle="--", label=HALF)
    axes.set_xscale("log")
    steps = [point.result.step.value * 1e3 for row in rows for point in row.points]
    decimal_log_axis(axes.xaxis, min(steps), max(steps), axes.set_xlim)
    axes.set_ylim(-0.04, 1.08)
    axes.set_xlabel("time per step [ms]")
    axes.set_ylabel("efficiency")
    draw_legend(figure, axes, False)
    return figure
