"""Tables of studies in detail: notes, units and results of points, each case with its opposite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_study_report import Canned, cells

from miniapps.workbench.run.record import DISTURBED
from miniapps.workbench.study import analysis, tables, validation
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.laws import Fit
from miniapps.workbench.study.statistics import Interval

pytestmark = pytest.mark.usefixtures("intervals_by_hand")
Points = list[tuple[int, list[float]]]  # PEs, and the milliseconds per step of each trial

NO_INTERVAL = "[none]: one trial has no interval"
FEW = "fewer than 5 trials: an interval is hardly more than their range"
SHORT = "runs shorter than 0.2 s: sensitive to brief noise; increase --steps"
TILES = "the time tile differs between points: set --time-tile to compare them"
ONE_NUMBER = "only one number of PEs: no scaling"
LEFT_OUT = "left out: 1 point with more PEs than cores, whose times mean nothing"
KARP_FLATT = (
    "Karp-Flatt: the serial fraction that the speed-up over one PE implies; above 1, more PEs are "
    "slower than one"
)


def study(kind: str, points: Points, **more: Any) -> Canned:
    """A study under mpi."""
    canned = Canned(kind)
    for pes, times in points:
        canned.point("mpi", pes, times, **more)
    return canned


def all_points(canned: Canned) -> tables.Table:
    """The table of all points."""
    campaign = canned.campaign()
    return tables.points_table(campaign, analysis.results(campaign))


@pytest.mark.parametrize(
    ("kind", "points", "notes"),
    [
        ("strong", [(1, [20] * 5)], []),
        ("strong", [(1, [20] * 4)], [FEW]),
        ("strong", [(1, [20] * 2)], [FEW]),
        ("strong", [(1, [20])], [NO_INTERVAL]),
        ("strong", [(1, [19.9] * 5)], [SHORT]),
        ("granularity", [(1, [19.9] * 5)], [f"{SHORT} or --max-steps"]),
        ("strong", [(1, [20] * 5), (2, [20] * 5)], [TILES]),
        ("strong", [(1, [20]), (2, [20] * 3), (4, [5] * 9)], [NO_INTERVAL, FEW, SHORT, TILES]),
    ],
)
def test_notes_of_points(kind: str, points: Points, notes: list[str]) -> None:
    """Catches a warning that is not given, or given just beyond its limit."""
    noise, *said = all_points(study(kind, points)).notes
    assert noise.startswith("machine noise: ") and said == notes


def test_rounds_are_compared_with_the_coarsest_clock() -> None:
    """Catches runs of several starts whose noise is that of the best clock of any.

    The mean round must take a hundred ticks, not the longest or the shortest one.
    """
    canned = study("strong", [(2, [20])])
    (record,) = (event["record"] for event in canned.events)
    walls = record["rounds"]["wall_s"]
    walls[:2] = walls[0] / 2, walls[1] + walls[0] / 2
    record["step_time_s"] |= {"min": walls[0], "max": walls[1]}
    start, usual = canned.start()[0], np.mean(walls)
    for tick, short in ((usual / 99, True), (usual / 101, False)):
        events = [start, start | {"clock_tick_s": tick}, start]
        reason = validation.rejection_reason(Campaign(canned.head(), events), 0, record)
        assert (reason is not None and "is too short for a clock" in reason) == short, reason


def test_widths_are_those_of_mean_steps() -> None:
    """Catches more trials for the interval of another number than the one in the tables."""
    canned = study("strong", [(1, [20, 21]), (2, [20, 20])])
    for event, median in zip(canned.events, (0.02, 0.02, 0.02, 0.03), strict=True):
        event["record"]["step_time_s"]["median"] = median
    assert [*validation.wide_points(canned.campaign(), 0.001)] == [0]


@pytest.mark.parametrize(
    ("work", "unit", "rates"),
    [
        (1e4, "M points/s", ["1.000", "0.5000"]),  # 1e4 points in 10 and in 20 ms
        (9.9e3, "k points/s", ["990.0", "495.0"]),
        (9.0, "points/s", ["900.0", "450.0"]),
        (1e10, "G points/s", ["1,000", "500.0"]),
    ],
)
def test_rates_have_the_unit_of_the_best(work: float, unit: str, rates: list[str]) -> None:
    """Catches a prefix that is not that of the numbers, and a unit of the slowest point."""
    table = all_points(study("strong", [(1, [10]), (2, [20])], work=work))
    assert cells(table, f"rate [{unit}]") == rates
    assert cells(table, "ms per step") == ["10.00 [10.00, 10.00]", "20.00 [20.00, 20.00]"]


def test_results_of_points() -> None:
    """Catches a reason that is given for another point, and a point with a run that has none."""
    canned = study("strong", [(1, [20, 20]), (2, []), (2, []), (8, [20]), (4, [20])])
    canned.drop(1, 0, "one reason")
    canned.drop(1, 1, "another reason")
    canned.drop(4, 1, "one reason")
    none = {"load_average": 0.0, "switches_per_s": 0.0, "steal": 0.0}
    for waited in (DISTURBED, DISTURBED + 0.01):
        canned.point("charm", 2, [20], disturbance=none | {"waited": waited})
    assert cells(all_points(canned), "result") == [
        "valid",
        "2 dropped: one reason; another reason",
        "no run that counts",
        "valid; oversubscribed: times mean nothing",
        "1 dropped: one reason",
        "valid",
        "valid; 1 of 1 run disturbed",
    ]
    empty = all_points(study("strong", [(1, [])]))
    assert empty.rows == (("mpi", "1", "the same", "0", "-", "-", "-", "-", "no run that counts"),)
    assert "rate [1/s]" in [column.title for column in empty.columns]


@pytest.mark.parametrize(
    ("kind", "pes", "notes"),
    [
        ("strong", (1,), [ONE_NUMBER]),
        ("strong", (2,), [ONE_NUMBER, KARP_FLATT]),
        ("strong", (1, 8), [LEFT_OUT, ONE_NUMBER]),
        ("strong", (1, 2), [KARP_FLATT]),
        ("weak", (1, 2), []),
        ("weak", (2,), [ONE_NUMBER]),
    ],
)
def test_notes_of_scaling(kind: str, pes: tuple[int, ...], notes: list[str]) -> None:
    """Catches scaling over one number of PEs without a word, and a word on what is not there."""
    campaign = study(kind, [(count, [20, 21]) for count in pes]).campaign()
    table = tables.scaling_table(analysis.results(campaign), kind == "weak")
    assert [*table.notes] == notes


@pytest.mark.parametrize(("pes", "serial"), [((1, 1, 2), ["-", "-", "1.0"]), ((2, 4), ["-", "-"])])
def test_serial_fractions_are_over_one_pe(pes: tuple[int, ...], serial: list[str]) -> None:
    """Catches the serial fraction of a speed-up over two PEs, for which it is not defined."""
    campaign = study("strong", [(count, [20, 20]) for count in pes]).campaign()
    table = tables.scaling_table(analysis.results(campaign), weak=False)
    assert cells(table, "Karp-Flatt") == serial


def test_shares_are_of_the_best_rate_of_all() -> None:
    """Catches an efficiency of times, or over the best rate of the own or of the first points.

    And a METG of another share, and the step of a PE as that of each of its blocks.
    """
    canned = Canned("granularity")
    for driver, size, mean in (("mpi", 4, 8), ("mpi", 2, 5), ("charm", 4, 4), ("charm", 2, 2.5)):
        odf, work = (4 if driver == "charm" else 1), size * 1e6
        canned.point(driver, 2, [mean, mean], odf=odf, size=[size, 1], work=work)
    table = tables.granularity_table(analysis.results(canned.campaign()))
    assert cells(table, "efficiency") == ["50.0%", "40.0%", "100.0%", "80.0%"]
    steps = [float(cell.split()[0]) for cell in cells(table, "step of a block [ms]")]
    assert steps == [8, 5, 1, 0.625]
    steps = [cell.split()[0] for cell in cells(table, "step [ms]")]
    assert steps == ["8.000", "5.000", "4.000", "2.500"]
    assert cells(table, "METG(50 %)") == ["8.0 ms [5.0, 8.0]"] * 2 + ["below 2.5 ms"] * 2


def test_no_work_has_no_efficiency() -> None:
    """Catches a division by the best rate of a study in which no run had work to do."""
    canned = Canned("granularity")
    for size, mean in ((4, 8), (2, 5)):
        canned.point("mpi", 2, [mean, mean], size=[size, 1], work=0.0)
    table = tables.granularity_table(analysis.results(canned.campaign()))
    assert cells(table, "efficiency") == ["0.0%", "0.0%"]


def test_the_base_of_a_scaling_is_exact() -> None:
    """Catches an interval around the speed-up of a point over itself."""
    (row,) = analysis.scaling(analysis.results(study("strong", [(2, [20, 30])]).campaign()), False)
    assert row.speedup == row.efficiency == Interval(1, 1, 1)


def test_numbers_of_a_point_are_means_over_trials() -> None:
    """Catches a median, and the numbers of the first trial."""
    canned = study("strong", [(2, [20, 20, 20])])
    for event, part in zip(canned.events, (0.2, 0.3, 0.7), strict=True):
        event["record"] |= {"utilisation": part, "imbalance": 2 + part}
    table = all_points(canned)
    assert (cells(table, "utilisation"), cells(table, "imbalance")) == (["40.0%"], ["2.400"])


def test_one_oversubscribed_trial_is_enough() -> None:
    """Catches a time to quote of a point of which one trial had more PEs than cores."""
    canned = study("strong", [(2, [20, 20])])
    assert not analysis.results(canned.campaign())[0].oversubscribed
    canned.events[1]["record"]["oversubscribed"] = True
    (row,) = all_points(canned).rows
    assert row[-1] == "valid; oversubscribed: times mean nothing"


def test_a_law_at_the_limit_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a limit that says of laws at it what holds above it."""
    one = Interval(1, 1, 1)
    for residual, notes in ((tables.POOR, 0), (tables.POOR + 0.01, 1)):
        fit = Fit("amdahl", {"time": one, "serial": one}, residual, "")
        monkeypatch.setattr(analysis, "fits", lambda *_: [("mpi", fit)])  # noqa: B023
        assert len(tables.fits_table([], weak=False).notes) == notes


def test_a_gain_says_that_its_trials_are_too_few() -> None:
    """Catches a p that no number of trials like this can make significant."""
    canned = study("lb", [(2, [20, 21, 22])])
    canned.point("charm", 2, [10, 11, 12], odf=4, balancer="Greedy")
    campaign = canned.campaign()
    (note,) = tables.gains_table(campaign, analysis.results(campaign)).notes
    assert "3 against 3 trials cannot reach p < 0.01" in note
