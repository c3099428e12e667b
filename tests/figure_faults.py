"""What is wrong with a matplotlib figure, from the artists that it draws and not its pixels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any
from unittest import mock

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.lines import Line2D
from matplotlib.text import Text

from miniapps.workbench.show.marks import BEYOND

WHOLE = ("step", "block", "blocks moved", "PE", "PEs", "ODF: blocks per PE")  # labels of axes
NEAR = 1e-9  # of an axis: what lies so close beyond its limits is not cut off


def faults(figure: Any, named: Sequence[str]) -> list[str]:
    """What is wrong: a line for each fault, which begins with its kind.

    ``named``: words that the texts of the figure must contain.
    """
    texts = drawn_texts(figure)
    said = " ".join(" ".join(text.get_text() for text in texts).split())
    found = [f"unnamed: {word}" for word in named if word not in said]
    found += [f"raw: {word} is a key" for word in re.findall(r"\b[a-z]+_\w+", said)]
    if figure.get_facecolor()[3] < 1:
        found.append("transparent: on a dark page its text cannot be read")
    found += _misplaced(figure, texts)
    for axes in figure.axes:
        found += _fractional(axes, texts)
        found += _unmarked(axes)
        found += _crossed(axes)
        found += _unexplained(figure, axes)
    return found


def drawn_texts(figure: Any) -> list[Any]:
    """Every text that the figure draws: not labels of ticks outside the limits of an axis."""
    found: dict[int, Any] = {}
    draw = Text.draw

    def noted(text: Any, renderer: Any, *more: Any, **named: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            found[id(text)] = text
        draw(text, renderer, *more, **named)

    with mock.patch.object(Text, "draw", noted):
        FigureCanvasAgg(figure).draw()
    return list(found.values())


def _misplaced(figure: Any, texts: Sequence[Any]) -> Iterator[str]:
    """Texts that lie outside the canvas, or over another one; a pixel of either is allowed."""
    boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in texts]
    canvas = figure.bbox
    for said, box in boxes:
        if not (canvas.x0 <= box.x0 and box.x1 <= canvas.x1):
            yield f"outside: {said!r} horizontally"
        if not (canvas.y0 <= box.y0 and box.y1 <= canvas.y1):
            yield f"outside: {said!r} vertically"
    for (one, first), (other, second) in combinations(boxes, 2):
        if first.overlaps(second):
            yield f"overlapping: {one!r} and {other!r}"


def _fractional(axes: Any, texts: Sequence[Any]) -> Iterator[str]:
    """Ticks between integers on axes of steps, blocks and PEs."""
    drawn = {id(text) for text in texts}
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_label_text() not in WHOLE:
            continue
        for label in axis.get_ticklabels():
            digits = label.get_text().replace("\N{MINUS SIGN}", "")
            if id(label) in drawn and not digits.isdigit():
                yield f"fractional: {label.get_text()} on the axis {axis.get_label_text()}"


def _crossed(axes: Any) -> Iterator[str]:
    """Labels of bars and points that leave their axes, or that a straight line goes through."""
    grids = [*axes.xaxis.get_gridlines(), *axes.yaxis.get_gridlines()]
    straight = [line for line in axes.lines if not has_data(axes, line)]
    for text in axes.texts:
        if getattr(text, "xycoords", "data") != "data":
            continue
        box, drawn = text.get_window_extent().padded(-1), axes.get_window_extent()
        if box.x0 < drawn.x0 or box.x1 > drawn.x1 or box.y0 < drawn.y0 or box.y1 > drawn.y1:
            yield f"crossed: {text.get_text()!r} by the edge of its axes"
        lines = [line for line in (*grids, *straight) if line.get_visible()]
        if not text.get_bbox_patch() and any(map(box.overlaps, map(extent, lines))):
            yield f"crossed: {text.get_text()!r} by a line"


def extent(line: Any) -> Any:
    """Where a straight line is drawn."""
    return line.get_path().transformed(line.get_transform()).get_extents()


def has_data(axes: Any, line: Any) -> bool:
    """Whether both coordinates of a line are data, also if it is drawn a little beside them."""
    return bool(line.get_transform().contains_branch(axes.transData))


def _unexplained(figure: Any, axes: Any) -> Iterator[str]:
    """Lines that are not solid, and crosses, that no legend explains."""
    legends = [legend for legend in (*figure.legends, axes.get_legend()) if legend]
    known = {_look(line) for legend in legends for line in legend.findobj(Line2D)}
    for line in axes.lines:
        if line.get_gid() != BEYOND and _look(line) and _look(line) not in known:
            yield f"unexplained: a line {_look(line)} in {axes.get_title() or axes}"


def _look(line: Any) -> str:
    """What a reader sees of a line; empty if it is solid, or has only a marker."""
    cross = "x" if line.get_marker() == "x" else ""
    style = str(line.get_linestyle())
    return cross or ("" if style in ("-", "None") else style)


def _unmarked(axes: Any) -> Iterator[str]:
    """Values beyond the limits of an axis, or of a colour scale, that have no mark."""
    marks = [line.get_xydata() for line in axes.lines if line.get_gid() == BEYOND]
    marked = {(float(x), float(y)) for data in marks for x, y in data}
    low, high = np.transpose([np.sort(axes.get_xlim()), np.sort(axes.get_ylim())])
    margin = NEAR * (high - low)
    for points, may_have_marks in _points(axes):
        for point in points[((points < low - margin) | (points > high + margin)).any(axis=1)]:
            x, y = (float(value) for value in np.clip(point, low, high))
            if not (may_have_marks and (x, y) in marked):
                yield f"unmarked: {tuple(point.tolist())} in {axes.get_title() or axes}"
    for mesh in [*axes.collections, *axes.images]:
        if mesh.colorbar is None or not isinstance(mesh, QuadMesh):
            continue
        if mesh.get_array().max() > mesh.norm.vmax and mesh.colorbar.extend != "max":
            yield f"unmarked: {mesh.get_array().max()} beyond the colour bar"


def _points(axes: Any) -> Iterator[tuple[np.ndarray, bool]]:
    """The data (n, 2) of the lines, intervals and bars of axes; and whether they may have marks."""
    for line in axes.lines:
        if line.get_gid() != BEYOND and has_data(axes, line):
            data = line.get_xydata()
            yield data[np.isfinite(data).all(axis=1)], True
        elif line.get_transform() == axes.get_yaxis_transform():  # horizontal, over all of x
            yield np.array([[axes.get_xlim()[0], y] for y in line.get_ydata()], float), False
    for collection in axes.collections:
        if isinstance(collection, LineCollection):
            for segment in collection.get_segments():
                yield segment[np.isfinite(segment).all(axis=1)], False
    for container in axes.containers:
        for bar in getattr(container, "patches", ()):
            yield bar.get_bbox().get_points(), False
