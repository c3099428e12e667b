"""The page of an animation in detail: limits, marks, ticks, the slider, the narrow layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.colors import sample_colorscale
from test_drawn_runs import FIELD, by_hand
from test_run_drawing import run_of

from miniapps.parameters import InputError
from miniapps.workbench.show import animation, page
from miniapps.workbench.show.animation import LINE, NOW, OTHERS, RunPanels, Shared
from miniapps.workbench.show.saved import SavedRun

SERIAL = {"driver": "serial", "odf": 1, "balancer": None, "lb_period": 0, "warmup": 0}
VERSIONS = {"python": "3.11", "mpi": "MPICH"}


def plain(part: Any) -> Any:
    """A part of a figure as dictionaries and lists."""
    return part.to_plotly_json()


# Runs ---------------------------------------------------------------------------------------------


def test_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a second run that is left out, and one of another problem beside the first."""
    runs = {"a": by_hand(), "b": by_hand(), "c": by_hand(state_hash="0")}
    monkeypatch.setattr(SavedRun, "read", lambda source: runs[source.name])
    monkeypatch.setattr(animation, "page", lambda shown: f"{len(shown)} runs")
    target = tmp_path / "a.html"
    for other, said in ((None, "1 runs"), (Path("b"), "2 runs")):
        assert animation.write_animation(Path("a"), other, target) == target
        assert target.read_text() == said
    with pytest.raises(InputError, match="--compare c: must have the same final state"):
        animation.write_animation(Path("a"), Path("c"), target)


def test_title_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a page that has the name of the second run."""
    monkeypatch.setattr(animation, "page_of", lambda figure, *more: more)
    monkeypatch.setattr(animation, "animation", lambda runs: None)
    runs = [by_hand(versions=VERSIONS), by_hand(app="pic", problem={"size": 9, "k": 1})]
    columns, named, title = animation.page(runs)
    assert (columns, named) == (2, "miniapps: jacobi2d, size 4x3")
    assert title.replace("<br>", " ").startswith("jacobi2d: size 4x3; Abacus, 4 cores <span")
    assert title.endswith(">python 3.11</span>")


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"time_tile": 2}, None),
        ({"app": "pic"}, "app"),
        ({"problem": {"size": [4, 3], "boundary": "zero"}}, "problem"),
        ({"state_hash": "0"}, "final state"),
    ],
)
def test_runs_that_can_be_compared(more: Any, what: str | None) -> None:
    """Catches runs of two problems beside each other, and a refusal without a reason."""
    one, other = by_hand(), by_hand(**more)
    if what is None:
        animation.check_same(one, other, Path("b"))
        return
    with pytest.raises(InputError, match=f"--compare b: must have the same {what}"):
        animation.check_same(one, other, Path("b"))


# Layout -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_layout_of_a_page() -> None:
    """Catches texts over each other, panels of other heights, and a scale that is not from 0."""
    run = by_hand(versions=VERSIONS)
    short = by_hand(**SERIAL, pes=1, lb=[])
    figure = animation._page([short, run])
    layout = figure.layout
    said = [note.text for note in layout.annotations]
    assert said[0] == "jacobi2d --driver serial --steps 7" and said[1].count("<br>") == 1
    assert {note.font.size for note in layout.annotations} == {12}
    lines = layout.title.text.count("<br>") + 1 + 3
    assert layout.title.text.count("<br>") == 1
    title = {"font": {"size": 14}, "y": 1, "yanchor": "top", "pad": {"t": 20}}
    assert plain(layout.title) == {"text": layout.title.text, **title}
    assert (layout.width, layout.height) == (1250, 1000 + 17 * lines)
    assert plain(layout.margin) == {"l": 80, "r": 190, "t": 30 + 17 * lines, "b": 120}
    assert (layout.showlegend, layout.barmode) == (False, "overlay")
    bar = plain(layout.coloraxis.colorbar)
    title = {"text": "block [ms per step]", "side": "right"}
    assert bar == {"title": title, "x": 1.07, "y": 0.88, "len": 0.26}
    assert layout.coloraxis.cmin == 0 and layout.coloraxis.colorscale
    bar = plain(layout.coloraxis2.colorbar)
    title = {"text": "u [K]", "side": "right"}
    assert bar == {"title": title, "x": 1.07, "y": 0.52, "len": 0.36}
    for column in (1, 2):
        places = [figure.get_subplot(row, column) for row in (1, 2, 3, 4)]
        heights = [np.ptp(place.yaxis.domain) for place in places]
        assert heights == pytest.approx([0.76 * part for part in (0.3, 0.4, 0.15, 0.15)])
        tops = [place.yaxis.domain[1] for place in places]
        assert tops == pytest.approx([1, 0.692, 0.308, 0.114])
        assert places[0].xaxis.domain == pytest.approx([(0, 0.43), (0.57, 1)][column - 1])
        for place in places:
            for axis in (place.xaxis, place.yaxis):
                assert (axis.ticks, axis.ticklen) == ("outside", 6)


@pytest.mark.long
def test_names_of_quantities_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a long name that is cut off, or broken early, and a rule that is not said."""
    runs = [replace(by_hand(), quantity="temperature of the whole field"), by_hand()]
    assert len(runs[0].quantity) == 30
    text = animation._page(runs).layout.coloraxis2.colorbar.title.text
    assert text == "temperature of the whole field"
    longer = [replace(run, quantity="temperature of the whole field!") for run in runs]
    assert "<br>" in animation._page(longer).layout.coloraxis2.colorbar.title.text
    rule = "; grey: all but the 4 most loaded blocks"
    for most, said in ((4, ""), (3, rule.replace("4", "3"))):
        monkeypatch.setattr(animation, "BLOCKS", most)
        assert animation._column_title(runs[1]) == runs[1].command() + said


def test_slider_and_buttons() -> None:
    """Catches periods under another name, and a page that animates what cannot be seen."""
    figure = go.Figure()
    animation._add_slider(figure, [(0, 1), (1, 3)])
    at_once = {"mode": "immediate", "transition": {"duration": 0}}
    show = at_once | {"frame": {"duration": 0, "redraw": True}}
    play = at_once | {"fromcurrent": True, "frame": {"duration": 400, "redraw": True}}
    (slider,), (menu,) = figure.layout.sliders, figure.layout.updatemenus
    assert plain(slider)["steps"] == [
        {"method": "animate", "args": [[str(k)], show], "label": label}
        for k, label in enumerate(("0", "1 to 2"))
    ]
    assert plain(slider.pad) == {"t": 50, "l": 150}
    found = plain(menu)
    buttons = found.pop("buttons")
    assert [(one["label"], one["args"]) for one in buttons] == [
        ("play", [None, play]),
        ("stop", [[None], show]),
    ]
    assert found == {
        "type": "buttons",
        "direction": "left",
        "x": 0,
        "y": 0,
        "pad": {"t": 85, "r": 10},
        "xanchor": "left",
        "yanchor": "top",
    }


def drawn_by_hand(*commands: str) -> Any:
    """A figure of as many columns as commands, with what the narrow layout reads of it."""

    def axis(name: str) -> Any:
        return SimpleNamespace(plotly_name=name, title=SimpleNamespace(text="step " * 10 + name))

    def subplot(row: int, column: int) -> Any:
        return SimpleNamespace(xaxis=axis(f"x{row}{column}"), yaxis=axis(f"y{row}{column}"))

    notes = [SimpleNamespace(text=text) for text in (*commands, "another")]
    return SimpleNamespace(layout=SimpleNamespace(annotations=notes), get_subplot=subplot)


def test_narrow_layout() -> None:
    """Catches panels over each other or over texts, in the right order from top to bottom."""
    long = "pic --driver charm -n 2 --odf 4 --balancer Greedy<br>--steps 7"
    found = page.narrow(drawn_by_hand("pic --steps 7", long), 2, "a<br>b")
    height = 2 * 62 + 25 + 40 + 2 * 818  # of both bars, both commands and all panels
    wanted: dict[str, Any] = {
        "font.size": 10,
        "title.text": "a<br>b",
        "title.font.size": 12,
        "margin.l": 56,
        "margin.r": 16,
        "margin.b": 190,
        "margin.t": 60,
        "height": height + 60 + 190,
        "sliders[0].pad.l": 0,
        "sliders[0].pad.t": 40,
        "updatemenus[0].pad.t": 125,
    }
    for name, y in (("coloraxis", 1), ("coloraxis2", 1 - 62 / height)):
        bar = {"orientation": "h", "x": 0.5, "xanchor": "center", "len": 1, "thickness": 12}
        bar |= {"y": y, "yanchor": "top", "title.side": "top"}
        wanted |= {f"{name}.colorbar.{key}": value for key, value in bar.items()}
    texts = ["pic --steps 7", "pic --driver charm -n 2 --odf 4<br>--balancer Greedy --steps 7"]
    for column, (text, begin) in enumerate(zip(texts, (149, 1007), strict=True)):
        note = {"text": text, "x": 0.5, "y": 1 - (begin - 4) / height}
        wanted |= {f"annotations[{column}].{key}": value for key, value in note.items()}
        tops = [begin, begin + 192, begin + 484, begin + 632]
        for row, (top, tall) in enumerate(zip(tops, (130, 230, 110, 110), strict=True), 1):
            wanted[f"x{row}{column + 1}.domain"] = [0, 1]
            ends = [1 - (top + tall) / height, 1 - top / height]
            wanted[f"y{row}{column + 1}.domain"] = pytest.approx(ends)
        title = "step " * 8 + "step<br>step " + f"x4{column + 1}"
        wanted[f"x4{column + 1}.title.text"] = title
    assert {**found} == {**wanted}


# Marks --------------------------------------------------------------------------------------------


def curve(values: list[float], steps: list[int], unit: str = " ms") -> list[Any]:
    """The traces of a curve below 2."""
    traces: list[Any] = []
    figure = SimpleNamespace(add_trace=lambda trace, row, col: traces.append(trace))
    panels: Any = SimpleNamespace(figure=figure, number=1)
    RunPanels._add_curve(panels, np.array(steps), np.array(values), 3, 2.0, unit)
    return traces


@pytest.mark.parametrize(
    ("steps", "side"), [([10, 20, 27, 40], "right"), ([10, 25, 27, 40], "left"),
                        ([10, 27, 30, 40], "left")],
)  # fmt: skip
def test_marks_of_curves(steps: list[int], side: str) -> None:
    """Catches a value at the limit that is marked, a number beside another mark or cut off."""
    line, marks = curve([2, 9, 3, 1], steps)
    assert line.mode == "lines" and plain(line.line) == LINE
    assert (list(marks.x), list(marks.y)) == (steps[1:3], [2, 2])
    assert list(marks.text) == ["9 ms", ""] and list(marks.customdata) == [9, 3]
    assert marks.textposition == f"middle {side}" and marks.marker.size == 9
    assert len(curve([2, 1, 2, 1], steps)) == 1
    assert list(curve([1, 9, 1, 1], steps, "")[1].text) == ["9"]


def test_marks_of_bars() -> None:
    """Catches a bar at the limit that is marked, and a length of another PE."""
    panels: Any = SimpleNamespace(totals=np.array([[1.0], [2.0], [3.5]]))
    marks = RunPanels._beyond(panels, 0, 2.0)
    assert (list(marks.x), list(marks.y), list(marks.text)) == ([2], ["PE 2"], ["3.5 ms"])
    assert marks.marker.size == 10
    mark = RunPanels._mark(panels, 7, 2.5)
    assert (list(mark.x), list(mark.y)) == ([7, 7], [0, 2.5]) and plain(mark.line) == NOW


@pytest.mark.long
def test_panels_of_the_first_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches axes without titles at first, curves in another unit, marks where periods end."""
    units = {}

    def note(_: Any, steps: Any, values: Any, row: int, top: float, unit: str) -> None:
        units[row] = unit

    monkeypatch.setattr(RunPanels, "_add_curve", note)
    figure = animation.animation([by_hand()])
    assert units == {animation.IMBALANCE: "", animation.STEP_TIME: " ms"}
    assert figure.layout.xaxis.title.text == "computing [ms per step], imbalance 1.400"
    assert figure.layout.xaxis2.title.text == "x [cells], state after 4 steps"
    for marks in (2, 3):
        assert [list(frame.data[marks].x) for frame in figure.frames] == [[4, 4], [5, 5], [7, 7]]


def test_bars_of_three_pes() -> None:
    """Catches a part of a bar that begins at the end of another PE's, and limits of other bars."""
    loads, pes = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 2, 1])
    run = SimpleNamespace(record={"pes": 3})
    panels: Any = SimpleNamespace(run=run, shown=range(4), others=0, _parts=lambda _: (loads, pes))
    assert list(RunPanels._bars(panels, 0, 4.0).base) == [0, 0, 0, 2]
    panels.totals = np.array([[1.0, 4.0, 9.0], [2.0, 3.0, 1.0]])
    assert RunPanels.longest.fget(panels) == 1.5 * 4


def test_the_first_thumbnail_is_shown_before_it() -> None:
    """Catches the last thumbnail before the first step."""
    panels: Any = SimpleNamespace(run=by_hand())
    found = [RunPanels._thumbnail(panels, (0, end))[1] for end in (3, 4, 10, 11)]
    assert found == [4, 4, 4, 11]


@pytest.mark.long
def test_line_of_a_domain_with_one_axis() -> None:
    """Catches values beside their cells, and a limit that cuts them off."""
    fields = FIELD[:, :1].T.astype(np.float32)
    run = replace(by_hand(extent=[8.0]), thumbnails=fields, thumbnail_steps=np.array([11]))
    figure = animation.animation([run])
    line = figure.frames[0].data[1]
    assert (line.mode, line.x0, line.dx, list(line.y)) == ("lines", 1, 2, [1, 4, 7, 11])
    axis = figure.layout.yaxis2
    assert axis.title.text == "u [K]" and axis.range == pytest.approx((0.5, 11.5))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([5, 70000], np.uint32),
        ([3, 300], np.uint16),
        ([0, 7], np.uint8),
        ([-3, 5], np.float32),
        ([0.25, 7], np.float32),
    ],
)
def test_thin_values(values: list[float], dtype: Any) -> None:
    """Catches numbers that take more room than they need, counts that wrap, values that are cut."""
    found = animation.thin(np.array([values], np.float32))
    assert found.dtype == dtype and found.tolist() == [values]


# Limits -------------------------------------------------------------------------------------------


def column_of(longest: float, loads: Any, tops: list[float], shown: Any, sides: Any) -> Any:
    """What the limits that runs share depend on."""
    run = SimpleNamespace(shown=np.array(shown), sides=sides, unit="cells", quantity="u [K]")
    return SimpleNamespace(longest=longest, loads=np.array(loads), tops=tops, run=run)


def test_limits_that_runs_share() -> None:
    """Catches a run that is cut off because the other one has smaller values."""
    low = column_of(1.0, [[1.0, 2.0], [0.5, 3.0]], [5.0, 1.0], [[-1.0, 2.0]], (4.0, 3.0))
    high = column_of(2.0, [[0.5, 4.0], [1.0, 0.5]], [4.0, 7.0], [[0.0, np.nan, 6.0]], (4.0, 3.0))
    for columns in ([low, high], [high, low]):
        shared = Shared(columns)
        assert shared.longest == pytest.approx(2.06) and shared.heights == [5, 7]
        assert (shared.darkest, shared.brightest) == (-1, 6)
        assert shared.state_axis == {"title": "y [cells]"}
    loads = [[2.0] * 50, [1.0] * 50]
    for largest, all_shown in ((2.0, True), (3.0, True), (9.0, False)):
        loads[0][7] = largest
        few = column_of(1.0, [[1.0]], [1.0], [0.0], (4.0, 3.0))
        many = column_of(1.0, loads, [1.0], [0.0], (4.0, 3.0))
        for columns in ([few, many], [many, few]):
            shared = Shared(columns)
            assert shared.heaviest == min(largest, 3.0) and shared.all_shown == all_shown


@pytest.mark.parametrize(
    ("shown", "limits"), [([0.0, 10.0], (-0.5, 10.5)), ([3.0, 3.0], (2.0, 4.0))]
)
def test_limits_of_a_line(shown: list[float], limits: tuple[float, float]) -> None:
    """Catches a line along the edge of its panel, or on an axis of no length."""
    shared = Shared([column_of(1.0, [[1.0]], [1.0], shown, (4.0,))])
    assert shared.state_axis["title"] == "u [K]"
    assert shared.state_axis["range"] == pytest.approx(limits)


@pytest.mark.long
def test_axes_that_runs_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches curves that are cut off, ticks at parts of steps, and axes of one run only."""
    spans = []
    monkeypatch.setattr(animation, "whole_tick", lambda span: spans.append(span) or 5)
    other = run_of([[2, 3]], count=12, **SERIAL, extent=[8.0, 9.0])
    other = replace(other, rounds=np.array([[3, 4], [7, 20]]))  # of which 24 and 36 ms are computed
    runs = [by_hand(), other]
    figure = animation.animation(runs)
    layout = figure.layout
    assert layout.xaxis.range == layout.xaxis2.range == pytest.approx((0, 1.03 * 9))
    for row, top in ((3, 1.05 * 7 / 5), (4, 1.05 * 20)):
        for column in (1, 2):
            place = figure.get_subplot(row, column)
            assert place.yaxis.range == pytest.approx((0, top), rel=1e-6)
            assert (place.xaxis.range, place.xaxis.tick0) == ((3, 27), 0)
            assert place.xaxis.dtick == 5
    assert {*spans} == {27 - 3}
    assert [figure.get_subplot(2, n).xaxis.range for n in (1, 2)] == [(0, 4), (0, 8)]
    assert [figure.get_subplot(2, n).yaxis.title.text for n in (1, 2)] == ["y [cells]"] * 2
    assert [list(figure.get_subplot(1, n).yaxis.categoryarray) for n in (1, 2)] == [
        ["PE 1", "PE 0"],
        ["PE 0"],
    ]
    (bar,) = [one for one in figure.data if one.type == "scatter" and one.mode == "markers"]
    assert (list(bar.x), list(bar.y), list(bar.marker.color)) == ([None], [None], [0])
    assert bar.marker.coloraxis == "coloraxis" and bar.xaxis == "x"
    assert layout.coloraxis.colorbar.title.text == "block [ms per step]"
    assert [step.label for step in layout.sliders[0].steps] == ["4", "5 to 6", "7 to 10"]
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"]
    assert all(len(frame.data) == len(frame.traces) == 10 for frame in figure.frames)
    assert len({*figure.frames[0].traces}) == 10
    assert [list(frame.data[5].x) for frame in figure.frames] == [[6], [6], [1.8]]
    assert plain(layout.coloraxis2)["cmin"] == -14 and layout.coloraxis2.cmax == 14


@pytest.mark.long
def test_lines_at_load_balancing_steps() -> None:
    """Catches a line in one panel only, one that is not explained, or explained without any."""
    figure = animation.animation([by_hand()])
    shapes = [(shape.x0, shape.yref.split()[0]) for shape in figure.layout.shapes]
    assert sorted(shapes) == sorted((step, axis) for step in (4, 5, 7) for axis in ("y3", "y4"))
    assert {shape.line.width for shape in figure.layout.shapes} == {1}
    place = figure.get_subplot(4, 1)
    assert place.xaxis.title.text == "step (orange: shown above, dotted: load balancing)"
    assert place.yaxis.title.text == "step [ms]"
    assert figure.get_subplot(3, 1).yaxis.title.text == "imbalance"
    figure = animation.animation([by_hand(lb=[])])
    assert figure.get_subplot(4, 1).xaxis.title.text == "step (orange: shown above)"


@pytest.mark.long
def test_bars_of_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches blocks that are lost or on another PE, and another look of the part of all others."""
    monkeypatch.setattr(animation, "BLOCKS", 2)
    loads = np.array([[0.25], [4.0], [0.5], [8.0]])
    figure = animation.animation([run_of(loads, [0, 0, 1, 1])])
    bars = figure.frames[0].data[0]
    assert list(bars.x) == [4, 8, 0.25, 0.5]
    assert list(bars.y) == ["PE 0", "PE 1", "PE 0", "PE 1"]
    np.testing.assert_allclose(np.array(bars.base, float), [0, 0, 4, 8])
    colours = sample_colorscale(animation.SCALE, [0.5, 1.0])
    assert list(bars.marker.color) == [*colours, OTHERS, OTHERS]
    first = figure.data[0]
    assert list(first.customdata) == ["block 1 (1)", "block 3 (3)", "other blocks", "other blocks"]
    assert (first.marker.line.width, first.textposition) == (0, "none")
    monkeypatch.setattr(animation, "BLOCKS", 4)
    assert animation.animation([run_of(loads)]).data[0].marker.line.width == 0.5


@pytest.mark.slow
def test_a_block_beyond_the_scale() -> None:
    """Catches a colour of no meaning, and a scale or an axis that does not say that it ends below.

    A colour that is scaled anew in each frame, and a mark at another step.
    """
    loads = np.full((1, 100), 2.0)
    loads[0, 7] = 50
    figure = animation.animation([run_of(loads)], most=200)
    assert figure.layout.coloraxis.cmax == 3
    assert figure.layout.coloraxis.colorbar.title.text.endswith("<br>yellow: or more")
    yellow, other = sample_colorscale(animation.SCALE, [1.0, 2 / 3])
    assert figure.frames[7].data[0].marker.color == (yellow,)
    assert figure.frames[6].data[0].marker.color == (other,)
    beyond = [frame.data[4] for frame in figure.frames]
    longest = figure.layout.xaxis.range[1]
    assert [(*beyond[7].x, *beyond[7].y, *beyond[7].text)] == [(longest, "PE 0", "50 ms")]
    assert not any(marks.x for marks in beyond[:7] + beyond[8:])
    curves = [one for one in figure.data if one.type == "scatter"]
    (marks,) = [one for one in curves if one.marker.symbol == "triangle-up"]
    top = figure.get_subplot(animation.STEP_TIME, 1).yaxis.range[1]
    assert (list(marks.x), list(marks.y), list(marks.text)) == ([7], [top], ["50 ms"])
