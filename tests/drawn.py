"""What a reader sees in a matplotlib figure: values at their places on the axes, by their names.

Places are those where artists are drawn, also if they are shifted or turned. Names are those of the
entries of the legend that look alike, so that a label that belongs to another line is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backend_bases import MouseEvent
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from matplotlib.offsetbox import HPacker, TextArea
from matplotlib.patches import Patch

NUMBER = set("0123456789.-+e")
BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2}
NO_MARKERS = ("none", "", "_", "|")  # the last two are caps of error bars
WHITE, OPEN = "#ffffff", "open"


def laid_out(figure: Any) -> Any:
    """The figure, once its ticks have places; its panels are not fitted, which takes longer."""
    figure.set_layout_engine("none")
    FigureCanvasAgg(figure).draw()
    return figure


def look(artist: Any) -> tuple[str, ...]:
    """What distinguishes a line or a bar from others; not by its name."""
    if isinstance(artist, Patch):
        return to_hex(artist.get_facecolor()), artist.get_hatch() or ""
    return _look_of_lines([artist])


def _look_of_lines(several: list[Any]) -> tuple[str, ...]:
    """The colour, marker and dashes of lines that are drawn over each other, without caps."""
    marked = [line for line in several if str(line.get_marker()).lower() not in NO_MARKERS]
    joined = [line for line in several if line.get_linestyle() != "None"]
    styles = [str(line._unscaled_dash_pattern) for line in joined]
    opened = any(to_hex(line.get_markerfacecolor()) == WHITE for line in marked)
    marker = "".join(str(line.get_marker()) for line in marked)
    return to_hex(several[0].get_color()), marker, "".join(styles), OPEN if opened else ""


def names(axes: Any) -> dict[tuple[str, ...], str]:
    """The labels of the legend of axes, or else of their figure, by what its entries look like."""
    found: dict[tuple[str, ...], str] = {}
    for legend in [axes.get_legend()] if axes.get_legend() else axes.figure.legends:
        for entry in legend.findobj(HPacker):
            parts = entry.get_children()
            if not (len(parts) == 2 and isinstance(parts[1], TextArea)):
                continue
            drawn, label = parts[0].get_children(), " ".join(parts[1].get_text().split())
            patches = [part for part in drawn if isinstance(part, Patch)]
            seen = [part for part in drawn if isinstance(part, Line2D)]
            key = look(patches[0]) if patches else _look_of_lines(seen)
            assert found.setdefault(key, label) == label, f"{label} looks like another"
    return found


def name_of(named: dict[tuple[str, ...], str], line: Any) -> str:
    """The name of a line; of open markers that of the filled ones, with a word."""
    seen = look(line)
    for known, name in named.items():
        if seen == known:
            return name
        if seen[3] == OPEN and seen[:2] == known[:2]:
            return f"{name}, {OPEN}"
    return ""


def places(axes: Any, artist: Any, points: Any) -> np.ndarray:
    """The coordinates (n, 2) in units of the axes at which an artist draws some of its points."""
    shown = artist.get_transform().transform(np.asarray(points, float))
    return axes.transData.inverted().transform(shown)


def intervals(axes: Any) -> dict[str, list[tuple[float, ...]]]:
    """By name, where each line with error bars has its points, and the ends of their bars.

    Points are (x, y, lower end, upper end). A point whose bar has no length has both ends at y.
    """
    named, found = names(axes), {}
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer) and container.lines[0] is not None:
            line, _, (bars,) = container.lines
            ends = [places(axes, bars, segment) for segment in bars.get_segments()]
            points = places(axes, line, line.get_xydata())
            for end, point in zip(ends, points, strict=True):
                np.testing.assert_allclose(end[:, 0], point[0])
            rows = [(*p, *sorted(end[:, 1])) for p, end in zip(points, ends, strict=True)]
            found.setdefault(name_of(named, line), []).extend(rows)
    return found


def assert_intervals(
    axes: Any, wanted: dict[str, list[tuple[float, ...]]], within: float = 0.03
) -> None:
    """Assert that lines are those: place ``within`` a share, value, and the ends of its bar."""
    found = intervals(axes)
    assert found.keys() == wanted.keys()
    for name, points in wanted.items():
        np.testing.assert_allclose([p[1:] for p in found[name]], [p[1:] for p in points])
        np.testing.assert_allclose([p[0] for p in found[name]], [p[0] for p in points], rtol=within)


def whiskers(axes: Any) -> list[tuple[float, float, float]]:
    """The height, and from where to where each horizontal error bar without a point reaches."""
    found = []
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer) and container.lines[0] is None:
            (bars,) = container.lines[2]
            for (low, height), (high, _) in (places(axes, bars, s) for s in bars.get_segments()):
                found.append((float(height), *sorted([float(low), float(high)])))
    return found


def lines(axes: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The name, or ``""`` if no legend has it, and the points (n, 2) of each line."""
    named = names(axes)
    for line in axes.lines:
        yield name_of(named, line), places(axes, line, line.get_xydata())


def bars(axes: Any, upright: bool = False) -> dict[str, dict[str, tuple[float, float]]]:
    """By name and by the nearest tick's label, from where to where each bar reaches.

    Bars are in the order from top to bottom, or if they are upright from left to right.
    """
    named = names(axes)
    axis = axes.xaxis if upright else axes.yaxis
    ticks = dict(zip(axis.get_ticklocs(), map(text_of, axis.get_ticklabels()), strict=True))
    found: dict[str, dict[str, tuple[float, float]]] = {}
    drawn = [(bar.get_window_extent(), bar) for bar in axes.patches]
    for _, bar in sorted(drawn, key=lambda one: one[0].x0 if upright else -one[0].y0):
        (x0, y0), (x1, y1) = bar.get_bbox().get_points()
        middle, ends = ((x0 + x1) / 2, (y0, y1)) if upright else ((y0 + y1) / 2, (x0, x1))
        nearest = ticks[min(ticks, key=lambda place: abs(place - middle))]
        mine = found.setdefault(named[look(bar)], {})
        assert nearest not in mine, f"two bars at {nearest}"
        mine[nearest] = ends
    return found


def value_at(axes: Any, artist: Any, x: float, y: float) -> float:
    """The value whose colour an image or a mesh has at a place in units of the axes."""
    where = axes.transData.transform((x, y))
    event = MouseEvent("motion_notify_event", axes.figure.canvas, *where)
    return float(np.ravel(artist.get_cursor_data(event))[0])


def in_hex(colour: Any) -> str:
    """A colour as in `workbench.show.plots.COLOURS`, in small letters."""
    return to_hex(colour)


def text_of(text: Any) -> str:
    """The words of a text in one line."""
    return " ".join(text.get_text().split())


def titles(axes: Any) -> tuple[str, str]:
    """The titles of both axes, with their units."""
    return axes.get_xlabel(), axes.get_ylabel()


def assert_ticks_are_values(figure: Any) -> None:
    """Assert that the label of each tick that is a number, or a size, is the value at its place.

    So values read at ticks are those in units of the axes. Sizes are in bytes; 0 B is at 0.5.
    """
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
                text = label.get_text().replace("\N{MINUS SIGN}", "-").split()
                if text and set(text[0]) <= NUMBER and (not text[1:] or text[1] in BYTES):
                    value = float(text[0]) * BYTES[text[1]] or 0.5 if text[1:] else float(text[0])
                    np.testing.assert_allclose(place, value, rtol=1e-9, atol=1e-12)


@contextmanager
def settings_of_a_user() -> Iterator[None]:
    """A context in which matplotlib has the settings of some ``matplotlibrc``, and keeps them."""
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30}):
        yield
        assert mpl.rcParams["font.size"] == 30
