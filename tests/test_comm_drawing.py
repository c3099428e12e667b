"""Figures of communication benchmarks and of the demo in detail, and the lines of claims.

What is drawn is read in test_drawn_comm.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import in_hex, titles
from test_drawn_comm import SIZE, demo_record, line_of, record_of

from miniapps.workbench.show import comm_figure, demo_figure
from miniapps.workbench.show.demo_figure import WAITING
from miniapps.workbench.show.marks import blank_figure, write
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.comm import series
from miniapps.workbench.study.comm.series import Line, Result
from miniapps.workbench.study.drawing import styles_of
from miniapps.workbench.study.statistics import Interval

NAN = float("nan")
pytestmark = pytest.mark.usefixtures("intervals_by_hand")


def axes_of(lines: Any, reference: float | None = None) -> Any:
    """Axes of 5 by 4 inches with lines, each with its name, sizes and values."""
    axes = blank_figure(5, 4).subplots()
    looks = styles_of([name for name, *_ in lines])
    comm_figure.draw_over_sizes(axes, lines, looks, reference)
    return axes


def values(*given: float) -> list[Interval]:
    """Values with intervals from half to twice."""
    return [Interval(value, value / 2, value * 2) for value in given]


# Values over sizes --------------------------------------------------------------------------------


@pytest.mark.long
def test_one_record_has_one_panel_and_no_legend() -> None:
    """Catches a legend of one line, lines that are called shifted, and a title of other runs."""
    figure = comm_figure.figure_of([record_of("none", "bw", 1)])
    (axes,) = figure.axes
    assert tuple(figure.get_size_inches()) == (5.2, 4.4) and figure.legends == []
    assert titles(axes) == (SIZE, "bandwidth [MB/s]")
    title = "miniapps comm bw: bandwidth, mpi, numpy, 2 ranks"
    assert figure.get_suptitle() == f"{title}\n99 % intervals; Abacus, 4 cores"
    assert figure._suptitle.get_fontsize() == 9


def test_title_says_what_all_records_share() -> None:
    """Catches a driver or a buffer of the first record only."""
    records = [record_of(name, "latency", 1) for name in ("a", "b")]
    records[1] |= {"driver": "charm"}
    figure = comm_figure.figure_of(records, [values(1, 2, 3, 4)] * 2)
    assert tuple(figure.get_size_inches()) == (9, 4.4)
    assert len(figure.axes) == 2
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    title, more = figure.get_suptitle().split("\n")
    assert title == "miniapps comm latency: latency, numpy, 2 ranks"
    assert more == "99 % intervals, shifted a little against each other; Abacus, 4 cores"
    records = [record | {"driver": "mpi", "buffer": record["name"]} for record in records]
    assert "latency, mpi, 2 ranks" in comm_figure.figure_of(records).get_suptitle()


def test_long_titles_have_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a title that is wider than its figure, or broken early."""
    monkeypatch.setattr(comm_figure, "_title", lambda records: " ".join(["word"] * 20))
    figure = comm_figure.figure_of([record_of("none", "bw", 1)])
    first, second, _ = figure.get_suptitle().split("\n")
    assert len(first) == 59 and len(second) == 39  # of at most 62 letters


@pytest.mark.long
def test_where_a_figure_is_written(tmp_path: Path) -> None:
    """Catches another file than the one asked for."""
    path = write(comm_figure.figure_of([record_of("none", "bw", 1)]), tmp_path / "a.svg")
    assert path == tmp_path / "a.svg" and b"<svg" in path.read_bytes()


def test_look_of_lines_over_sizes() -> None:
    """Catches axes that are not logarithmic, ticks between sizes, other sizes of markers."""
    axes = axes_of([("a", [0, 8], values(2, 4))], 1)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.xaxis.get_transform().base == 2 and titles(axes)[0] == SIZE
    assert axes.get_xticks().tolist() == [0.5, 8] and len(axes.get_xticks(minor=True)) == 0
    assert {text.get_fontsize() for text in axes.get_xticklabels()} == {8}
    assert [*axes.containers[0].lines[0].get_xdata()] == [0.5, 8]
    line, level = (one for one in axes.lines if str(one.get_marker()) not in "_|")
    assert (line.get_markersize(), line.get_linewidth()) == (3.5, 1)
    assert (level.get_linewidth(), level.get_color()) == (1, "black")
    assert set(level.get_ydata()) == {1}


@pytest.mark.parametrize(
    ("value", "reference", "low", "high"),
    [(4, None, 2, 8), (4, 1, 1, 8), (4, 20, 2, 20), (4, 5, 2, 8)],
)
def test_limits_of_values(value: float, reference: Any, low: float, high: float) -> None:
    """Catches an interval or a reference that is cut off."""
    axes = axes_of([("a", [8], values(value))], reference)
    assert axes.get_ylim() == pytest.approx((low / 1.25, high * 1.25))


@pytest.mark.parametrize(("sizes", "every"), [(1, 1), (8, 1), (9, 2), (16, 2), (17, 3)])
def test_sizes_that_have_a_label(sizes: int, every: int) -> None:
    """Catches labels over each other, and fewer than there is room for."""
    of = [2**n for n in range(sizes)]
    axes = axes_of([("a", of, values(*of))])
    shown = of[::every]
    assert axes.get_xticks().tolist() == shown
    labels = [f"{n} B" if n < 1024 else f"{n >> 10} KiB" for n in shown]
    assert [text.get_text() for text in axes.get_xticklabels()] == labels


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (8, "8 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1500, "1500 B"),
        (3072, "3 KiB"),
        (1 << 20, "1 MiB"),
        (3 << 20, "3 MiB"),
        ((1 << 20) + 1024, "1025 KiB"),
    ],
)
def test_sizes_in_words(size: int, text: str) -> None:
    """Catches a size that is rounded, and one with another unit."""
    assert comm_figure.in_words(size) == text


@pytest.mark.parametrize(
    ("sizes", "lines", "octaves"),
    [
        ([8, 64], 1, [0]),
        ([8, 64], 2, [-0.0225, 0.0225]),  # 0.015 of three octaves between both
        ([8, 64], 3, [-0.045, 0, 0.045]),
        ([0, 8], 2, [-0.03, 0.03]),
        ([8], 2, [-0.0075, 0.0075]),
        ([8], 41, [0.01 * n for n in range(-20, 21)]),  # all within 0.4 of an octave
        ([1, 2, 2**40], 2, [-0.2, 0.2]),
        ([1, 2, 2**40], 3, [-0.2, 0, 0.2]),
        ([2, 4, 2**40], 2, [-0.2, 0.2]),
    ],
)
def test_shifts_of_lines(sizes: list[int], lines: int, octaves: list[float]) -> None:
    """Catches intervals over each other, and one that is shifted to the next size."""
    found = np.log2(comm_figure._shifts(sizes, lines))
    np.testing.assert_allclose(found, octaves, atol=1e-12)


def test_lines_without_intervals_are_not_shifted() -> None:
    """Catches a published value beside its size, and room that is kept for it."""
    point = [Interval(3.0, NAN, NAN)]
    axes = axes_of([("a", [8], values(3)), ("p", [8], point), ("q", [8], [Interval(3, 3, 3)])])
    assert [float(c[0].get_xdata()[0]) for c in axes.containers] == [8, 8, 8]


# The demo -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("mpi", 1, 4, "Greedy"), "mpi"),
        (("mpi", 2), "mpi 2"),
        (("charm", 2, 2, None, " PEs"), "charm 2 PEs, 2 blocks per PE"),
        (("charm", 2, 1, "Greedy"), "charm 2, balanced"),
    ],
)
def test_names_of_configurations(given: Any, text: str) -> None:
    """Catches over-decomposition or balancing that is not said."""
    assert demo_figure.named(*given) == text


SCALING = [
    ("serial", 1, 12.0, {}),
    ("serial", 1, 24.0, {}),  # a later one, which does not count
    ("file", 2, 1.0, {}),  # not compared
    ("mpi", 2, 8.0, {}),
    ("charm", 2, 6.0, {"odf": 4}),
    ("mpi", 4, 3.0, {"app": "pic", "problem": {"size": 96, "k": 1}}),  # which nothing is below
    ("mpi", 2, 1.0, {"valid": False}),
]
UNEVEN = [
    ("mpi", 2, 12.344, {"utilisation": 0.25}),
    ("charm", 2, 8.0, {"odf": 4, "balancer": "Greedy", "lb_period": 5}),
    ("charm", 2, 1.0, {"valid": False}),
]


def demo() -> Any:
    """The figure of some records."""
    both = ([demo_record(*given[:3], **given[3]) for given in some] for some in (SCALING, UNEVEN))
    return demo_figure.figure_of(*both)


def test_bars_of_scaling_in_the_demo() -> None:
    """Catches bars over each other, a run that is not valid, problems under another app."""
    figure = demo()
    assert tuple(figure.get_size_inches()) == (11, 4.6)
    assert [axes.get_subplotspec().get_geometry() for axes in figure.axes] == [
        (1, 2, 0, 0),
        (1, 2, 1, 1),
    ]
    axes = figure.axes[0]
    found = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in axes.patches]
    assert np.ravel(found) == pytest.approx(np.ravel([(-0.2, 1.5), (0.2, 2)]))
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0.92 * 0.4] * 2)
    colours = [in_hex(bar.get_facecolor()) for bar in axes.patches]
    assert colours == [colour.lower() for colour in COLOURS[:2]]
    assert axes.get_ylim() == pytest.approx((0, 1.15 * 4))
    assert axes.get_ylabel() == "speed-up of 4 PEs over one process"
    assert axes.get_xticks().tolist() == [0, 1]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["jacobi2d", "pic"]
    (ideal,) = axes.lines
    assert (ideal.get_linewidth(), ideal.get_linestyle()) == (1, "--")
    assert set(ideal.get_ydata()) == {4}
    labels = {text.get_text(): text for text in axes.texts}
    assert [*labels] == ["1.50", "2.00", "size 64x64", "size 96, k 1"]
    assert {labels[name].get_fontsize() for name in ("1.50", "2.00")} == {9}
    assert {labels[name].xyann for name in ("1.50", "2.00")} == {(0, 2)}
    for place, name in enumerate(("size 64x64", "size 96, k 1")):
        assert (labels[name].xy, labels[name].xyann) == ((place, 0), (0, -20))
        assert labels[name].get_fontsize() == 7.5
    assert axes.get_title() == "The same problem, the same kernels, the same bits"
    assert axes.title.get_fontsize() == 9
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["ideal", "mpi", "charm"]
    place = legend.get_bbox_to_anchor().transformed(axes.transAxes.inverted())
    assert tuple(place.p0) == pytest.approx((0.5, -0.22)) and legend._ncols == 3


def test_one_configuration_in_the_demo() -> None:
    """Catches a bar of another width, and parts without names."""
    records = [demo_record(*given[:3], **given[3]) for given in (*SCALING[:1], SCALING[3])]
    left, right = demo_figure.figure_of(records, [demo_record("mpi", 2, 12.0)]).axes
    assert [bar.get_width() for bar in left.patches] == pytest.approx([0.92 * 0.8])
    names = [text.get_text() for text in right.get_legend().get_texts()]
    assert names == ["computing", "waiting"]


def test_bars_of_an_uneven_load_in_the_demo() -> None:
    """Catches waiting that is computing, bars upside down, seconds, a run that is not valid."""
    figure = demo()
    axes = figure.axes[1]
    spans = [(bar.get_x(), bar.get_width(), round(bar.get_y() + bar.get_height() / 2))
             for bar in axes.patches]  # fmt: skip
    wanted = [(0, 3.086, 0), (3.086, 9.258, 0), (0, 4, 1), (4, 4, 1)]
    assert np.ravel(spans) == pytest.approx(np.ravel(wanted))
    colours = [in_hex(bar.get_facecolor()) for bar in axes.patches]
    assert colours == [COLOURS[0].lower(), WAITING.lower()] * 2
    texts = [(text.get_text(), *text.get_position(), text.get_fontsize()) for text in axes.texts]
    assert texts == [(" 12.3 ms", pytest.approx(12.344), 0, 9), (" 8.00 ms", 8, 1, 9)]
    assert axes.get_yticks().tolist() == [0, 1] and axes.yaxis_inverted()
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["mpi 2 PEs", "charm 2 PEs,\n4 blocks per PE, balanced"]
    assert axes.get_xlim() == pytest.approx((0, 1.2 * 12.344))
    assert axes.get_xlabel() == "time per step, mean over PEs [ms]"
    assert axes.get_title() == "An uneven load\njacobi2d, size 64x64"
    assert axes.title.get_fontsize() == 9
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["computing", "waiting"]
    machine = figure._supxlabel
    assert machine.get_text() == "on Abacus, 4 cores" and machine.get_fontsize() == 8
    assert machine.get_position()[0] == 0.99


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:No artists with labels")
def test_a_demo_without_runs(tmp_path: Path) -> None:
    """Catches an error where no run is valid, and a figure elsewhere."""
    path = write(demo_figure.figure_of([], []), tmp_path / "a.svg")
    assert path == tmp_path / "a.svg" and b"<svg" in path.read_bytes()
    axes = blank_figure(3, 3).subplots()
    demo_figure._draw_scaling(axes, [])
    assert axes.get_ylim() == pytest.approx((0, 1.15))
    axes = blank_figure(3, 3).subplots()
    demo_figure._draw_uneven(axes, [])
    assert axes.get_xlim() == pytest.approx((0, 1.2))


def test_lines_of_the_demos_problems() -> None:
    """Catches a text that is broken early, or covers another one."""
    scaling = [demo_record("mpi", 2, 1.0, problem={"size": [64, 64], "dtype": "f32"})]
    axes = blank_figure(3, 3).subplots()
    demo_figure._draw_scaling(axes, scaling)  # of 21 letters
    assert [text.get_text() for text in axes.texts] == ["size 64x64,\ndtype f32"]
    uneven = [demo_record("mpi", 2, 1.0, problem={"size": [64, 64], "initial": 37 * "a"})]
    axes = blank_figure(3, 3).subplots()
    demo_figure._draw_uneven(axes, uneven)  # of 67 letters
    assert axes.get_title().count("\n") == 2


# Lines of claims ----------------------------------------------------------------------------------


def test_ratios_of_lines() -> None:
    """Catches a ratio for a size that only one line has, or to a published 0."""
    fast = line_of("fast", "us", 1.0, {8: 10.0, 64: 0.0})
    slow = line_of("slow", "us", 2.0, {8: 40.0, 64: 50.0, 128: 9.0})
    assert slow.published_ratios(fast) == {8: 4}
    base = replace(fast, trials={8: fast.trials[8]})
    assert {size: one.value for size, one in slow.ratios(base).items()} == {8: 2}
    result = Result({"name": "c"}, (fast, slow))
    assert result.line("slow") is slow and result.line("none") is None
    assert (result.name, result.sizes, result.oversubscribed) == ("c", [8, 64], False)


def record(*values_: float | None, benchmark: str = "latency") -> dict[str, Any]:
    """A record of one size with some values."""
    measured_ = [{"size": 8, "value": value} for value in values_]
    return {"benchmark": benchmark, "measured": measured_, "oversubscribed": False}


def campaign(*events: dict[str, Any]) -> Campaign:
    """A campaign of a claim with three lines, each at a point of its own."""
    lines = [{"name": name, "point": place, "call": None} for place, name in enumerate("abc")]
    claim = {"name": "c", "lines": lines, "series": {"a": {"8": 3, "64": 4}}}
    points = [{"benchmark": "bw", "sizes": [8, 64]}] * 3
    return Campaign({"study": {"claims": [claim]}, "points": points}, list(events))


def test_lines_of_a_campaign() -> None:
    """Catches trials under another line, a trial without values, a line that must not count."""
    runs = [
        {"event": "run", "point": 0, "record": record(1.0, 3.0)},
        {"event": "run", "point": 1, "record": record(5.0)},
        {"event": "run", "point": 0, "record": record(4.0)},
        {"event": "dropped", "point": 0, "final": False},
        {"event": "dropped", "point": 1, "final": True},
    ]
    (result,) = series.results(campaign(*runs))
    (line,) = result.lines
    assert isinstance(line, Line) and (line.name, line.unit) == ("a", "MB/s")
    assert {size: each.tolist() for size, each in line.trials.items()} == {8: [2, 4]}
    assert line.published == {8: 3, 64: 4} and len(line.records) == 2
    assert line.values[8].value == 3 and math.isclose(line.values[8].high, 4)
