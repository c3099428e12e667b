"""Figures of studies in detail: limits, ticks, sizes, legends; what is drawn is read elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from drawn import in_hex, titles
from test_study_report import Canned

from miniapps.workbench.show.marks import styled
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study import analysis, drawing, figures
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.drawing import OVERSUBSCRIBED
from miniapps.workbench.study.laws import Fit
from miniapps.workbench.study.statistics import Interval

pytestmark = pytest.mark.usefixtures("few_resamples", "intervals_by_hand")

Given = tuple[str, int, list[float]]  # a driver, PEs, and the milliseconds of each trial


def results(*given: Given, kind: str = "strong", **more: Any) -> list[Result]:
    """The results of a study."""
    canned = Canned(kind)
    for driver, pes, times in given:
        canned.point(driver, pes, times, **more)
    return analysis.results(canned.campaign())


def said(figure: Any) -> list[str]:
    """What the only legend says."""
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def line(axes: Any, label: str) -> Any:
    """The only line of a label."""
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return found


def axes_of(figure: Any) -> Any:
    """The only axes of a figure."""
    (axes,) = figure.axes
    return axes


# Elements -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "shares"), [(1, [0]), (2, [-1, 1]), (3, [-1, 0, 1])])
def test_points_are_shifted_by_less_than_half_a_marker(number: int, shares: list[int]) -> None:
    """Catches a point that looks like one of another number of PEs, and one that moves up."""
    figure, axes = drawing.new_figure()
    figure.dpi = 144
    moved = [
        drawing.beside(axes, position, number).transform((0.5, 0.5))
        - axes.transData.transform((0.5, 0.5))
        for position in range(number)
    ]
    points = np.array(moved) * 72 / figure.dpi / drawing.MARKER
    assert points == pytest.approx(np.array([(drawing.SHIFT * share, 0.0) for share in shares]))
    assert 1 / 4 < drawing.SHIFT < 1 / 2


def test_predictions_are_beside_their_points() -> None:
    """Catches a prediction that looks like one of another value, or hides its point."""
    figure, axes = drawing.new_figure()
    point = axes.transData.transform((0.5, 0.5))
    moved = drawing.to_the_right(axes).transform((0.5, 0.5)) - point
    assert moved / figure.dpi == pytest.approx((drawing.RIGHT, 0.0))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 5.0, [0.8, 1, 1.5, 2, 3, 4, 5, 6]),
        (1.25, 8.0, [1, 2, 5, 10]),  # a decade with its margins
        (1.0, 20.0, [1, 2, 5, 10, 20]),
        (1.25, 800.0, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]),
        (1.0, 1000.0, [1, 10, 100, 1000]),
    ],
)
def test_ticks_of_a_decimal_axis(low: float, high: float, ticks: list[float]) -> None:
    """Catches an axis without a tick that can be read, with too many, or that cuts values off."""
    _, axes = drawing.new_figure()
    axes.set_yscale("log")
    drawing.decimal_log_axis(axes.yaxis, low, high, axes.set_ylim)
    assert axes.get_ylim() == pytest.approx((low / 1.25, high * 1.25))
    found = [tick for tick in axes.get_yticks() if low / 1.26 < tick < high * 1.26]
    assert found == pytest.approx(ticks)
    assert axes.yaxis.get_major_formatter()(1500.0, 0) == "1500"
    assert axes.yaxis.get_minor_formatter()(1500.0, 0) == ""


def test_axis_of_pes() -> None:
    """Catches an axis that ends at a point, and ticks between numbers of PEs."""
    _, axes = drawing.new_figure()
    drawing.pe_axis(axes, [4, 1, 2, 2], "blocks")
    assert axes.get_xscale() == "log" and axes.xaxis.get_transform().base == 2
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4"]
    assert [*axes.get_xticks()] == [1, 2, 4] and [*axes.get_xticks(minor=True)] == []
    assert axes.get_xlim() == pytest.approx((2**-0.3, 4 * 2**0.3))
    assert axes.get_xlabel() == "blocks"


def test_styles() -> None:
    """Catches two configurations with one style, in print too, and more of them than styles."""
    styles = [*drawing.styles_of([str(number) for number in range(10)]).values()]
    markers, dashes = ([style[key] for style in styles] for key in ("marker", "linestyle"))
    assert markers == [*drawing.MARKERS, *drawing.MARKERS[:3]]
    assert dashes == [*drawing.DASHES, *drawing.DASHES]
    assert [style["color"] for style in styles] == [*COLOURS, *COLOURS][:10]
    assert len({*zip(markers[:3], dashes[:3], strict=True)}) == 3


def test_bounds_are_those_of_what_can_be_drawn() -> None:
    """Catches a logarithmic axis down to 0 or NaN, and one that leaves out small numbers."""
    values = [Interval(0.5, 0.0, 3.0), Interval(2.0, math.nan, math.nan), Interval(0.75, -1, 2)]
    assert drawing.bounds_of(values) == (0.5, 3.0)


def test_open_points() -> None:
    """Catches bars of open points that look like those of points that count."""
    _, axes = drawing.new_figure()
    found = results(("mpi", 2, [1, 2]), ("mpi", 8, [1, 2]))
    drawing.draw_steps(axes, [2, 8], found, {"color": "red", "marker": "o"}, "mpi")
    filled, opened = axes.containers
    assert (filled.get_label(), opened.get_label()) == ("mpi", "_open")
    assert [*filled.lines[0].get_xdata()] == [2] and [*opened.lines[0].get_xdata()] == [8]
    assert [one.get_linewidth() for one in opened.lines[2]] == [0.8] and not opened.lines[1]


@pytest.mark.parametrize(
    ("words", "columns", "lines"),
    [(1, 3, 1), (4, 2, 1), (8, 1, 1), (12, 1, 1), (13, 1, 2)],  # of five letters in a label
)
def test_legend_has_the_columns_that_fit(words: int, columns: int, lines: int) -> None:
    """Catches a legend wider than its figure, one of a column where three fit, or two legends."""
    figure, axes = drawing.new_figure()
    labels = [" ".join(["word"] * words)] * 4
    drawing.fitted_legend(figure, axes.plot([0], [0]) * 4, labels)
    assert figure.legends[0]._ncols == columns
    assert {text.count("\n") + 1 for text in said(figure)} == {lines}


def test_legend_names_references_last() -> None:
    """Catches an entry that is lost, or an ideal among what was measured."""
    figure, axes = drawing.new_figure()
    for label in ("ideal", "mpi"):
        axes.plot([0, 1], [0, 1], label=label)
    drawing.draw_legend(figure, axes, True, [("fit", ":")])
    assert said(figure) == ["mpi", "fit", OVERSUBSCRIBED, "ideal"]
    _, law, opened, _ = figure.legends[0].legend_handles
    assert (law.get_linewidth(), law.get_linestyle()) == (0.9, ":")
    assert (opened.get_linestyle(), opened.get_markerfacecolor()) == ("None", "white")


def test_labels_are_broken_after_commas() -> None:
    """Catches a line that ends within a name, and one that is longer than need be."""
    label = "charm ODF 4, time-tile 1, no-talk"
    assert drawing.broken(label, 40) == label
    assert drawing.broken(label, 18).splitlines() == ["charm ODF 4,", "time-tile 1,", "no-talk"]


# Scaling ------------------------------------------------------------------------------------------


SLOW = ("mpi", 1, [8.0]), ("mpi", 2, [7.0]), ("mpi", 4, [6.0])
FAST = ("mpi", 1, [8.0]), ("mpi", 2, [2.0])  # four times as fast on two PEs


@pytest.mark.parametrize(
    ("given", "weak", "low", "high"), [(SLOW, False, 2, 8), (SLOW, True, 6, 8), (FAST, False, 2, 8)]
)
def test_limits_of_step_times(given, weak, low, high):
    """Catches an axis that cuts off the ideal."""
    figure = figures.step_time_figure(results(*given), weak)
    assert axes_of(figure).get_ylim() == pytest.approx((low / 1.25, high * 1.25))
    assert titles(axes_of(figure)) == ("PEs", "time per step [ms]")
    ideal = line(axes_of(figure), "ideal")
    assert (ideal.get_linewidth(), ideal.get_linestyle()) == (1, "--")
    assert said(figure) == ["mpi", "ideal"]
    opened = figures.step_time_figure(results(*given, ("mpi", 8, [7.0])), weak)
    assert said(opened) == ["mpi", OVERSUBSCRIBED, "ideal"]


def test_where_several_hosts_begin() -> None:
    """Catches points on one host that cannot be told from those on several."""
    one, several = ([{"name": n, "pes": 1, "cores": 9, "memory_bytes": 1} for n in names]
                    for names in ("a", "ab"))  # fmt: skip
    canned = Canned("strong")
    for pes, hosts in ((1, one), (2, one), (8, several), (16, several)):
        canned.point("mpi", pes, [8.0 / pes], hosts=hosts)
    found = analysis.results(canned.campaign())
    assert results(("mpi", 2, [8]))[0].hosts == 1
    assert replace(found[0], records=found[0].records + found[2].records).hosts == 2
    drawn = figures.step_time_figure, figures.speedup_figure, figures.efficiency_figure
    for draw in drawn:
        axes = axes_of(draw(found, False))
        (edge,) = [one for one in axes.lines if one.get_color() == "grey"]
        assert [*edge.get_xdata()] == [4, 4] and edge.get_linewidth() == 0.8
        texts = {text.get_text().strip(): text.get_ha() for text in axes.texts}
        assert texts == {"one host": "right", "several hosts": "left"}
        assert {(text.get_position(), text.get_fontsize()) for text in axes.texts} == {((4, 1), 7)}
        same = axes_of(draw(found[:2], False))
        assert "one host" not in {text.get_text().strip() for text in same.texts}


@pytest.mark.parametrize(
    ("given", "high", "best"), [(SLOW, 4.0, 1.0), (FAST, 4.0, 2.0), (SLOW[1:], 2.0, 1.0)]
)
def test_limits_of_speed_ups(given: tuple[Given, ...], high: float, best: float) -> None:
    """Catches an axis that cuts off what is better than ideal, or the ideal."""
    figure = figures.speedup_figure(results(*given), False)
    assert axes_of(figure).get_ylim() == pytest.approx((1 / 1.25, high * 1.25))
    assert OVERSUBSCRIBED not in said(figure)
    assert titles(axes_of(figure)) == ("PEs", "speed-up")
    pes = [count for _, count, _ in given]
    assert [*line(axes_of(figure), "ideal").get_ydata()] == [count / pes[0] for count in pes]
    assert titles(axes_of(figures.speedup_figure(results(*given), True)))[1] == "scaled speed-up"
    figure = figures.efficiency_figure(results(*given), False)
    assert axes_of(figure).get_ylim() == pytest.approx((0, 1.08 * best))
    assert titles(axes_of(figure)) == ("PEs", "parallel efficiency")
    assert [*axes_of(figure).get_xticks()] == pes
    ideal = line(axes_of(figure), "ideal")
    assert (ideal.get_linewidth(), ideal.get_linestyle()) == (1, "--")
    assert said(figure) == ["mpi", "ideal"]


def test_ideal_times() -> None:
    """Catches an ideal of the slower configuration, and one of a single number of PEs."""
    two = results(("mpi", 2, [8]), ("charm", 2, [6]), ("mpi", 4, [5]), ("mpi", 8, [3]))
    assert figures.ideal_times(two, False) == pytest.approx({2: 0.006, 4: 0.003})
    assert figures.ideal_times(two, True) == pytest.approx({2: 0.006, 4: 0.006})
    assert figures.ideal_times(two[:2], False) == {}


def test_laws_that_fit_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a curve of a law that does not fit, and none of one at the limit."""
    found, interval = results(*SLOW), Interval(1, 1, 1)
    for residual, drawn in ((figures.POOR, 1), (figures.POOR + 0.01, 0)):
        fit = Fit("amdahl", {"time": interval, "serial": interval}, residual, "")
        monkeypatch.setattr(analysis, "fits", lambda *_: [("mpi", "none"), ("mpi", fit)])  # noqa: B023
        figure = figures.speedup_figure(found, False)
        laws = [one for one in axes_of(figure).lines if one.get_label() == "_law"]
        assert [one.get_linewidth() for one in laws] == [0.9] * drawn
        assert ("fit of Amdahl" in said(figure)) == bool(drawn)


def test_curve_of_a_law() -> None:
    """Catches a curve over other PEs, and one that is not relative to the base."""
    found = results(("mpi", 2, [8]), ("mpi", 4, [6]))
    fit: Any = SimpleNamespace(predict=lambda pes: 0.004 * pes)
    for weak, ends in ((False, [1, 0.5]), (True, [1, 1])):
        pes, gains = figures.law_curve(found, fit, weak)
        np.testing.assert_allclose((pes[[0, -1]], gains[[0, -1]]), [[2, 4], ends])


def test_title_of_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a title that is broken early, or wider than its figure."""
    monkeypatch.setattr(figures, "title_of", lambda _: " ".join(["word"] * 14))  # 69 letters
    monkeypatch.setattr(figures, "machine_of", lambda _: " ".join(["node"] * 15))  # 74 letters
    canned = Canned("odf")
    canned.point("mpi", 2, [1.0])
    title = figures.figures(canned.campaign())["odf"]._suptitle
    assert title.get_text().splitlines()[0] == " ".join(["word"] * 14)
    assert max(map(len, title.get_text().splitlines())) <= 72 and title.get_fontsize() == 8


# Over-decomposition, balancing, granularity -------------------------------------------------------


def test_a_driver_without_over_decomposition_is_a_line() -> None:
    """Catches a band that hides what is behind it, limits that cut points off, an unmarked line."""
    canned = Canned("odf")
    canned.point("mpi", 2, [6, 7, 11])
    canned.point("mpi", 8, [5])
    canned.point("charm", 2, [3, 4, 5], odf=4)
    figure = figures.odf_figure(analysis.results(canned.campaign()))
    axes = axes_of(figure)
    assert axes.get_ylim() == pytest.approx((3 / 1.25, 11 * 1.25)) and axes.get_yscale() == "log"
    assert titles(axes) == ("ODF: blocks per PE", "time per step [ms]")
    assert [(band.get_alpha(), band.get_linewidth()) for band in axes.patches] == [(0.18, 0)] * 2
    names = ["mpi, 2 PEs", f"mpi, 8 PEs, {OVERSUBSCRIBED}", "charm, 2 PEs", OVERSUBSCRIBED]
    assert said(figure) == names


def gain(value: float) -> Any:
    """A gain by hand."""
    result = SimpleNamespace(configuration="a", pe_count="2 PEs", problem={"n": 1})
    interval = Interval(value, value - 0.25, value + 0.5)
    return SimpleNamespace(gain=interval, ideal=2.0, balanced=result, other=result)


@pytest.mark.parametrize(("most", "kept"), [(4, [3, 1, 2]), (3, [3, 1, 2]), (2, [3, 1]), (1, [3])])
def test_gains_that_are_shown(most: int, kept: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a figure that shows other gains than the smallest and the largest, or in disorder."""
    every = [gain(value) for value in (3, 1, 2)]
    assert [row.gain.value for row in figures.extremes(every, most)] == kept
    monkeypatch.setattr(analysis, "gains", lambda _: every)
    monkeypatch.setattr(figures, "GAINS", most)
    with styled(**{"axes.grid": True}):
        figure = figures.gain_figure([])
    axes, count = axes_of(figure), len(kept)
    assert figure.get_size_inches() == pytest.approx((5.6, 1.7 + 0.55 * count))
    title = f"{count} of 3: largest and smallest gains" if count < 3 else ""
    assert axes.get_title() == title and axes.yaxis_inverted()
    assert titles(axes) == ("time per step without balancing / with it", "")
    gains, ideals = [box for box in axes.containers if hasattr(box, "patches")]
    for bars, middle, hatch in ((gains, -0.19, None), (ideals, 0.19, "////")):
        assert [bar.get_height() for bar in bars] == pytest.approx([0.38] * count)
        middles = [bar.get_y() + bar.get_height() / 2 for bar in bars]
        assert middles == pytest.approx([number + middle for number in range(count)])
        assert {(bar.get_linewidth(), bar.get_hatch()) for bar in bars} == {(0.5, hatch)}
    assert [in_hex(bars[0].get_facecolor()) for bars in (gains, ideals)] == [
        COLOURS[0].lower(),
        "#ffffff",
    ]
    assert [
        any(one.get_visible() for one in lines)
        for lines in (axes.get_xgridlines(), axes.get_ygridlines())
    ] == [True, False]
    none = line(axes, "no gain")
    assert [*none.get_xdata()] == [1, 1]
    assert (none.get_linewidth(), none.get_linestyle()) == (1, "--")
    assert {text.get_fontsize() for text in axes.get_yticklabels()} == {8}
    assert said(figure) == ["gain", "ideal gain (max/mean)", "no gain"]


def test_gains_have_room_for_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches labels over each other, and more bars than a figure has room for."""
    every = [gain(value) for value in (3, 1, 2)]
    monkeypatch.setattr(analysis, "gains", lambda _: every)
    monkeypatch.setattr(figures, "GAINS", 3)
    lines = {id(row): "\n".join("abc"[: 2 + (row is every[1])]) for row in every}
    monkeypatch.setattr(figures, "_gain_label", lambda row, _: lines[id(row)])
    figure = figures.gain_figure([])
    size = 5.6, 1.7 + (0.27 + 3 * figures.LINE) * 2
    assert figure.get_size_inches() == pytest.approx(size)


def test_granularity_of_steps() -> None:
    """Catches limits that cut points off, and a cross that is not named, or named without one."""
    canned = Canned("granularity")
    for size, mean in ((8, 8), (4, 5), (2, 4), (1, 3.2)):
        canned.point("mpi", 2, [mean], size=[size, 1], work=size * 1e6)
    found = analysis.results(canned.campaign())
    for mine, metg in ((found, ["METG(50 %)"]), (found[:2], [])):
        figure = figures.granularity_figure(mine)
        axes = axes_of(figure)
        shortest = min(result.step.value for result in mine) * 1e3
        assert axes.get_xlim() == pytest.approx((shortest / 1.25, 8 * 1.25))
        assert axes.get_ylim() == pytest.approx((-0.04, 1.08)) and axes.get_xscale() == "log"
        assert titles(axes) == ("time per step [ms]", "efficiency")
        half = "half of the best rate per PE"
        assert said(figure)[1:] == [*metg, half]
        assert (line(axes, half).get_linewidth(), line(axes, half).get_linestyle()) == (1, "--")
        for label in ["_metg"] * len(metg):
            cross = line(axes, label)
            assert (cross.get_marker(), cross.get_markersize()) == ("x", 9)
            assert (cross.get_markeredgewidth(), cross.get_zorder()) == (2, 3)
            np.testing.assert_allclose(cross.get_xydata(), [(4, 0.5)])
