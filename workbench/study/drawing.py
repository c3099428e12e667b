"""Elements of the figures of a campaign: styles, lines with intervals, axes and legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from miniapps.workbench.show.captions import wrapped
from miniapps.workbench.show.marks import blank_figure
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.statistics import Interval

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (6, 2)), (0, (4, 1.5, 1, 1.5)), (0, (1.5, 1.2)), (0, (8, 2, 1, 2, 1, 2)))
OVERSUBSCRIBED = "more PEs than cores"
HALF = "half of the best rate per PE"
METG = "METG(50 %)"
NO_GAIN = "no gain"
REFERENCES = ("ideal", HALF, METG, NO_GAIN)  # lines that are not measured: last in a legend
LETTERS = 12  # of a line of the legend, per inch of the figure
MARKER = 5.5  # width, points
RIGHT = 0.13  # inches, from a point to its prediction
SHIFT = 0.4  # of a marker: the farthest that points lie from their number of PEs, to either side


def new_figure(
    width: float = 5.2, height: float = 4.2, rows: int = 0, columns: int = 1
) -> tuple[Any, Any]:
    """A figure and its axes, an array if there are ``rows`` of them; sizes in inches."""
    figure = blank_figure(width, height)
    return figure, figure.subplots(max(1, rows), columns, squeeze=not rows)


def styles_of(configurations: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line style of each configuration."""
    return {
        configuration: {
            "color": COLOURS[position % len(COLOURS)],
            "marker": MARKERS[position % len(MARKERS)],
            "linestyle": DASHES[position % len(DASHES)],
        }
        for position, configuration in enumerate(configurations)
    }


def beside(axes: Any, position: int, configurations: int) -> Any:
    """Where the points of one configuration are drawn, so that none hides another.

    Their data are as measured. They are shifted sideways by less than half of a marker, so that
    lines without a shift, such as the ideal, go through the markers of points that lie on them.
    """
    from matplotlib.transforms import ScaledTranslation

    share = 2 * position / (configurations - 1) - 1 if configurations > 1 else 0.0
    inches = share * SHIFT * MARKER / 72
    return axes.transData + ScaledTranslation(inches, 0, axes.figure.dpi_scale_trans)


def to_the_right(axes: Any) -> Any:
    """Where predictions are drawn: beside the markers of points, which would hide them."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transData + ScaledTranslation(RIGHT, 0, axes.figure.dpi_scale_trans)


def error_bars(values: Sequence[Interval]) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,), and the lengths of their error bars (2, n): 0 if there is no interval."""
    middle = np.array([value.value for value in values])
    below = middle - [value.low for value in values]
    above = [value.high for value in values] - middle
    return middle, np.maximum(np.nan_to_num([below, above]), 0.0)  # a bound may cross the mean


def draw_line(
    axes: Any, positions: Sequence[float], values: Sequence[Interval], look: Any, **more: Any
) -> None:
    """Draw values over positions, with their intervals if they have any."""
    middle, bars = error_bars(values)
    axes.errorbar(positions, middle, yerr=bars, **look, **more)


def draw_steps(
    axes: Any, positions: Sequence[float], mine: Sequence[Result], look: dict[str, Any], label: str
) -> None:
    """Draw step times of a configuration, ms; oversubscribed points are open and have no line."""
    unfilled = {"linestyle": "none", "markerfacecolor": "white", "elinewidth": 0.8, "capsize": 0}
    for apart, style in ((False, {"label": label}), (True, {"label": "_open", **unfilled})):
        pairs = [p for p in zip(positions, mine, strict=True) if p[1].oversubscribed == apart]
        if pairs:
            shown, results = zip(*pairs, strict=True)
            draw_line(axes, shown, steps_ms(results), look | style)


def draw_legend(
    figure: Any, axes: Any, oversubscribed: bool, more: Sequence[tuple[str, Any]] = ()
) -> None:
    """Draw a legend below the axes, with entries for open markers and ``more`` line styles."""
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
    fitted_legend(figure, [handles[n] for n in order], [labels[n] for n in order])


def broken(label: str, most: int) -> str:
    """A label in lines of so many letters, broken after commas alone."""
    kept = label.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ")
    return "\n".join(wrap(kept, most, break_on_hyphens=False)).replace("\N{NO-BREAK SPACE}", " ")


def fitted_legend(figure: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw a legend below the axes, in as many columns, three at most, as the figure has room for.

    A label that is too long for one column is broken.
    """
    lines = [wrapped(label, int(LETTERS * figure.get_figwidth())) for label in labels]
    for columns in (3, 2, 1):
        legend = figure.legend(handles, lines, loc="outside lower center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width < figure.bbox.width:
            return
        legend.remove()


def pe_axis(axes: Any, pes: Sequence[int], title: str = "PEs") -> None:
    """Set a log2 x axis whose ticks are the numbers of PEs."""
    values = sorted(set(pes))
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.set_xlim(values[0] / 2**0.3, values[-1] * 2**0.3)
    axes.set_xlabel(title)


def host_edge(axes: Any, found: Sequence[Result]) -> None:
    """Draw where PEs begin to be on several hosts, if some points are on one and some are not."""
    one = [result.pes for result in found if result.hosts == 1]
    several = [result.pes for result in found if result.hosts > 1]
    if one and several:
        edge = math.sqrt(max(one) * min(several))
        axes.axvline(edge, color="grey", linewidth=0.8, linestyle=":")
        where = axes.get_xaxis_transform()
        for text, side in (("one host ", "right"), (" several hosts", "left")):
            axes.text(edge, 1.0, text, transform=where, ha=side, va="bottom", fontsize=7)


def decimal_log_axis(axis: Any, low: float, high: float, set_limits: Callable[..., Any]) -> None:
    """Set a decimal logarithmic axis from ``low`` to ``high``, with plain numbers at its ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = low / 1.25, high * 1.25
    decades = math.log10(high / low)
    digits: tuple[float, ...] = (1.0,) if decades > 3 else (1.0, 2.0, 5.0)
    digits = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0) if decades < 1 else digits
    axis.set_major_locator(LogLocator(base=10, subs=digits, numticks=30))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
    set_limits(low, high)


def bounds_of(values: Sequence[Interval]) -> tuple[float, float]:
    """The smallest and the largest positive number among values and bounds."""
    numbers = [number for value in values for number in (value.value, value.low, value.high)]
    positive = [number for number in numbers if number > 0]
    return min(positive), max(positive)


def steps_ms(found: Sequence[Result]) -> list[Interval]:
    """Mean times per step, ms."""
    return [result.step.times(1e3) for result in found]
