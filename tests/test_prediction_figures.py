"""The figures of `miniapps replay` and `miniapps model`: values at their places, names, axes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from drawn import assert_ticks_are_values, in_hex, intervals, laid_out, lines, text_of, titles
from figure_faults import faults

from miniapps import apps
from miniapps.workbench.show import model_figure, replay_figure
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study.statistics import Interval


def point(balancer: str, pes: int, ms: float, period: int = 20, odf: float = 4.0) -> dict[str, Any]:
    """What a replay predicts of a choice."""
    return {"balancer": balancer, "period": period, "odf": odf, "pes": pes, "step_s": ms / 1e3}


POINTS = [
    *(point("Greedy", pes, 8 / pes, odf=16 / pes) for pes in (2, 4, 8)),
    *(point("none", pes, 12 / pes, period=0, odf=16 / pes) for pes in (2, 4, 8)),
    *(point("optimal", pes, 6 / pes, period=0, odf=16 / pes) for pes in (2, 4, 8)),
]


def rotations(axes: Any) -> set[float]:
    """By how many degrees the labels of PEs are turned."""
    return {label.get_rotation() for label in axes.get_xticklabels()}


def replayed(points: Any) -> Any:
    """The axes of the figure of some points, laid out, without a fault."""
    figure = replay_figure.figure_of(points, "Loads of pic")
    assert faults(figure, ["Loads"]) == []
    return laid_out(figure).axes[0]


@pytest.mark.long
def test_curves_of_a_replay_are_its_predictions() -> None:
    """Catches seconds, a balancer's times under another name, and a bound that looks like one.

    An ideal curve that is bent, and one number of PEs on a logarithmic axis.
    """
    axes = replayed(POINTS)
    assert {name: at.tolist() for name, at in lines(axes)} == {
        "Greedy every 20": [[pes, pytest.approx(8 / pes)] for pes in (2, 4, 8)],
        "none": [[pes, pytest.approx(12 / pes)] for pes in (2, 4, 8)],
        "optimal": [[pes, pytest.approx(6 / pes)] for pes in (2, 4, 8)],
    }
    looks = [(in_hex(line.get_color()), line.get_marker()) for line in axes.lines]
    assert looks == [(in_hex(COLOURS[0]), "o"), (in_hex(COLOURS[1]), "s"), ("#000000", "_")]
    assert [line.get_linestyle() for line in axes.lines] == ["-", "-", "--"]
    assert [line.get_markersize() for line in axes.lines[:2]] == [4, 4]
    assert_ticks_are_values(axes.figure)
    assert titles(axes) == ("PEs", "predicted time per step [ms]")
    assert [text_of(label) for label in axes.get_xticklabels()] == ["2", "4", "8"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.xaxis.get_transform().base == 2
    two = replayed([one for one in POINTS if one["pes"] < 8])
    assert (two.get_xscale(), two.get_yscale()) == ("log", "log")
    one = replayed([one for one in POINTS if one["pes"] == 2])
    assert (one.get_xscale(), one.get_yscale()) == ("linear", "linear")


@pytest.mark.long
def test_a_replay_with_several_odfs_has_a_curve_for_each() -> None:
    """Catches a curve that goes back from the most PEs to the fewest, for a second ODF."""
    points = [point("Greedy", pes, odf / pes, odf=odf) for odf in (1, 2) for pes in (2, 4, 8)]
    assert [name for name, _ in lines(replayed(points))] == [
        "Greedy every 20, ODF 1",
        "Greedy every 20, ODF 2",
    ]
    few = [point("Greedy", 2, 1.0, odf=1), point("Greedy", 4, 0.5, odf=1)]
    (line,) = lines(replayed(few))
    assert line[0] == "Greedy every 20" and line[1][:, 0] == pytest.approx([2, 4])


@pytest.mark.long
def test_the_layout_of_a_replay() -> None:
    """Catches labels of PEs over each other, a legend on the curves, and colours that run out."""
    many = [point(f"B{n}", 2**at, n + 1.0) for n in range(9) for at in range(1, 10)]
    figure = replay_figure.figure_of(many, "a " * 60)
    axes = laid_out(figure).axes[0]
    assert rotations(axes) == {45}
    assert rotations(replayed([one for one in many if one["pes"] <= 256])) == {0}
    last = axes.lines[8]
    assert in_hex(last.get_color()) == in_hex(COLOURS[8 % len(COLOURS)])
    assert last.get_marker() == replay_figure.MARKERS[8 % len(replay_figure.MARKERS)]
    assert tuple(figure.get_size_inches()) == (7, 4.8)
    legend = axes.get_legend()
    place = legend.get_bbox_to_anchor().transformed(axes.transAxes.inverted())
    assert tuple(place.p0) == pytest.approx((0.5, -0.2)) and legend._ncols == 3
    assert axes.title.get_fontsize() == 9
    assert [len(line) for line in axes.get_title().splitlines()] == [77, 41]


# The model ----------------------------------------------------------------------------------------

JACOBI = apps.load("jacobi2d").Problem()
PREDICTED = {
    "mpi": [(1, Interval(4.0e-3, 3.0e-3, 6.0e-3)), (2, Interval(2.0e-3, 1.0e-3, 3.0e-3))],
    "charm": [(1, Interval(5.0e-3, 4.0e-3, 7.0e-3)), (2, Interval(3.0e-3, 2.0e-3, 4.0e-3))],
}


@pytest.mark.parametrize(("kind", "title"), [("strong", "PEs"), ("odf", "ODF: blocks per PE")])
def test_axes_of_a_prediction(kind: str, title: str) -> None:
    """Catches blocks per PE called PEs, ticks that lie, and limits that cut off an interval."""
    axes = laid_out(model_figure.figure_of(kind, "here", "jacobi2d", [JACOBI], PREDICTED)).axes[0]
    assert titles(axes) == (title, "predicted time per step [ms]")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert_ticks_are_values(axes.figure)
    assert [text_of(label) for label in axes.get_xticklabels()] == ["1", "2"]
    assert axes.get_ylim() == pytest.approx((1 / 1.25, 7 * 1.25), rel=1e-9)
    assert axes.title.get_fontsize() == 8
    bands = [(in_hex(band.get_facecolor()), *band.get_linewidth()) for band in axes.collections]
    assert bands == [(in_hex(line.get_color()), 0) for line in axes.lines]
    (legend,) = axes.figure.legends
    assert [text_of(text) for text in legend.get_texts()] == ["mpi", "charm"]


def rows(*values: tuple[int, float, float]) -> list[tuple[Any, float]]:
    """A table's rows from places, published ms and predicted ms; intervals of 10 %."""
    return [
        (SimpleNamespace(place=place, published_s=one / 1e3, low_s=0.9e-3 * one,
                         high_s=1.1e-3 * one), other / 1e3)
        for place, one, other in values
    ]  # fmt: skip


CHECKED = {
    "PIC": rows((24, 300.0, 330.0), (48, 200.0, 190.0), (96, 110.0, 100.0)),
    "alone": rows((131072, 438.0, 40.0)),
    "H200: ODF": rows((1, 0.5, 0.6), (2, 0.7, 0.65)),
    "weak": rows((6, 40.0, 41.0), (12, 42.0, 43.0)),
}


@pytest.mark.long
def test_a_check() -> None:
    """Catches a table in another panel, one that is left out, an empty panel, and wrong axes.

    Published and predicted values exchanged, other intervals, and limits that cut.
    """
    figure = model_figure.checked_figure(CHECKED)
    assert tuple(figure.get_size_inches()) == (10.4, 7.0)
    panels = laid_out(figure).axes
    assert [axes.get_title() for axes in panels] == ["PIC", "H200: ODF", "weak"]
    assert [axes.get_gridspec().get_geometry() for axes in panels] == [(2, 2)] * 3
    assert [titles(axes) for axes in panels] == [
        ("PEs", "time per step [ms]"),
        ("ODF", "time per step [ms]"),
        ("PEs", "time per step [ms]"),
    ]
    for axes in panels:
        table = CHECKED[axes.get_title()]
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert [text_of(tick) for tick in axes.get_xticklabels()] == [
            str(row.place) for row, _ in table
        ]
        assert rotations(axes) == {45}
        (bars,) = intervals(axes).values()
        published = [1e3 * row.published_s for row, _ in table]
        wanted = [(row.place, one, 0.9 * one, 1.1 * one)
                  for one, (row, _) in zip(published, table, strict=True)]  # fmt: skip
        np_rows = [tuple(pytest.approx(value, rel=1e-6) for value in row) for row in wanted]
        assert [tuple(row) for row in bars] == np_rows
        crosses = next(line for line in axes.lines if line.get_marker() == "x")
        predicted = [1e3 * seconds for _, seconds in table]
        assert crosses.get_ydata() == pytest.approx(predicted, rel=1e-6)
        assert crosses.get_xdata().tolist() == [row.place for row, _ in table]
        look = crosses.get_markersize(), crosses.get_markeredgewidth(), in_hex(crosses.get_color())
        assert look == (9, 2, in_hex(COLOURS[1]))
        ends = [*(0.9 * one for one in published), *(1.1 * one for one in published), *predicted]
        assert axes.get_ylim() == pytest.approx((min(ends) / 1.25, max(ends) * 1.25), rel=1e-6)
    assert_ticks_are_values(figure)
    (legend,) = figure.legends
    assert [text_of(text) for text in legend.get_texts()] == ["predicted", "published"]


@pytest.mark.long
def test_an_odd_number_of_tables_leaves_no_empty_panel() -> None:
    """Catches a frame without values, and a table that has no panel."""
    one = model_figure.checked_figure({"PIC": CHECKED["PIC"], "alone": CHECKED["alone"]})
    assert [axes.get_title() for axes in one.axes] == ["PIC"]
    assert one.axes[0].get_gridspec().get_geometry() == (1, 2)
    assert faults(one, ["PIC", "published", "predicted"]) == []
