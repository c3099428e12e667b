"""Figures of studies, read as a reader does, against records whose numbers are known by hand.

Intervals reach from the least to the largest trial here, so that both ends have a value by hand,
and differ from the mean by different amounts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn import (
    assert_intervals,
    assert_ticks_are_values,
    bars,
    in_hex,
    laid_out,
    lines,
    names,
    text_of,
    titles,
    whiskers,
)
from test_study_report import Canned

from miniapps.workbench.study import figures, noise
from miniapps.workbench.study.tables import tables

MS, PES = "time per step [ms]", "PEs"
pytestmark = pytest.mark.usefixtures("few_resamples", "intervals_by_hand")
TITLES = {  # of the axes of each figure
    "step-time": (PES, MS),
    "speed-up": (PES, "speed-up"),
    "scaled speed-up": (PES, "scaled speed-up"),
    "efficiency": (PES, "parallel efficiency"),
    "odf": ("ODF: blocks per PE", MS),
    "gain": ("time per step without balancing / with it", ""),
    "granularity": (MS, "efficiency"),
    "parts": ("a PE's time per step [ms]", ""),
    "shares": ("share of a step [%]", ""),
}


def drawn(canned: Canned, name: str, shown: str = "") -> tuple[Any, Any]:
    """A figure of a study and its axes, as `read` finds them."""
    return read(figures.figures(canned.campaign()), name, shown)


def read(found: dict[str, Any], name: str, shown: str = "") -> tuple[Any, Any]:
    """A figure and its axes, which must have the titles and ticks of its kind."""
    figure = laid_out(found[name])
    (axes,) = figure.axes
    assert titles(axes) == TITLES[shown or name]
    assert_ticks_are_values(figure)
    return figure, axes


def assert_line(axes: Any, name: str, points: list[tuple[float, float]]) -> None:
    """Assert that the only line of a name goes through those points."""
    (found,) = [places for mine, places in lines(axes) if mine == name]
    np.testing.assert_allclose(found, points)


def assert_level(axes: Any, name: str, value: float, axis: int = 1) -> None:
    """Assert that the only line of a name is at one value of an axis, over all of the other."""
    (found,) = [places for mine, places in lines(axes) if mine == name]
    np.testing.assert_allclose(found[:, axis], value)
    ends = axes.viewLim.get_points()[:, 1 - axis]
    np.testing.assert_allclose(sorted(found[:, 1 - axis]), sorted(ends), atol=1e-9)


def assert_bars(found: dict[str, tuple[float, float]], wanted: dict[str, Any]) -> None:
    """Assert that bars are those of the ticks of these names, in order, from where to where."""
    assert [*found] == [*wanted]
    for name, ends in wanted.items():
        np.testing.assert_allclose(found[name], ends, atol=1e-12)


def scaled(kind: str) -> Canned:
    """A study of scaling: means of 9, 6 and 3 ms under mpi, 7 and 5 ms under charm from 2 PEs on.

    On 8 PEs, more than there are cores, charm needs 8 ms.
    """
    canned = Canned(kind)
    for driver, pes, times in (
        ("mpi", 1, (6, 8, 13)),
        ("mpi", 2, (4, 5, 9)),
        ("mpi", 4, (2.5, 3, 3.5)),
        ("charm", 2, (5, 6, 10)),
        ("charm", 4, (3, 4, 8)),
        ("charm", 8, (7, 7.5, 9.5)),
    ):
        more = {"size": [10 * pes, 10], "work": pes * 1e6} if kind == "weak" else {}
        canned.point(driver, pes, times, odf=4 if driver == "charm" else 1, **more)
    return canned


@pytest.fixture(scope="module")
def scaling(intervals_by_hand: None) -> dict[str, dict[str, Any]]:
    """The figures of studies of scaling, by kind."""
    return {kind: figures.figures(scaled(kind).campaign()) for kind in ("strong", "weak")}


TIMES: dict[str, list[tuple[float, ...]]] = {
    "mpi": [(1, 9, 6, 13), (2, 6, 4, 9), (4, 3, 2.5, 3.5)],
    "charm ODF 4": [(2, 7, 5, 10), (4, 5, 3, 8)],
    "charm ODF 4, open": [(8, 8, 7, 9.5)],
}
GAINS: dict[str, list[tuple[float, ...]]] = {  # times of the fewest PEs over those of others
    "mpi": [(1, 1, 1, 1), (2, 9 / 6, 6 / 9, 13 / 4), (4, 9 / 3, 6 / 3.5, 13 / 2.5)],
    "charm ODF 4": [(2, 1, 1, 1), (4, 7 / 5, 5 / 8, 10 / 3)],
}


def times(found: dict[str, list[tuple[float, ...]]], power: int) -> dict[str, Any]:
    """Values times a power of the factor by which PEs grew, from the fewest of each line."""
    return {
        name: [(p, *(v * (p / points[0][0]) ** power for v in values)) for p, *values in points]
        for name, points in found.items()
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "ideal"),
    [("strong", [(1, 9), (2, 4.5), (4, 2.25)]), ("weak", [(1, 9), (2, 9), (4, 9)])],
)
def test_times_per_step(kind, ideal, scaling):
    """Catches another unit, error bars upside down, names of other lines, another ideal."""
    _, axes = read(scaling[kind], "step-time")
    assert axes.get_xscale() == axes.get_yscale() == "log"  # on which the ideal is straight
    assert_intervals(axes, TIMES)
    assert_line(axes, "ideal", ideal)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "power"), [("strong", 0), ("weak", 1)])
def test_speed_ups(kind: str, power: int, scaling: dict[str, dict[str, Any]]) -> None:
    """Catches a ratio upside down, also of its bounds, another base, a growth that is left out."""
    _, axes = read(scaling[kind], "speed-up", "scaled speed-up" if power else "")
    assert axes.get_xscale() == axes.get_yscale() == "log"  # on which the ideal is straight
    assert [text_of(label) for label in axes.get_xticklabels()] == ["1", "2", "4"]
    assert_intervals(axes, times(GAINS, power))
    assert_line(axes, "ideal", [(1, 1), (2, 2), (4, 4)])


@pytest.mark.long
@pytest.mark.parametrize(("kind", "power"), [("strong", -1), ("weak", 0)])
def test_efficiencies(kind: str, power: int, scaling: dict[str, dict[str, Any]]) -> None:
    """Catches a division by other PEs, bounds that are not divided, percent for a fraction."""
    _, axes = read(scaling[kind], "efficiency")
    assert_intervals(axes, times(GAINS, power))
    assert_level(axes, "ideal", 1)


@pytest.mark.long
def test_laws_are_those_of_their_lines() -> None:
    """Catches a law that is drawn in another line's colour, or over the wrong PEs.

    Amdahl's law with a serial part of 1/4 under mpi, and of 1/2 under charm.
    """
    canned = Canned()
    for driver, serial in (("mpi", 0.25), ("charm", 0.5)):
        for pes in (1, 2, 4):
            mean = 8 * (serial + (1 - serial) / pes)
            canned.point(driver, pes, (0.9 * mean, mean, 1.1 * mean))
    _, axes = drawn(canned, "speed-up")
    points = {line.get_color(): line for line in axes.lines if line.get_marker() in "os"}
    laws = [line for line in axes.lines if line.get_label() == "_law"]
    assert len(laws) == 4 and {"fit of Amdahl", "fit of USL"} <= {*names(axes).values()}
    for law in laws:
        measured = points[law.get_color()].get_ydata()
        x, y = law.get_data()
        np.testing.assert_allclose(np.interp([1, 2, 4], x, y), measured, rtol=1e-3)


# Over-decomposition, balancing, granularity -------------------------------------------------------


@pytest.mark.long
def test_over_decomposition() -> None:
    """Catches blocks in all for blocks per PE, a band of another interval, a name exchanged."""
    canned = Canned("odf")
    canned.point("mpi", 2, (6, 7, 11))
    canned.point("charm", 2, (7, 8, 12), odf=1)
    canned.point("charm", 2, (3, 4, 8), odf=4)
    _, axes = drawn(canned, "odf")
    assert_intervals(axes, {"charm, 2 PEs": [(1, 9, 7, 12), (4, 5, 3, 8)]})
    assert axes.get_xscale() == "log"
    assert [text_of(label) for label in axes.get_xticklabels()] == ["1", "4"]
    assert_level(axes, "mpi, 2 PEs", 8)
    (band,) = axes.patches
    (_, low), (_, high) = band.get_bbox().get_points()
    assert (low, high) == pytest.approx((6, 11))
    mpi = next(line for line in axes.lines if set(line.get_ydata()) == {8.0})
    assert in_hex(band.get_facecolor()) == in_hex(mpi.get_color())


def balanced() -> Canned:
    """Means of 8 ms under mpi, of 11 ms under charm without balancing, and of 5 ms with it."""
    canned = Canned("lb", app="pic")
    canned.point("mpi", 2, (6, 7, 11), imbalance=1.5)
    canned.point("charm", 2, (9, 10, 14), odf=4, imbalance=1.8)
    moves = [{"moved": 3, "seconds": 0.004}, {"moved": 2, "seconds": 0.006}]
    more = {"imbalance": 1.1, "lb": moves, "compute_s": 2 * 10 * 0.0025}
    canned.point("charm", 2, (4, 5, 6), odf=4, balancer="Greedy", **more)
    return canned


@pytest.mark.long
def test_gains_of_balancing() -> None:
    """Catches a gain upside down, an ideal of the balanced run, error bars of another row."""
    _, axes = drawn(balanced(), "gain")
    what = "charm ODF 4 Greedy, every 5 steps, 2 PEs against"
    found = bars(axes)
    assert found.keys() == {"gain", "ideal gain (max/mean)"}
    wanted = {f"{what} mpi": (0, 8 / 5), f"{what} charm ODF 4": (0, 11 / 5)}
    assert_bars(found["gain"], wanted)
    wanted = {f"{what} mpi": (0, 1.5), f"{what} charm ODF 4": (0, 1.8)}
    assert_bars(found["ideal gain (max/mean)"], wanted)
    heights = [sum(bar.get_bbox().intervaly) / 2 for bar in axes.patches[:2]]
    ends = [(heights[0], 6 / 6, 11 / 4), (heights[1], 9 / 6, 14 / 4)]
    np.testing.assert_allclose(whiskers(axes), ends)
    assert_level(axes, "no gain", 1, axis=0)


@pytest.mark.long
def test_granularity() -> None:
    """Catches efficiencies of another configuration, steps in another unit, a METG elsewhere.

    Both do 8, 4 and 2 million points in a step. Under mpi 1, 0.8 and 0.4 points per ns and PE.
    """
    canned = Canned("granularity")
    for driver, odf, means in (("mpi", 1, (4, 2.5, 2.5)), ("charm", 4, (5, 4, 5))):
        for size, mean in zip((8, 4, 2), means, strict=True):
            trials = (mean - 0.5 + size / 100, mean + 0.5 + size / 100)
            more: dict[str, Any] = {"size": [size, 1], "work": size * 1e6}
            canned.point(driver, 2, trials, odf=odf, **more)
    _, axes = drawn(canned, "granularity")
    best = 8 / 4.08
    found = dict((name, at) for name, at in lines(axes) if "METG" in name and len(at) == 3)
    shares = {"mpi": (4.08, 2.54, 2.52), "charm ODF 4": (5.08, 4.04, 5.02)}
    assert len(found) == 2
    for name, at in found.items():
        steps = shares[name.partition(", 2 PEs")[0]]
        work = np.array([8, 4, 2])
        np.testing.assert_allclose(at, np.transpose([steps, work / steps / best]))
    crosses = {line.get_color(): line for line in axes.lines if line.get_label() == "_metg"}
    mpi = next(line for line in axes.lines if line.get_label().startswith("mpi"))
    ((x,), (y,)) = crosses[mpi.get_color()].get_data()
    assert y == 0.5 and 2.52 < x < 2.54
    assert "METG(50 %)" in names(axes).values()
    assert_level(axes, "half of the best rate per PE", 0.5)
    (table,) = [table for table in tables(canned.campaign()) if table.title == "Granularity"]
    titled = [column.title for column in table.columns]
    column = [row[titled.index("step of a block [ms]")] for row in table.rows]
    assert [float(cell) for cell in column] == pytest.approx(
        [4.08, 2.54, 2.52, 5.08 / 4, 5.02 / 4, 4.04 / 4], rel=1e-3
    )


# Parts of a step ----------------------------------------------------------------------------------


@pytest.mark.long
def test_parts_of_a_step() -> None:
    """Catches times of all PEs for one's, of all steps for one's, parts that are exchanged.

    Balanced: 5 ms a step. Two PEs compute 50 ms in 10 steps: 2.5 ms; balancing takes 10 ms: 1 ms.
    """
    _, axes = drawn(balanced(), "parts")
    found = bars(axes)
    name = "charm ODF 4 Greedy, every 5 steps, 2 PEs"
    parts = {"compute": (0, 2.5), "wait": (2.5, 4), "balance": (4, 5)}
    assert_bars({part: found[part][name] for part in found}, parts)
    assert found["wait"]["mpi, 2 PEs"] == pytest.approx((4, 8))
    assert len({part[0].get_hatch() for part in axes.containers}) == 3  # in print
    assert [*found["compute"]] == ["mpi, 2 PEs", "charm ODF 4, 2 PEs", name]
    said = {round(text.xy[1]): (text.xy[0], text_of(text)) for text in axes.texts}
    assert {at: said[at][1] for at in said} == {0: "8.00 ms", 1: "11.0 ms", 2: "5.00 ms"}
    assert [said[at][0] for at in range(3)] == pytest.approx([8, 11, 5])


@pytest.mark.long
def test_parts_as_shares() -> None:
    """Catches shares of the longest step, or milliseconds, on an axis of percent."""
    canned = balanced()
    canned.point("mpi", 1, (190, 200, 210), compute_s=10 * 0.05)
    _, axes = drawn(canned, "parts", "shares")
    found = bars(axes)
    name = "charm ODF 4 Greedy, every 5 steps, 2 PEs"
    parts = {"compute": (0, 50), "wait": (50, 80), "balance": (80, 100)}
    assert_bars({part: found[part][name] for part in found}, parts)
    assert {"200 ms", "5.00 ms"} <= {text_of(text) for text in axes.texts}


def test_noise_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches work that is left out, a time of day, and a tick of 0 or of another length."""
    readings = [5.0, 5.0, 5.5, 5.75, 5.75, 8.0]
    monkeypatch.setattr(noise, "READINGS", len(readings))
    monkeypatch.setattr(noise, "perf_counter", iter(readings).__next__)
    assert noise.clock_tick() == 0.25
    now = [100.0]

    def takes(seconds: float) -> Any:
        def work(*_: Any, out: Any) -> None:
            now[0] += seconds

        return work

    monkeypatch.setattr(noise, "perf_counter", lambda: now[0])
    monkeypatch.setattr(noise.np, "multiply", takes(2.0))
    monkeypatch.setattr(noise.np, "add", takes(1.0))
    assert noise.sample() == noise.REPEATS * 3.0
    monkeypatch.setattr(noise, "clock_tick", lambda: 0.25)
    found = noise.noted()
    assert (found["clock_tick_s"], found["seconds"]) == (0.25, noise.REPEATS * 3.0)
    assert found.keys() == {"versions", "host", "clock_tick_s", "seconds"}
