"""Figures of a campaign, for a page or a paper.

A configuration has the same colour, marker and line style in all figures of a study, so that it is
recognised without colour. Intervals are 99 % intervals. Points with more PEs than cores have open
markers without a line. matplotlib draws without a display, and no global setting is changed.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from workbench.show.plots import COLOURS
from workbench.study import analysis
from workbench.study.analysis import Result
from workbench.study.campaign import Campaign
from workbench.study.statistics import Fit, Interval
from workbench.study.tables import POOR, half_point, number, problem_cell

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (6, 2)), (0, (4, 1.5, 1, 1.5)), (0, (1.5, 1.2)), (0, (8, 2, 1, 2, 1, 2)))
PARTS = (  # of a PE's time: colour and hatch
    ("compute", COLOURS[0], ""),
    ("wait", "#ffffff", "////"),
    ("balance", COLOURS[1], "xxxx"),
)
OVERSUBSCRIBED = "more PEs than cores"
HALF = "half of the best rate per PE"
REFERENCES = ("ideal", HALF)  # lines that are no measurement stand last in a legend
DODGE = 0.05  # octaves between two points on the same PEs, so that no interval hides another
FAR_APART = 12.0  # longest over shortest step above which stacked bars are drawn as percentages
DPI = 200
STYLE: Mapping[str, Any] = MappingProxyType(
    {
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
        "lines.markersize": 5.5,
        "errorbar.capsize": 2.5,
        "hatch.linewidth": 0.6,
        "pdf.fonttype": 42,  # text in a PDF stays text
        "text.parse_math": False,
    }
)
CAPTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "step-time": (
            "Time per step over PEs",
            "Means of the trials with 99 % intervals, shifted a little against each other; both "
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
            "Relative to the fewest PEs of the same configuration, with 99 % intervals. Dashed: "
            "ideal.",
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
            "Rate per PE over the best rate per PE of the study, for smaller and smaller problems. "
            "Crosses: METG(50 %), the step length at which the efficiency is one half.",
        ),
    }
)


def figures(campaign: Campaign) -> dict[str, Any]:
    """Figures by name (see `CAPTIONS`), as far as the study has points for them."""
    import matplotlib as mpl

    found = analysis.results(campaign)
    kind = campaign.head["study"]["kind"]
    drawn: dict[str, Any] = {}
    settings: Any = dict(STYLE)
    with mpl.rc_context(settings):
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
    return drawn


def saved(figure: Any, form: str, salt: str) -> bytes:
    """The bytes of a figure's file, reproducible. ``salt``: seeds the ids of an SVG."""
    import matplotlib as mpl

    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    settings: Any = {**STYLE, "svg.hashsalt": salt}
    with mpl.rc_context(settings):
        figure.savefig(buffer, format=form, dpi=DPI, metadata=dates.get(form))
    return buffer.getvalue()


# Parts of figures ---------------------------------------------------------------------------------


def _figure(width: float = 5.2, height: float = 4.0) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _styles(configurations: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line style of each configuration."""
    return {
        configuration: {
            "color": COLOURS[position % len(COLOURS)],
            "marker": MARKERS[position % len(MARKERS)],
            "linestyle": DASHES[position % len(DASHES)],
        }
        for position, configuration in enumerate(configurations)
    }


def dodged(pes: Sequence[int], position: int, configurations: int) -> list[float]:
    """Positions for the points of one configuration, shifted a little so that none overlap."""
    return [count * 2 ** (DODGE * (position - (configurations - 1) / 2)) for count in pes]


def _draw_line(
    axes: Any, positions: Sequence[float], values: Sequence[Interval], look: Any, **more: Any
) -> None:
    """Values over positions, with their intervals where they have any."""
    middle = np.array([value.value for value in values])
    below = middle - [value.low for value in values]
    above = [value.high for value in values] - middle
    bars = np.maximum(np.nan_to_num([below, above]), 0.0)  # a bound can be beyond the mean itself
    axes.errorbar(positions, middle, yerr=bars, **look, **more)


def _draw_open(
    axes: Any, positions: Sequence[float], values: Sequence[Interval], look: Any
) -> None:
    """Values that must not be compared: open markers without a line."""
    unfilled = look | {"linestyle": "none", "markerfacecolor": "white"}
    _draw_line(axes, positions, values, unfilled, label="_open", elinewidth=0.8, capsize=0)


def _legend(
    figure: Any, axes: Any, oversubscribed: bool, more: Sequence[tuple[str, Any]] = ()
) -> None:
    """The legend below the axes, with entries for open markers and ``more`` line styles."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    for label, style in more:
        handles.append(Line2D([], [], color="#555555", linewidth=0.9, linestyle=style))
        labels.append(label)
    if oversubscribed:
        look: dict[str, Any] = {"color": "#555555", "marker": "o", "markerfacecolor": "white"}
        handles.append(Line2D([], [], linestyle="none", **look))
        labels.append(OVERSUBSCRIBED)
    order = sorted(range(len(labels)), key=lambda position: labels[position] in REFERENCES)
    columns = 2 if max(map(len, labels), default=0) > 24 else 3
    handles, labels = [handles[n] for n in order], [labels[n] for n in order]
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _pe_axis(axes: Any, pes: Sequence[int], title: str = "PEs") -> None:
    """A log2 axis whose ticks are the numbers of PEs themselves."""
    values = sorted(set(pes))
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.set_xticks([], minor=True)
    axes.set_xlim(values[0] / 2**0.3, values[-1] * 2**0.3)
    axes.set_xlabel(title)


def _plain_log(axis: Any, low: float, high: float, set_limits: Callable[..., Any]) -> None:
    """A decimal logarithmic axis around values, with ticks as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = low / 1.25, high * 1.25
    decades = math.log10(high / low)
    digits: tuple[float, ...] = (1.0,) if decades > 3 else (1.0, 2.0, 5.0)
    digits = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0) if decades < 1 else digits
    axis.set_major_locator(LogLocator(base=10, subs=digits, numticks=30))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
    set_limits(low, high)


def _reach(values: Sequence[Interval], scale: float = 1.0) -> tuple[float, float]:
    """The smallest and the largest positive number among values and bounds."""
    numbers = [number for value in values for number in (value.value, value.low, value.high)]
    positive = [number * scale for number in numbers if number > 0]
    return min(positive), max(positive)


def _scaled(interval: Interval, scale: float) -> Interval:
    return Interval(interval.value * scale, interval.low * scale, interval.high * scale)


def _steps_ms(found: Sequence[Result]) -> list[Interval]:
    return [_scaled(result.step, 1e3) for result in found]


# Strong and weak scaling --------------------------------------------------------------------------


def step_time_figure(found: list[Result], weak: bool) -> Any:
    """Time per step over PEs, with ideal scaling."""
    figure, axes = _figure()
    configurations = analysis.by_configuration(found)
    styles = _styles(list(configurations))
    for position, (configuration, mine) in enumerate(configurations.items()):
        counted = [result for result in mine if not result.oversubscribed]
        apart = [result for result in mine if result.oversubscribed]
        if counted:
            pes = dodged([result.pes for result in counted], position, len(configurations))
            _draw_line(axes, pes, _steps_ms(counted), styles[configuration], label=configuration)
        if apart:
            pes = dodged([result.pes for result in apart], position, len(configurations))
            _draw_open(axes, pes, _steps_ms(apart), styles[configuration])
    ideal = ideal_times(found, weak)
    if ideal:
        times = [seconds * 1e3 for seconds in ideal.values()]
        axes.plot(list(ideal), times, color="black", linewidth=1, linestyle="--", label="ideal")
    axes.set_yscale("log")
    _pe_axis(axes, [result.pes for result in found])
    low, high = _reach(_steps_ms(found))
    _plain_log(axes.yaxis, min([low, *(1e3 * t for t in ideal.values())]), high, axes.set_ylim)
    axes.set_ylabel("time per step [ms]")
    _legend(figure, axes, any(result.oversubscribed for result in found))
    return figure


def ideal_times(found: list[Result], weak: bool) -> dict[int, float]:
    """Seconds per step by PEs if the fastest configuration on the fewest PEs scaled ideally.

    Uses the points with a core for each PE; empty if these have a single number of PEs.
    """
    counted = [result for result in found if not result.oversubscribed]
    pes = sorted({result.pes for result in counted})
    if len(pes) < 2:
        return {}
    base = min(result.step.value for result in counted if result.pes == pes[0])
    return {count: base if weak else base * pes[0] / count for count in pes}


def speedup_figure(found: list[Result], weak: bool) -> Any:
    """Speed-up over PEs with the ideal diagonal and the fitted laws."""
    figure, axes = _figure()
    rows = analysis.scaling(found, weak)
    styles = _draw_configurations(axes, found, rows, lambda row: row.speedup)
    laws = _draw_laws(axes, found, weak, styles)
    pes = sorted({row.result.pes for row in rows})
    ideal = [count / pes[0] for count in pes]
    axes.plot(pes, ideal, color="black", linewidth=1, linestyle="--", label="ideal")
    axes.set_yscale("log")
    _pe_axis(axes, pes)
    low, high = _reach([row.speedup for row in rows])
    _plain_log(axes.yaxis, low, max(high, ideal[-1]), axes.set_ylim)
    axes.set_ylabel("scaled speed-up" if weak else "speed-up")
    _legend(figure, axes, False, laws)
    return figure


def _draw_configurations(
    axes: Any,
    found: list[Result],
    rows: Sequence[analysis.Scaling],
    value: Callable[[analysis.Scaling], Interval],
) -> dict[str, dict[str, Any]]:
    """Draw a line over PEs for each configuration; returns the styles of all configurations."""
    styles = _styles(list(analysis.by_configuration(found)))
    for position, configuration in enumerate(styles):
        mine = [row for row in rows if row.result.configuration == configuration]
        if mine:
            positions = dodged([row.result.pes for row in mine], position, len(styles))
            _draw_line(
                axes, positions, list(map(value, mine)), styles[configuration], label=configuration
            )
    return styles


LAW_STYLES = (("amdahl", "Amdahl", ":"), ("gustafson", "Gustafson", ":"), ("usl", "USL", "-."))


def _draw_laws(
    axes: Any, found: list[Result], weak: bool, styles: dict[str, Any]
) -> list[tuple[str, str]]:
    """Draw thin curves of the fitted laws; returns their names and styles for the legend."""
    shown = {}
    for configuration, fit in analysis.fits(found, weak):
        if not isinstance(fit, Fit) or fit.residual > POOR:
            continue
        counted = [
            r for r in analysis.by_configuration(found)[configuration] if not r.oversubscribed
        ]
        pes, gains = law_curve(counted, fit, weak)
        name, title, style = next(law for law in LAW_STYLES if fit.model.startswith(law[0]))
        colour = styles[configuration]["color"]
        axes.plot(pes, gains, color=colour, linewidth=0.9, linestyle=style, label="_law")
        shown[name] = (f"fit of {title}", style)
    return list(shown.values())


def law_curve(counted: list[Result], fit: Fit, weak: bool) -> tuple[np.ndarray, np.ndarray]:
    """PEs (n,) and the speed-up (n,) over the measured base that a law predicts."""
    base = counted[0]
    pes = np.geomspace(base.pes, counted[-1].pes, 60)
    growth = pes / base.pes if weak else 1.0
    return pes, growth * base.step.value / fit.predict(pes)


def efficiency_figure(found: list[Result], weak: bool) -> Any:
    """Parallel efficiency over PEs; 1 is ideal."""
    figure, axes = _figure()
    rows = analysis.scaling(found, weak)
    _draw_configurations(axes, found, rows, lambda row: row.efficiency)
    axes.axhline(1.0, color="black", linewidth=1, linestyle="--", label="ideal")
    _pe_axis(axes, [row.result.pes for row in rows])
    axes.set_ylim(0, 1.08 * max(1.0, _reach([row.efficiency for row in rows])[1]))
    axes.set_ylabel("parallel efficiency")
    _legend(figure, axes, False)
    return figure


def parts_figure(campaign: Campaign, found: list[Result]) -> Any:
    """Compute, wait and balancing of each point, stacked; oversubscribed points below a line.

    Bars are in ms per step. If steps differ so much in length that short ones would be invisible,
    bars are percentages of the step, annotated with its length.
    """
    order = sorted(found, key=lambda result: (result.oversubscribed, result.number))
    lengths = [result.step.value for result in order]
    shares = max(lengths) > FAR_APART * min(lengths)
    figure, axes = _figure(5.6, 1.3 + 0.27 * len(order))
    gap = [0.8 * result.oversubscribed for result in order]
    positions = np.arange(len(order)) + gap
    left = np.zeros(len(order))
    for name, colour, hatch in PARTS:
        widths = np.array([_part(result, name, shares) for result in order])
        look = {"color": colour, "hatch": hatch, "edgecolor": "black", "linewidth": 0.5}
        axes.barh(positions, widths, 0.72, left, label=name, **look)
        left += widths
    for position, end, length in zip(positions, left, lengths, strict=True):
        axes.annotate(f" {number(length * 1e3, 3)} ms", (end, position), va="center", fontsize=7.5)
    labels = [_point_label(campaign, result) for result in order]
    axes.set_yticks(positions, labels, fontsize=8)
    axes.set_ylim(positions[-1] + 0.7, positions[0] - 0.7)
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0, 1.16 * left.max())
    axes.set_xlabel("share of a PE's time in a step [%]" if shares else "a PE's time per step [ms]")
    if 0 < sum(result.oversubscribed for result in order) < len(order):
        first = next(
            position for position, r in zip(positions, order, strict=True) if r.oversubscribed
        )
        axes.axhline(first - 0.9, color="#777777", linewidth=0.8, linestyle=":")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _part(result: Result, name: str, shares: bool) -> float:
    """The width of a part's bar."""
    return result.parts[name] * (100 / sum(result.parts.values()) if shares else 1e3)


def _point_label(campaign: Campaign, result: Result) -> str:
    label = f"{result.configuration}, {result.pes} PE"
    if campaign.head["study"]["kind"] == "granularity":
        label += f", {problem_cell(campaign, result.number)}"
    return f"{label} ({OVERSUBSCRIBED})" if result.oversubscribed else label


# Over-decomposition, balancing, granularity -------------------------------------------------------


def odf_figure(found: list[Result]) -> Any:
    """Time per step over ODF; drivers without over-decomposition are horizontal lines."""
    figure, axes = _figure()
    configurations: dict[str, list[Result]] = {}
    for result in found:
        configurations.setdefault(_configuration_of_any_odf(result), []).append(result)
    styles = _styles(list(configurations))
    for configuration, mine in configurations.items():
        _draw_odf(
            axes,
            configuration,
            sorted(mine, key=lambda result: result.case.odf),
            styles[configuration],
        )
    odfs = [result.case.odf for result in found]
    axes.set_yscale("log")
    _pe_axis(axes, odfs, "ODF: blocks per PE")
    _plain_log(axes.yaxis, *_reach(_steps_ms(found)), axes.set_ylim)
    axes.set_ylabel("time per step [ms]")
    _legend(figure, axes, any(result.oversubscribed for result in found))
    return figure


def _configuration_of_any_odf(result: Result) -> str:
    case = result.case
    balancing = f" {case.balancer} every {case.lb_period}" if case.balancer else ""
    return f"{case.driver}{balancing} on {case.pes} PE"


def _draw_odf(axes: Any, name: str, mine: list[Result], look: dict[str, Any]) -> None:
    if not mine[0].case.can.over_decomposition:
        (step,) = _steps_ms(mine)
        mark = OVERSUBSCRIBED if mine[0].oversubscribed else ""
        label = f"{name}, {mark}" if mark else name
        axes.axhline(step.value, color=look["color"], linestyle=look["linestyle"], label=label)
        if not math.isnan(step.low):
            axes.axhspan(step.low, step.high, color=look["color"], alpha=0.18, linewidth=0)
        return
    counted = [result for result in mine if not result.oversubscribed]
    apart = [result for result in mine if result.oversubscribed]
    if counted:
        odfs = [result.case.odf for result in counted]
        _draw_line(axes, odfs, _steps_ms(counted), look, label=name)
    if apart:
        _draw_open(axes, [result.case.odf for result in apart], _steps_ms(apart), look)


def gain_figure(found: list[Result]) -> Any:
    """The gain of each balanced result with its interval, beside the ideal gain."""
    gains = analysis.gains(found)
    figure, axes = _figure(5.6, 1.5 + 0.55 * len(gains))
    positions = np.arange(len(gains))
    values = np.array([row.gain.value for row in gains])
    below = values - [row.gain.low for row in gains]
    above = [row.gain.high for row in gains] - values
    bars = np.maximum(np.nan_to_num([below, above]), 0.0)
    look: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.5}
    axes.barh(positions - 0.19, values, 0.38, xerr=bars, color=COLOURS[0], label="gain", **look)
    ideals = [row.ideal for row in gains]
    look |= {"color": "white", "hatch": "////"}
    axes.barh(positions + 0.19, ideals, 0.38, label="ideal gain (max/mean)", **look)
    axes.axvline(1.0, color="black", linewidth=1, linestyle="--", label="no gain")
    labels = [
        f"{row.balanced.configuration}, {row.balanced.pes} PE\nagainst {row.other.configuration}"
        for row in gains
    ]
    axes.set_yticks(positions, labels, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time per step without balancing / with it")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def granularity_figure(found: list[Result]) -> Any:
    """Efficiency over step length, METG(50 %) marked."""
    figure, axes = _figure()
    rows = analysis.granularity(found)
    styles = _styles([row.configuration for row in rows])
    for row in rows:
        points = sorted(row.points, key=lambda point: point.result.step.value)
        steps = [point.result.step.value * 1e3 for point in points]
        label = f"{row.configuration}, METG {half_point(row.metg_s)}"
        axes.plot(
            steps, [point.efficiency for point in points], **styles[row.configuration], label=label
        )
        if row.metg_s is not None and math.isfinite(row.metg_s):
            mark = {"marker": "x", "markersize": 9, "markeredgewidth": 2}
            colour = styles[row.configuration]["color"]
            axes.plot([row.metg_s * 1e3], [0.5], color=colour, label="_metg", zorder=3, **mark)
    axes.axhline(0.5, color="black", linewidth=1, linestyle="--", label=HALF)
    axes.set_xscale("log")
    steps = [point.result.step.value * 1e3 for row in rows for point in row.points]
    _plain_log(axes.xaxis, min(steps), max(steps), axes.set_xlim)
    axes.set_ylim(0, 1.08)
    axes.set_xlabel("time per step [ms]")
    axes.set_ylabel("efficiency")
    _legend(figure, axes, False)
    return figure
