"""Figures and traces of runs in detail: limits, ticks, marks; what is drawn is read elsewhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import support
from drawn import in_hex, settings_of_a_user
from matplotlib.layout_engine import ConstrainedLayoutEngine
from test_drawn_runs import FIELD, by_hand

from miniapps.drivers.timing import COMPUTE, PACK, ROW, SLICE, SYNC
from miniapps.parameters import InputError
from miniapps.workbench.show import captions, marks, plots, trace
from miniapps.workbench.show.marks import BEYOND, blank_figure, styled
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.show.saved import SavedRun


def run_of(loads: Any, pes: Any = None, count: int = 1, **more: Any) -> SavedRun:
    """A run with those ms per step (blocks, rounds), on those PEs, in rounds of ``count`` steps.

    Without ``pes`` each block has a PE of its own. ``more``: other values of the record.
    """
    ms = np.asarray(loads, float)
    blocks, rounds = ms.shape
    rows = np.zeros(ms.size, ROW)
    rows["block"], rows["round"] = np.divmod(np.arange(ms.size), rounds)
    rows["pe"] = rows["block"] if pes is None else np.ravel(pes)
    rows["compute_s"] = ms.ravel() * count / 1e3
    steps = np.transpose([np.arange(rounds) * count, np.full(rounds, count)])
    given = {"pes": int(rows["pe"].max()) + 1, "lb": [], "blocks": [blocks]} | more
    return replace(by_hand(**given), rounds=steps, wall_s=ms.max(axis=0) * count / 1e3, rows=rows)


def panel(draw: Callable[..., None], *given: Any) -> Any:
    """Axes of 8 by 6 inches in which something is drawn."""
    axes = blank_figure(8, 6).subplots()
    draw(axes, *given)
    return axes


def said(axes: Any) -> list[str]:
    """What the legend of axes says; nothing without one."""
    legend = axes.get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


def has_integer_ticks(axis: Any) -> bool:
    """Whether an axis has ticks at integers only, however short it is."""
    return all(float(tick).is_integer() for tick in axis.get_major_locator().tick_values(0, 1))


# Elements -----------------------------------------------------------------------------------------


def test_a_users_settings_change_no_figure() -> None:
    """Catches a figure in a user's style, one without its own settings, settings that are lost."""
    with settings_of_a_user():
        backend = mpl.rcParams["backend"]
        with styled(**{"axes.grid": True}):
            assert (mpl.rcParams["font.size"], mpl.rcParams["axes.grid"]) == (10, True)
            assert mpl.rcParams["backend"] == backend


def test_layout_is_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches texts that overlap, since ticks have changed with the size of the axes."""
    passes: list[Any] = []
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda _, figure: passes.append(figure))
    figure = blank_figure(3, 2)
    figure.get_layout_engine().execute(figure)
    assert passes == [figure, figure] and tuple(figure.get_size_inches()) == (3, 2)


def test_pixels_of_a_file(tmp_path: Path) -> None:
    """Catches a figure in another format than its suffix says, or with fewer pixels."""
    written = marks.write(blank_figure(2, 1), tmp_path / "a.png").read_bytes()
    assert written.startswith(b"\x89PNG")
    assert np.frombuffer(written[16:24], ">u4").tolist() == [300, 150]


@pytest.mark.parametrize(
    ("values", "top"),
    [
        ([2.0, 4.0], 4.2),
        ([1.0] * 10 + [1.5], 1.575),  # as far above the others as an axis reaches
        ([1.0] * 10 + [1.6], 1.5),
        ([0.0] * 20 + [5.0], 5.25),  # of which an axis to 0 shows nothing
        ([0.0, 0.0], 0.0),
    ],
)
def test_upper_limit(values: list[float], top: float) -> None:
    """Catches a curve that is cut off, and one that an outlier presses flat."""
    assert marks.upper_limit(np.array(values)) == pytest.approx(top)


def test_marks_of_values_beyond_the_axis() -> None:
    """Catches a value at the limit that is marked, marks under the axes, dots of many points."""
    values = np.ones(41)
    values[5], values[7] = 3, 2
    axes = blank_figure(3, 2).subplots()
    marks.draw_curve(axes, np.arange(41), values, 2.0, color="red", label="a")
    curve, mark = axes.lines
    assert (curve.get_marker(), curve.get_color(), curve.get_label()) == ("None", "red", "a")
    assert mark.get_xydata().tolist() == [[5, 2]]
    assert (mark.get_marker(), mark.get_linestyle(), mark.get_color()) == ("^", "None", "red")
    assert (mark.get_clip_on(), mark.get_zorder(), mark.get_markersize()) == (False, 3, 4)
    assert mark.get_gid() == BEYOND
    axes = blank_figure(3, 2).subplots()
    marks.draw_curve(axes, np.arange(40), np.ones(40), 1.0, color="red")
    assert [line.get_marker() for line in axes.lines] == ["."]


def test_end_of_curves() -> None:
    """Catches marks without a name or with several, and limits that cut off."""
    axes = blank_figure(8, 6).subplots()
    axes.plot([0, 30], [1, 1], label="PE 0")
    marks.finish_curves(axes, 2.0, 3.14159, [10, 20, 25])
    assert said(axes) == ["PE 0", "load balancing", "beyond the axis, up to 3.14 ms"]
    dotted = axes.lines[1:]
    assert [line.get_xdata() for line in dotted] == [[10, 10], [20, 20], [25, 25]]
    look = [(line.get_color(), line.get_linewidth(), line.get_linestyle()) for line in dotted]
    assert look == [("black", 0.5, ":")] * 3
    legend = axes.get_legend()
    beyond = legend.legend_handles[-1]
    assert (beyond.get_color(), beyond.get_marker(), beyond.get_markersize()) == ("#555555", "^", 4)
    assert beyond.get_linestyle() == "None" and legend._ncols == 3
    place = legend.get_bbox_to_anchor().transformed(axes.transAxes.inverted())
    assert tuple(place.p0) == pytest.approx((0.5, -0.16))
    assert axes.get_ylim() == (0, 2) and has_integer_ticks(axes.xaxis)


def test_end_of_curves_without_marks() -> None:
    """Catches an empty legend, a value at the limit that is marked, an axis without a length."""
    axes = blank_figure(8, 6).subplots()
    marks.finish_curves(axes, 0.0, 0.0)
    assert axes.get_ylim() == (0, 1) and axes.get_legend() is None
    axes.plot([0, 30], [1, 2], label="PE 0")
    marks.finish_curves(axes, 2.0, 2.0)
    assert said(axes) == ["PE 0"]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 40, range(0, 41, 5)),
        (0, 16, range(0, 17, 2)),
        (0, 90, range(0, 91, 10)),
        (0, 1, [0, 1]),
        (-0.5, 0.5, [-1, 0, 1]),  # one block
    ],
)
def test_integer_ticks(low: float, high: float, ticks: Any) -> None:
    """Catches ticks between steps, blocks or PEs, and at numbers such as 6, 12 and 18."""
    axes = blank_figure(8, 6).subplots()
    marks.integer_ticks(axes.xaxis, axes.yaxis)
    for axis in (axes.xaxis, axes.yaxis):
        assert axis.get_major_locator().tick_values(low, high).tolist() == [*ticks]


# Captions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ([8], "size 8x9"),
        ([8, 8, 16], "size 8x9 to 16x9"),
        ([8, 16, 16], "size 8x9 to 16x9"),
        ([8, 16, 32], "size 8x9 to 32x9"),
        ([8, 8], "size 8x9"),
        ([8, 16, 8], "size 8x9"),
    ],
)
def test_text_of_problems(sizes: list[int], text: str) -> None:
    """Catches a range that lacks its end, or one of problems that are alike."""
    assert captions.problem_text("jacobi2d", [{"size": [n, 9]} for n in sizes]) == text


def test_what_is_said_of_a_problem() -> None:
    """Catches defaults and tiles that are said, an unsaid size, and the names of a record."""
    usual = {"size": [1024, 1024], "boundary": "heated", "initial": "ones", "tolerance": 0.0}
    several = [
        (usual, "size 1024x1024"),
        (usual | {"time_tile": 5}, "size 1024x1024"),
        (usual | {"boundary": "zero"}, "size 1024x1024, boundary zero"),
        (usual | {"size": [7, 5], "tolerance": 1e-9}, "size 7x5, tolerance 1e-09"),
        (usual | {"check_every": 3}, "size 1024x1024, check every 3"),
    ]
    for problem, text in several:
        assert captions.problem_text("jacobi2d", [problem]) == text
    both = [usual, usual | {"initial": "noise"}]
    assert captions.problem_text("jacobi2d", both) == "size 1024x1024, initial ones to noise"
    assert captions.problem_text("pic", [{"size": 96, "k": 2}]) == "size 96, k 2"
    refined = {"size": [1000, 1000], "refinement": [30, 20]}
    assert captions.problem_text("amr", [refined]) == "size 1000x1000, refinement 30x20"
    atoms = {"lattice": [10, 10, 10], "cells": None, "input": "a.xyz"}
    assert captions.problem_text("leanmd", [atoms]) == "input a.xyz"
    cells = atoms | {"cells": [4, 5, 6], "input": None}
    assert captions.problem_text("leanmd", [cells]) == "cells 4x5x6"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([8, 9], "8x9"),
        ((7,), "7"),
        ((0.5, 3), "0.5 3"),
        ([], ""),
        (None, ""),
        (True, "yes"),
        (False, "no"),
        (1 / 3, "0.333333"),
        (1234567, "1234567"),
        ("noise", "noise"),
    ],
)
def test_text_of_a_parameter(value: Any, text: str) -> None:
    """Catches a box that reads as a number of cells, digits that nobody reads, an exponent."""
    assert captions.value_text(value) == text
    assert captions._is_extent(value) == ("x" in text or value == (7,))


def test_text_of_a_command() -> None:
    """Catches an option that is lost, one that is the default, and a wrong run that looks right."""
    given = {"app": "pic", "driver": "charm", "pes": 2, "odf": 2, "warmup": 3, "steps": 7}
    given |= {"balancer": "Greedy", "lb_period": 5, "lb_first": 1, "problem": {"size": 96}}
    record = support.whole_record(given, 0.01)
    line = "--driver charm -n 2 --odf 2 --balancer Greedy --lb-period 5 --lb-first 1"
    assert captions.command_text(record) == f"pic {line} --steps 7 --warmup 3"
    record |= {"driver": "serial", "pes": 1, "odf": 1, "balancer": None, "lb_period": 0}
    record |= {"warmup": 0, "valid": False, "lb_first": None}
    assert captions.command_text(record) == "pic --driver serial --steps 7 (NOT VALID)"
    title = captions.run_title(record, 140)
    assert title == "pic --driver serial --steps 7 (NOT VALID)\nsize 96; Abacus, 4 cores"


def test_lines_that_just_fit() -> None:
    """Catches a line that is broken early, or between an option or a word and its number."""
    assert captions.wrapped("a, bbb cccc", 8) == "a,\nbbb cccc"
    assert captions.wrapped("abc de-fgh", 7) == "abc\nde-fgh"
    line = "pic --driver charm -n 2 --odf 4 --lb-period 5"
    assert captions.wrapped(line, 24) == "pic --driver charm -n 2\n--odf 4 --lb-period 5"
    assert captions.wrapped("size 8x8, particles 3000", 17) == "size 8x8,\nparticles 3000"
    assert captions.wrapped("a" * 9 + " 12345, b", 8) == "aaaaaaaa\na 12345,\nb"
    assert captions.fitted(["a", "b"], 4) == "a; b" and captions.fitted(["a", "b"], 3) == "a\nb"


# Panels -------------------------------------------------------------------------------------------


@contextmanager
def opened(source: Path) -> Iterator[Any]:
    """A file whose state is `FIELD`."""
    yield {"state": {"u": FIELD}}


MOVED = ({"step": 1, "moved": 1},)
STATE, LOAD, TIME = "final state", "load of each PE", "time of each step"
BLOCKS, HOMES, MOVES = "load of each block", "PE of each block", "migrations: 1"


@pytest.mark.long
@pytest.mark.parametrize(
    ("pes", "lb", "titles"),
    [
        ([0, 0], (), [BLOCKS]),
        ([0, 1], (), [BLOCKS, HOMES]),
        ([0, 0], MOVED, [BLOCKS, MOVES]),
        ([0, 1], MOVED, [BLOCKS, HOMES, MOVES]),
    ],
)
def test_panels_of_a_run(pes, lb, titles, monkeypatch):
    """Catches an empty panel, one that is left out, and places of blocks where moves belong."""
    run = run_of(np.ones((2, 3)), np.repeat(pes, 3), lb=lb)
    monkeypatch.setattr(plots, "opened", opened)
    monkeypatch.setattr(SavedRun, "read", lambda source: run)
    figure = plots.run_figure(Path("run.h5"))
    assert tuple(figure.get_size_inches()) == (13, 7.6)
    found = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in found] == [STATE, LOAD, TIME, *titles]
    count = len(titles)
    places = [axes.get_subplotspec().get_geometry() for axes in found]
    upper, lower = ([(1, n, place, place) for place in range(n)] for n in (3, count))
    assert places == upper + lower
    assert len(figure.subfigs) == 2
    assert figure.get_suptitle() == captions.run_title(run.record, plots.LETTERS)
    assert figure._suptitle.get_fontsize() == 11


def test_pixels_of_a_field() -> None:
    """Catches a field that is drawn coarser than it is, and one without its values."""
    field = np.arange(70 * 3.0).reshape(70, 3)
    axes = panel(plots._draw_state, {"u": field}, by_hand(extent=[70.0, 3.0]))
    (image,) = axes.images
    assert np.array_equal(image.get_array(), field.T)
    assert has_integer_ticks(image.colorbar.ax.yaxis)
    axes = panel(plots._draw_state, {"u": field / 3}, by_hand(extent=[70.0, 3.0]))
    assert not has_integer_ticks(axes.images[0].colorbar.ax.yaxis)


def test_particles_in_cells() -> None:
    """Catches more pixels than are said, and a grid of cells that is called a box."""
    rows = np.array([[0.5, 0.5], [100.5, 1.5]])
    state = {"particles": rows, "particles.id": np.arange(2)}
    axes = panel(plots._draw_state, state, by_hand(extent=[101.0, 2.0]))
    assert axes.images[0].get_array().shape == (2, 100)
    assert axes.get_title() == "final state"


def test_loads_of_several_pes() -> None:
    """Catches limits of the least PE, a load beyond them that is not said, another width."""
    loads = np.ones((2, 20))
    loads[1] = 4
    loads[1, 3] = 40
    axes = panel(plots._draw_load, run_of(loads, count=2))
    assert axes.get_ylim() == pytest.approx((0, 6))
    assert said(axes) == ["PE 0", "PE 1", "beyond the axis, up to 40 ms"]
    assert {line.get_linewidth() for line in axes.lines if line.get_gid() != BEYOND} == {0.8}


@pytest.mark.parametrize(("pes", "named"), [(6, 6), (7, 0)])
def test_names_of_many_pes(pes: int, named: int) -> None:
    """Catches two PEs with one name's colour, and a legend without the last PE."""
    axes = panel(plots._draw_load, run_of(np.ones((pes, 2))))
    assert said(axes) == [f"PE {pe}" for pe in range(named)]
    colours = [line.get_color() for line in axes.lines]
    assert colours == [*COLOURS, *COLOURS][:pes]


def test_look_of_step_times() -> None:
    """Catches another width or colour, and a step beyond the axis without a word."""
    loads = np.ones((1, 20))
    loads[0, 3] = 40
    axes = panel(plots._draw_step_times, run_of(loads, count=2))
    assert (axes.lines[0].get_linewidth(), axes.lines[0].get_color()) == (0.8, COLOURS[0])
    assert said(axes) == ["beyond the axis, up to 40 ms"]
    assert axes.get_ylim() == pytest.approx((0, 1.5))


def test_colours_of_blocks() -> None:
    """Catches a scale that an outlier makes dark or that has no arrow there, and the reverse."""
    loads = np.full((2, 100), 2.0)
    axes = panel(plots._draw_blocks, run_of(loads))
    mesh = axes.collections[0]
    assert mesh.get_clim() == (0, 2) and mesh.colorbar.extend == "neither"
    assert mesh.get_rasterized() and axes.get_title() == BLOCKS
    loads[1, 7] = 50
    mesh = panel(plots._draw_blocks, run_of(loads)).collections[0]
    assert mesh.get_clim() == (0, 3) and mesh.colorbar.extend == "max"


def test_moves_of_blocks() -> None:
    """Catches a line that is not explained, or too wide, and ticks between blocks."""
    axes = panel(plots._draw_blocks, run_of(np.ones((2, 3)), [[0, 0, 1], [1, 1, 1]]))
    assert axes.get_title() == f"{BLOCKS} (white line: it moved)"
    lines = axes.collections[1]
    assert [in_hex(colour) for colour in lines.get_color()] == ["#ffffff"]
    assert lines.get_linewidth() == [1]
    assert [segment.tolist() for segment in lines.get_segments()] == [[[2, -0.5], [2, 0.5]]]
    assert has_integer_ticks(axes.xaxis) and has_integer_ticks(axes.yaxis)


@pytest.mark.parametrize(
    ("pes", "ticks"),
    [(2, [0, 1]), (6, range(6)), (7, [0, 1, 2, 3, 4, 6]), (13, [0, 2, 4, 7, 9, 12])],
)
def test_colours_of_pes(pes: int, ticks: Any) -> None:
    """Catches two PEs of one colour, a PE with the colour of another one's curve, other ticks."""
    mesh = panel(plots._draw_homes, run_of(np.ones((pes, 2)))).collections[0]
    colours = [in_hex(mesh.cmap(mesh.norm(pe))) for pe in range(pes)]
    assert len({*colours}) == pes
    few = [colour.lower() for colour in COLOURS[:pes]]
    assert (colours == few) == (pes <= len(COLOURS))
    assert mesh.norm.boundaries.tolist() == [pe - 0.5 for pe in range(pes + 1)]
    axis = mesh.colorbar.ax.yaxis
    assert axis.get_majorticklocs().tolist() == [*ticks] and len(axis.get_minorticklocs()) == 0
    assert mesh.get_rasterized()


def test_blocks_with_the_largest_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches rows of other blocks, and a panel without its rule, or with one that is needless."""
    run = run_of([[1], [9], [2], [8]])
    for most, rows in ((4, [0, 1, 2, 3]), (2, [1, 3])):
        monkeypatch.setattr(plots, "BLOCKS", most)
        axes = panel(plots._draw_blocks, run)
        rule = "" if most == 4 else "\nthe 2 of 4 with the largest load"
        assert axes.get_title() == f"{BLOCKS}{rule}"
        loads = axes.collections[0].get_array()
        assert [*loads.ravel()] == pytest.approx([[1, 9, 2, 8][row] for row in rows])
    name = axes.yaxis.get_major_formatter()
    assert [name(row, None) for row in range(-1, 3)] == ["", "1", "3", ""]


def test_many_steps_are_drawn_in_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a period that ends at another step, and a PE to which a block moved within it."""
    monkeypatch.setattr(plots, "PERIODS", 3)
    steps, edges, load, pe = plots._by_period(run_of([[1, 3, 5, 7]], [[0, 1, 1, 0]], count=2))
    assert pe.tolist() == [[0, 1]]
    assert (steps.tolist(), edges.tolist(), load.tolist()) == ([0, 4, 8], [-0.5, 0.5], [[2, 6]])


@pytest.mark.parametrize(
    ("steps", "moved", "width", "ends", "top"),
    [
        ([10, 20, 40], [3, 0, 2], 4, (6, 44), 3.3),
        ([7, 27, 47], [0, 0, 5], 8, (3, 51), 5.5),
        ([20], [0], 4, (6, 44), 1.1),
    ],
)
def test_bars_of_migrations(steps, moved, width, ends, top):
    """Catches bars over each other, one that is cut off, and an axis of another run."""
    lb = [{"step": step, "moved": count} for step, count in zip(steps, moved, strict=True)]
    run = replace(run_of([[1, 1]], lb=lb), rounds=np.array([[6, 4], [9, 35]]))
    axes = panel(plots._draw_migrations, run)
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([width] * len(steps))
    assert {in_hex(bar.get_facecolor()) for bar in axes.patches} == {COLOURS[0].lower()}
    assert axes.get_xlim() == pytest.approx(ends) and axes.get_ylim() == pytest.approx((0, top))
    assert axes.get_title() == f"migrations: {sum(moved)}"
    assert has_integer_ticks(axes.xaxis) and has_integer_ticks(axes.yaxis)


def test_where_a_figure_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches work that is lost because it cannot be written, or not in that format."""
    monkeypatch.setattr(plots, "run_figure", lambda source: blank_figure(1, 1))
    assert plots.write_figure(Path("run.h5"), tmp_path / "a.svg") == tmp_path / "a.svg"
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    monkeypatch.delattr(plots, "run_figure")
    for name, reason in (("a.txt", "must end in .png, .svg, .pdf"), ("no/a.png", "no directory")):
        with pytest.raises(InputError, match=f"--figure .*{reason}"):
            plots.write_figure(Path("run.h5"), tmp_path / name)


# Traces -------------------------------------------------------------------------------------------


def traced(slices: Any, syncs: Any = ()) -> SavedRun:
    """A run on one PE that ends after 8 ms and has those slices and load-balancing steps."""
    run = run_of([[1, 1, 1]])
    run.rows["end_s"] = [0.006, 0.007, 0.008]
    return replace(run, slices=np.array(slices, SLICE), syncs=np.array([*syncs], SYNC))


def test_events_of_a_trace() -> None:
    """Catches a PE without a name, digits that are lost, and an event of another thread."""
    made = trace.trace(traced([(0, 0, 2, COMPUTE, 0.0012345674, 0.0012457898)]))
    where = {"pid": 0, "tid": 0}
    names, events = made["traceEvents"][:3], made["traceEvents"][3:]
    assert names == [
        {"ph": "M", "name": name, **where, "args": {key: value}}
        for name, key, value in (
            ("process_name", "name", "PE 0"),
            ("thread_name", "name", "blocks"),
            ("process_sort_index", "sort_index", 0),
        )
    ]
    args = {"block": "block 0 (0)", "step": 2}
    assert events == [
        {"ph": "X", "name": "wait", **where, "ts": 0, "dur": 1234.567, "args": {}},
        {"ph": "X", "name": "compute", **where, "ts": 1234.567, "dur": 11.223, "args": args},
        {"ph": "X", "name": "wait", **where, "ts": 1245.79, "dur": 6754.21, "args": {}},
    ]
    assert made["otherData"]["run"].startswith("jacobi2d ")


def test_activities_of_no_length_stay_in_order() -> None:
    """Catches a balancing before the work that it waits for, and events that overlap."""
    slices = [(0, 0, 0, PACK, 0.001, 0.001), (0, 0, 0, COMPUTE, 0.0, 0.001)]
    run = traced(slices, [(0, 1, 0.001, 0.001, 0), (0, 1, 0.002, np.inf, 0)])
    found = [(span.name, span.begin, span.end) for span in trace.spans(run, 0, 0.008)]
    assert found == [
        ("compute", 0, 0.001),
        ("pack", 0.001, 0.001),
        ("balance", 0.001, 0.001),
        ("wait", 0.001, 0.008),
    ]


def test_activities_of_two_pes() -> None:
    """Catches an activity of the other PE, or one that has another block's or step's name."""
    slices = [(0, 1, 1, PACK, 0.001, 0.002), (1, 2, 2, COMPUTE, 0.0, 0.008)]
    syncs = [(0, 7, 0.002, 0.008, 3)]
    run = replace(by_hand(), slices=np.array(slices, SLICE), syncs=np.array(syncs, SYNC))
    found = [[(span.name, span.args) for span in trace.spans(run, pe, 0.008)] for pe in (0, 1)]
    pack = {"block": "block 1 (0, 1)", "step": 5}
    assert found == [
        [("wait", {}), ("pack", pack), ("balance", {"step": 7, "came": 3})],
        [("compute", {"block": "block 2 (1, 0)", "step": 7})],
    ]


def test_where_a_trace_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a trace of nothing, and a file that is not JSON."""
    run = traced([(0, 0, 0, COMPUTE, 0.0, 0.001)])
    monkeypatch.setattr(SavedRun, "read", lambda source: run)
    target = trace.write_trace(Path("run.h5"), tmp_path / "a.json")
    assert json.loads(target.read_text()) == trace.trace(run)
    monkeypatch.setattr(SavedRun, "read", lambda source: by_hand())
    with pytest.raises(InputError, match="--trace run.h5: has no slices: run with --trace"):
        trace.write_trace(Path("run.h5"), tmp_path / "b.json")
    assert not (tmp_path / "b.json").exists()


def test_matplotlib_says_nothing_of_its_cache() -> None:
    """Catches its lines about a home that is not there, and a user's own that are lost for good."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    with marks.words_kept():
        assert not logger.isEnabledFor(logging.WARNING) and logger.isEnabledFor(logging.ERROR)
    assert logger.level == level
