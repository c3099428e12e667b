"""The figure of a PE's time in detail: its panels, where bars are, limits, lines and labels."""

from __future__ import annotations

from typing import Any

import pytest
from test_study_report import Canned

from miniapps.workbench.study import analysis, parts
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.drawing import new_figure

pytestmark = pytest.mark.usefixtures("intervals_by_hand")


def points(*given: tuple[str, int, int, float]) -> tuple[Any, list[Result]]:
    """A campaign and its results: driver, PEs, ODF and milliseconds per step of each."""
    canned = Canned()
    for driver, pes, odf, mean in given:
        canned.point(driver, pes, [mean], odf=odf)
    campaign = canned.campaign()
    return campaign, analysis.results(campaign)


ONE = "charm ODF 1"


@pytest.mark.parametrize(
    ("pes", "odfs", "panels"),  # of each point
    [
        ([2] * 14, [1], [("", 14)]),
        ([2] * 15, [1], [("charm ODF 1, 2 PEs", 8), ("charm ODF 1, 2 PEs, continued", 7)]),
        (range(1, 16), [1], [("charm ODF 1", 8), ("charm ODF 1, continued", 7)]),
        ([2] * 28, [1], [("charm ODF 1, 2 PEs", 14), ("charm ODF 1, 2 PEs, continued", 14)]),
        (
            [1] * 29,
            [1],
            [("charm ODF 1, 1 PE", 10)] + [("charm ODF 1, 1 PE, continued", n) for n in (10, 9)],
        ),
        (
            [2] * 16,
            [1, 2, 3, 4],
            [("charm ODF 1, 2 PEs", 4)] + [(f"charm ODF {n}, 2 PEs", 4) for n in "234"],
        ),
        ([2] * 16, [1, 2, 3, 4, 5], [("", 8), ("", 8)]),
        ([2] * 10, [1, 2, 3], [("", 10)]),
    ],
)
def test_panels(pes: Any, odfs: list[int], panels: list[tuple[str, int]]) -> None:
    """Catches a panel of too many bars, of two configurations, or with another's title."""
    given = [("charm", n, odfs[number % len(odfs)], 1.0) for number, n in enumerate(pes)]
    _, found = points(*given)
    assert [(title, len(mine)) for title, mine in parts._panels(found)] == panels
    shown = [result.number for _, mine in parts._panels(found) for result in mine]
    assert sorted(shown) == [*range(len(found))]


@pytest.mark.parametrize("lines", [1, 3])
@pytest.mark.parametrize(
    ("panels", "title", "width", "rows", "columns"),
    [
        (1, "", 5.6, 1, 1),
        (2, "", 11.2, 1, 2),
        (3, "", 11.2, 2, 2),
        (1, "mpi", 5.6, 1, 1),
        (3, "mpi", 11.2, 1, 3),
        (4, "mpi", 11.2, 2, 2),
        (5, "mpi", 11.2, 2, 3),
        (7, "mpi", 11.2, 3, 3),
    ],
)
def test_layout(panels: int, title: str, width: float, rows: int, columns: int, lines: int) -> None:
    """Catches a figure that is not as high as its longest panels, or has no room for one."""
    found = parts._layout([(title, [None] * (3 + number % 2)) for number in range(panels)], lines)
    highest = (0.13 + 0.14 * lines) * (3 if panels == 1 else 4)
    assert found == pytest.approx((width, 0.9 + rows * (0.6 + highest), rows, columns))


def test_figure_has_room_for_the_longest_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches labels over each other."""
    campaign, found = points(("mpi", 1, 1, 1.0), ("mpi", 2, 1, 2.0))
    monkeypatch.setattr(parts, "_label", lambda _, result, title: "a" + "\na" * 2 * result.number)
    size = parts.parts_figure(campaign, found).get_size_inches()
    assert size == pytest.approx(parts._layout(parts._panels(found), 3)[:2])


def test_labels_are_broken_in_narrow_panels() -> None:
    """Catches a label beyond its panel, and one that is broken where there is room."""
    canned = Canned("granularity")
    for size in ([3, 1], [2, 1]):
        canned.point("mpi", 2, [1], size=size, tile=size[0])
    campaign = canned.campaign()
    result = analysis.results(campaign)[0]
    assert parts._label(campaign, result, "") == "mpi, 2 PEs, size 3x1, time tile 3"
    assert parts._label(campaign, result, "mpi") == "2 PEs, size 3x1,\ntime tile 3"


@pytest.mark.parametrize(("apart", "positions"), [(0, [0, 1]), (1, [0, 1.8]), (2, [0.8, 1.8])])
def test_bars_of_too_many_pes_are_apart(apart: int, positions: list[float]) -> None:
    """Catches a line between points that are alike, or above all of them, and bars out of order."""
    given = [("mpi", 8 if number >= 2 - apart else 2, 1, 1.0046 + number) for number in range(2)]
    _, found = points(*given)
    _, axes = new_figure()
    axes.grid(visible=True)
    parts._draw_panel(axes, found, parts.PARTS, False)
    assert [*axes.get_yticks()] == positions
    assert axes.get_ylim() == pytest.approx((positions[1] + 0.7, positions[0] - 0.7))
    middles = [bar.get_y() + bar.get_height() / 2 for bar in axes.containers[0]]
    assert middles == pytest.approx(positions) and axes.patches[0].get_height() == 0.72
    assert [text.get_text() for text in axes.texts] == ["1.00 ms", "2.00 ms"]
    assert {(text.xyann, text.get_fontsize()) for text in axes.texts} == {((3, 0), 7.5)}
    assert {bar.get_linewidth() for bar in axes.patches} == {0.5}
    lines = [(line.get_ydata()[0], line.get_linewidth()) for line in axes.lines]
    assert lines == ([(0.9, 0.8)] if apart == 1 else [])
    assert not any(line.get_visible() for line in axes.get_ygridlines())


@pytest.mark.parametrize(
    ("longest", "shares", "end"), [(12, False, 1.3 * 12), (12.5, True, 130), (4, False, 1.3 * 4)]
)
def test_scale_of_bars(longest: float, shares: bool, end: float) -> None:
    """Catches shares where all bars can be seen, and bars or their lengths that are cut off."""
    campaign, found = points(("mpi", 1, 1, 1.0), ("mpi", 2, 1, longest))
    figure = parts.parts_figure(campaign, found)
    axes, *others = figure.axes
    assert len(figure.legends) == 1
    assert {text.get_fontsize() for text in axes.get_yticklabels()} == {8}
    assert axes.get_xlim() == pytest.approx((0, end)) and not others
    title = "share of a step [%]" if shares else "a PE's time per step [ms]"
    assert axes.get_xlabel() == title
    assert ([*axes.get_xticks()] == [0, 25, 50, 75, 100]) is shares


@pytest.mark.parametrize(
    ("kind", "pes", "title", "label"),
    [
        ("strong", 2, "", "mpi, 2 PEs"),
        ("strong", 2, "mpi", "2 PEs"),
        ("strong", 2, "mpi, 2 PEs", "2 PEs"),
        ("strong", 8, "", "mpi, 8 PEs (more PEs than cores)"),
        ("strong", 8, "mpi, 8 PEs", "8 PEs\n(more PEs than cores)"),
        ("granularity", 2, "", "mpi, 2 PEs, size 3x1"),
        ("granularity", 2, "mpi, 2 PEs", "size 3x1"),
    ],
)
def test_labels(kind: str, pes: int, title: str, label: str) -> None:
    """Catches a point that its panel and its label together do not name, or name twice."""
    canned = Canned(kind)
    canned.point("mpi", pes, [1], size=[3, 1])
    canned.point("mpi", pes, [1], size=[2, 1])
    campaign = canned.campaign()
    result = analysis.results(campaign)[0]
    assert parts._label(campaign, result, title) == label
