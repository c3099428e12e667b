"""Tables, figures and page of campaigns built by hand, with numbers that can be checked by hand."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from support import ROOT, in_process

from miniapps.parameters import InputError
from miniapps.workbench.study import (
    analysis,
    drawing,
    figures,
    provenance,
    report,
    tables,
    validation,
)
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.cells import half_point, number, with_bounds
from miniapps.workbench.study.statistics import Interval

pytestmark = pytest.mark.usefixtures("few_resamples")
STEPS = 10
HASH, OTHER_HASH = "1887" * 16, "beef" * 16
HOSTILE = "<script>alert('x')</script> & --> </svg>"
MACHINE = "Machine and versions"  # a table
AROUND = (-0.1, 0.0, 0.1)  # trials around a mean


@dataclass
class Canned:
    """A campaign by hand: `point` adds a point with its trials, times in ms."""

    kind: str = "strong"
    app: str = "jacobi2d"
    points: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def point(self, driver: str, pes: int, times_ms: Any = (), **more: Any) -> int:
        """Add a point and a run for each time; ``more``: keys of the records."""
        number = len(self.points)
        case = {"driver": driver, "pes": pes, "odf": more.pop("odf", 1)}
        balancer, size = more.pop("balancer", None), more.pop("size", [10, 10])
        tile = more.pop("tile", pes)
        case |= {"balancer": balancer, "lb_period": 5 if balancer else 0}
        problem = {"size": size, "time_tile": tile}
        words = ["run", self.app, "--driver", driver, "-n", str(pes)]
        self.points.append(case | {"problem": problem, "arguments": words})
        for trial, time_ms in enumerate(times_ms):
            made = _record(case | {"problem": problem}, time_ms / 1e3, more)
            command = f"launch point {number}"
            run = {"trial": trial, "point": number, "command": command, "record": made}
            self.events.append({"event": "run", **run})
        return number

    def drop(self, number: int, trial: int, reason: str) -> None:
        """Add a run that did not count."""
        entry = {"trial": trial, "point": number, "reason": reason, "final": True}
        self.events.append({"event": "dropped", "command": f"dropped {number}", **entry})

    def head(self) -> dict[str, Any]:
        """The first line."""
        study = {"kind": self.kind, "app": self.app, "steps": STEPS, "warmup": 2}
        study |= {"device": "cpu", "shuffle_seed": 77, "problem": {}}
        return {"campaign": 1, "study": study, "points": self.points}

    def start(self) -> list[dict[str, Any]]:
        """A start, and the noise: median 10 ms, from the first to the ninth tenth 8 % of it."""
        around = {"versions": {"python": "3.11.7"}, "host": support.HOST, "clock_tick_s": 6e-8}
        noise = [{"event": "noise", "seconds": ms / 1e3} for ms in np.linspace(9.5, 10.5, 11)]
        return [{"event": "start", "pinned": True, **around}, *noise]

    def campaign(self) -> Campaign:
        """As it is read from a file."""
        return Campaign(self.head(), [*self.start(), *self.events])

    def text(self) -> str:
        """As the text of a file."""
        lines = [self.head(), *self.start(), *self.events]
        return "".join(json.dumps(line) + "\n" for line in lines)

    def write(self, path: Path) -> Path:
        """As a file."""
        path.write_text(self.text())
        return path


def _record(point: dict[str, Any], step_s: float, more: dict[str, Any]) -> dict[str, Any]:
    """A record in which a PE computes half of the time; a step does ``work`` points."""
    more = {"work": 1e6, "state_hash": HASH} | more
    driver = {"mpi": {"mpi": "MPICH 5"}, "charm": {"charm": "netlrts"}}.get(point["driver"], {})
    work = more.pop("work")
    given = point | {"app": "jacobi2d", "warmup": 2, "steps": STEPS} | more
    return support.whole_record({"versions": {"python": "3.11.7", **driver}} | given, step_s, work)


def trials(mean_ms: float) -> list[float]:
    """Three trials with this mean."""
    return [mean_ms + offset for offset in AROUND]


def strong_study() -> Canned:
    """Under mpi Amdahl's law with a serial part of 1/4, t(p) = 8 ms (1/4 + 3/4 / p).

    t(1) = 8, t(2) = 5, t(4) = 3.5 ms. charm is slower: 9 and 6 ms. 8 PEs are too many for 4 cores.
    """
    canned = Canned()
    for driver, pes, mean in (("serial", 1, 8.4), ("mpi", 1, 8), ("mpi", 2, 5), ("mpi", 4, 3.5)):
        canned.point(driver, pes, trials(mean))
    canned.point("charm", 1, trials(9), odf=4)
    canned.point("charm", 2, trials(6), odf=4)
    canned.point("mpi", 8, trials(7))
    return canned


@pytest.fixture
def strong() -> Canned:
    """One that a test may add to."""
    return strong_study()


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing, for tests that look at words only: a figure takes a fifth of a second."""
    monkeypatch.setattr(figures, "figures", lambda campaign, overlay: {})


@pytest.fixture
def only_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write figures only in the form that the page contains."""
    monkeypatch.setattr(report, "FORMATS", ("svg",))


@pytest.fixture
def balancing() -> Canned:
    """Steps of 5 ms under mpi, 6 ms without balancing (imbalance 1.8), 4 ms with it."""
    canned = Canned("lb")
    canned.point("mpi", 2, trials(5), imbalance=1.5)
    canned.point("charm", 2, trials(6), odf=4, imbalance=1.8)
    moves = [{"moved": 3, "seconds": 0.004}, {"moved": 2, "seconds": 0.001}]
    canned.point("charm", 2, trials(4), odf=4, balancer="Greedy", imbalance=1.1, lb=moves)
    return canned


@pytest.fixture
def granularity() -> Canned:
    """Work halved from 8e6 to 1e6 points, steps of 8, 5, 4, 3.2 ms.

    Rates 1, 0.8, 0.5, 0.3125 points per ns: half of the best is left at 4 ms.
    """
    canned = Canned("granularity")
    for size, mean in ((8, 8), (4, 5), (2, 4), (1, 3.2)):
        canned.point("mpi", 2, trials(mean), size=[size, 1], work=size * 1e6)
    return canned


def factors_study() -> Canned:
    """Steps of 5 ms under mpi; charm 8, 4, 6 ms with ODF 1, 2, 4."""
    canned = Canned("odf")
    canned.point("mpi", 2, trials(5))
    for odf, mean in ((1, 8), (2, 4), (4, 6)):
        canned.point("charm", 2, trials(mean), odf=odf)
    return canned


def titled(found: list[tables.Table], title: str) -> tables.Table:
    """The table of a title."""
    return next(table for table in found if table.title == title)


def cells(table: tables.Table, column: str) -> list[str]:
    """A column by its title."""
    place = [column.title for column in table.columns].index(column)
    return [row[place] for row in table.rows]


def values(found: list[str]) -> list[float | None]:
    """The numbers in front of intervals; None for a cell without one."""
    numbers = [re.match(r"-?[\d.,]+(e-?\d+)?", cell) for cell in found]
    return [float(match[0].replace(",", "")) if match else None for match in numbers]


# Tables -------------------------------------------------------------------------------------------


def test_speedup_efficiency_karp_flatt(strong: Canned) -> None:
    """Catches a wrong base, an efficiency over the wrong PEs, a serial fraction of the efficiency.

    S(2) = 8/5 = 1.6, E = 0.8, Karp-Flatt (1/1.6 - 1/2) / (1 - 1/2) = 0.25; S(4) = 8/3.5 = 2.286,
    E = 0.5714, Karp-Flatt 0.25 again. charm: S(2) = 9/6 = 1.5, E = 0.75, (2/3 - 1/2) * 2 = 1/3.
    """
    table = titled(tables.tables(strong.campaign()), "Strong scaling")
    configurations = list(zip(cells(table, "configuration"), cells(table, "PEs"), strict=True))
    assert configurations == [
        ("serial", "1"),
        *[("mpi", pes) for pes in "124"],
        *[("charm ODF 4", pes) for pes in "12"],
    ]
    assert values(cells(table, "speed-up")) == [1, 1, 1.6, 2.29, 1, 1.5]
    assert values(cells(table, "efficiency")) == [1, 1, 0.8, 0.571, 1, 0.75]
    assert values(cells(table, "Karp-Flatt")) == [None, None, 0.25, 0.25, None, 0.33]
    low, high = json.loads(cells(table, "speed-up")[2].partition(" ")[2])
    assert 1.5 < low < 1.6 < high < 1.7


@pytest.mark.long
def test_a_configuration_has_one_name(balancing: Canned) -> None:
    """Catches "charm 2 x ODF 4, Greedy" on the terminal and "charm ODF 4 Greedy" in the report."""
    for canned in (factors_study(), balancing):
        campaign = canned.campaign()
        names = [result.configuration for result in analysis.results(campaign)]
        assert cells(titled(tables.tables(campaign), "All points"), "configuration") == names
        for position, result in enumerate(analysis.results(campaign)):
            in_words = f"{result.configuration}, {result.pe_count}"
            assert str(result.case) == in_words
            assert validation.label(campaign.head, position).startswith(in_words)
    shown = " ".join(ticks(figures.gain_figure(analysis.results(campaign)).axes[0].yaxis))
    assert all(f"{name}, 2 PEs" in shown for name in names if "Greedy" in name)


def test_oversubscribed_is_never_scaling(strong: Canned) -> None:
    """Catches a point with more PEs than cores in any table about speed, or one without a mark."""
    strong.point("charm", 8, trials(9), odf=4)
    found = tables.tables(strong.campaign())
    for title in ("Strong scaling", "Pairwise comparisons"):
        assert "8" not in cells(titled(found, title), "PEs")
        assert any("more PEs than cores" in note for note in titled(found, title).notes)
    points = titled(found, "All points")
    last = points.rows[-1]
    assert last[1] == "8" and last[-1] == "valid; oversubscribed: times mean nothing"
    assert cells(points, "rate [M points/s]")[-1] == "-"
    assert cells(points, "rate [M points/s]")[1] == "125.0"  # 1e6 points in 8 ms


def test_fits_of_an_exact_law(strong: Canned) -> None:
    """Catches fits over other points, parameters in the wrong column, a silent impossible fit.

    mpi is Amdahl's law with 8 ms and 1/4 (USL: sigma 1/4, kappa 0); two points of charm are one
    too few for the three parameters of USL.
    """
    table = titled(tables.tables(strong.campaign()), "Scaling laws, fitted")
    assert cells(table, "configuration") == ["mpi", "mpi", "charm ODF 4"]
    assert cells(table, "law") == ["Amdahl", "USL", "Amdahl"]
    assert values(cells(table, "time on 1 PE [ms]")) == [8, 8, 9]
    assert values(cells(table, "serial part, or sigma")) == [0.25, 0.25, 0.333]
    assert [value and abs(value) < 1e-6 for value in values(cells(table, "kappa"))][0] is None
    assert cells(table, "largest residual")[:2] == ["0.0%", "0.0%"]
    assert "do not test the law" in cells(table, "note")[2]
    assert table.notes == ("not fitted: USL needs at least 3 numbers of PEs",)


def test_weak_scaling() -> None:
    """Catches weak scaling taken for strong.

    4 ms on one PE, 5 ms on two: E = 4/5, the work per second is 1.6 times that of one PE, and
    Gustafson's 2 - s = 1.6 gives s = 0.4.
    """
    canned = Canned("weak")
    canned.point("mpi", 1, trials(4), size=[10, 10])
    canned.point("mpi", 2, trials(5), size=[20, 10])
    found = tables.tables(canned.campaign())
    table = titled(found, "Weak scaling")
    assert values(cells(table, "efficiency")) == [1, 0.8]
    assert values(cells(table, "scaled speed-up")) == [1, 1.6]
    law = titled(found, "Scaling laws, fitted")
    assert cells(law, "law")[0] == "Gustafson"
    assert values(cells(law, "serial part, or sigma"))[0] == 0.4
    assert cells(titled(found, "All points"), "problem")[1] == "size 20x10, time tile 2"
    assert len(titled(found, "Final states").rows) == 2


def test_comparisons_and_their_note(strong: Canned) -> None:
    """Catches a ratio upside down, an effect of the wrong side, a missing note.

    charm against mpi on one PE: 9/8 = 1.125; all 3 x 3 pairs are slower: U = 9, effect 1, and three
    against three trials reach no p below 2 / C(6, 3) = 0.1. mpi against serial: 8/8.4 = 0.952.
    """
    table = titled(tables.tables(strong.campaign()), "Pairwise comparisons")
    assert cells(table, "configuration") == ["mpi", "charm ODF 4", "charm ODF 4"]
    assert cells(table, "against") == ["serial", "serial", "mpi"]
    assert values(cells(table, "ratio of times")) == [0.952, 1.07, 1.2]
    assert cells(table, "U") == ["0", "9", "9"] and cells(table, "p") == ["0.1"] * 3
    assert cells(table, "effect") == ["0.00", "1.00", "1.00"]
    assert cells(table, "difference at 1 %") == ["not significant"] * 3
    assert any("3 against 3 trials cannot reach p < 0.01" in note for note in table.notes)


def test_significant_with_enough_trials() -> None:
    """Catches a conclusion that does not follow p, or says slower for faster.

    All 6 x 6 pairs agree, so p = 2 / C(12, 6) = 0.0022.
    """
    canned = Canned()
    canned.point("mpi", 2, np.linspace(4, 4.5, 6))
    canned.point("charm", 2, np.linspace(6, 6.5, 6), odf=1)
    canned.point("charm", 2, np.linspace(2, 2.5, 6), odf=2)
    table = titled(tables.tables(canned.campaign()), "Pairwise comparisons")
    assert cells(table, "difference at 1 %") == ["significant: slower", "significant: faster"]
    assert cells(table, "p") == ["0.0022"] * 2 and not table.notes


def test_gain_and_ideal_gain(balancing: Canned) -> None:
    """Catches a gain upside down, and the ideal gain of the balanced run itself.

    5/4 = 1.25 of 1.5 (83.3 %) over mpi, 6/4 = 1.5 of 1.8 (83.3 %) over no balancing; 3 + 2 moves
    and 4 + 1 ms a run.
    """
    table = titled(tables.tables(balancing.campaign()), "Gain of load balancing")
    assert cells(table, "against") == ["mpi", "charm ODF 4"]
    assert values(cells(table, "gain")) == [1.25, 1.5]
    assert cells(table, "ideal gain (max/mean)") == ["1.500", "1.800"]
    assert cells(table, "fraction achieved") == ["50%", "63%"]
    assert values(cells(table, "migrations per run")) == [5, 5]
    assert values(cells(table, "load balancing [ms per run]")) == [5, 5]


def test_baselines_of_balancing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a gain over other PEs, over another ODF or over serial; and none at the limit."""
    canned = Canned("lb")
    for driver, pes, odf, balancer in (
        *(("serial", 1, 1, None), ("mpi", 1, 1, None), ("mpi", 2, 1, None), ("sim", 2, 4, None)),
        *(("charm", 2, 1, None), ("charm", 2, 4, None), ("charm", 1, 4, "Greedy")),
        ("charm", 2, 4, "Greedy"),
    ):
        ms = trials(4 if balancer else 5)
        canned.point(driver, pes, ms, odf=odf, balancer=balancer, imbalance=1.5)
    gains = analysis.gains(analysis.results(canned.campaign()))
    found = [(row.balanced.pes, row.other.configuration) for row in gains]
    assert found == [(1, "mpi"), (2, "mpi"), (2, "charm ODF 4")]
    for limit, share in ((0.5, 0.5), (0.75, None)):
        monkeypatch.setattr(analysis, "LEAST_GAIN", limit)
        achieved = gains[0].fraction_achieved
        assert achieved == pytest.approx(share) if share else math.isnan(achieved)


def test_gain_of_single_trials() -> None:
    """Catches a baseline that must have a second trial."""
    canned = Canned("lb")
    canned.point("mpi", 2, [6])
    canned.point("charm", 2, [4], odf=4, balancer="Greedy")
    (row,) = analysis.gains(analysis.results(canned.campaign()))
    assert row.gain.value == pytest.approx(1.5)


def test_baselines_where_problems_vary() -> None:
    """Catches a gain over another problem, and mpi's other ways that are left out, or not named."""
    canned = Canned("lb")
    for driver, odf, balancer, more in (
        *(("mpi", 1, None, {"tile": tile}) for tile in (1, 2)),
        *(("charm", 4, None, {"tile": tile}) for tile in (1, 2)),
        *(("charm", 4, "Greedy", {"tile": tile}) for tile in (1, 2)),
        *(("mpi", 1, None, {"size": [20, 10]}), ("charm", 4, None, {"size": [20, 10]})),
    ):
        other = {"state_hash": "1" * 64} if "size" in more else {}
        ms = trials(4 if balancer else 5)
        canned.point(driver, 2, ms, odf=odf, balancer=balancer, imbalance=1.5, **more, **other)
    gains = analysis.gains(analysis.results(canned.campaign()))
    found = [(row.balanced.number, row.other.number) for row in gains]
    assert found == [(4, 0), (4, 1), (4, 2), (5, 0), (5, 1), (5, 3)]
    campaign = canned.campaign()
    campaign.head["study"]["vary"] = ["time-tile=1,time-tile=2"]
    table = titled(tables.tables(campaign), "Gain of load balancing")
    tiles = [f"size 10x10, time tile {n}" for n in (1, 2)]
    assert cells(table, "problem") == [tiles[0]] * 3 + [tiles[1]] * 3
    assert cells(table, "of the other") == [*tiles, tiles[0], *tiles, tiles[1]]
    labels = figures.gain_figure(analysis.results(campaign)).axes[0].get_yticklabels()
    shown = [label.get_text() for label in labels]
    assert shown[1] == (
        "charm ODF 4 Greedy, every 5 steps, 2 PEs,\ntime tile 1\nagainst mpi, time tile 2"
    )


def test_oversubscribed_is_no_gain() -> None:
    """Catches a gain of balancing between points with more PEs than cores."""
    canned = Canned("lb")
    canned.point("mpi", 2, trials(6))
    canned.point("charm", 8, trials(6), odf=4)
    canned.point("charm", 8, trials(4), odf=4, balancer="Greedy")
    assert titled(tables.tables(canned.campaign()), "Gain of load balancing").rows == ()
    assert list(figures.figures(canned.campaign())) == ["parts"]


def test_environment(strong: Canned, balancing: Canned) -> None:
    """Catches a report that does not say where its numbers come from."""
    found = tables.tables(strong.campaign())
    said = dict(titled(found, MACHINE).rows)
    assert said["MPI library"] == "MPICH 5" and said["Charm4Py layer"] == "netlrts"
    assert said["clock"] == "ticks 60 ns at worst" and said["shuffle seed"] == "77"
    assert said["cores"] == "4" and said["memory"] == "8.0 GiB" and said["python"] == "3.11.7"
    assert said["pinning"] == "each PE pinned to a core, if there are enough; see the commands"
    assert said["trials"] == "3 of each point that has any, 21 in all"
    # 9.6, 10 and 10.4 ms are the first tenth, the middle and the ninth tenth
    noise = "a fixed 10.0 ms of work, timed 11 times, varied by 8.0% (slowest +5.0%)"
    assert noise in said["noise"] and any(noise in note for note in found[0].notes)
    state = titled(found, "Final states")
    assert state.rows == (("size 10x10; 12 steps", "21", HASH, "one state"),)
    assert "first load-balancing step" not in said  # where nobody asked for one
    campaign = balancing.campaign()
    campaign.head["study"]["lb_first"] = 7
    said = dict(titled(tables.tables(campaign), MACHINE).rows)
    assert said["first load-balancing step"] == "before step 7"


@pytest.mark.usefixtures("no_figures")
def test_same_problem_in_two_states(tmp_path: Path) -> None:
    """Catches a study that compares runs with different answers."""
    canned = Canned()
    canned.point("mpi", 1, trials(8))
    assert not report.is_wrong(canned.campaign())
    canned.point("charm", 1, trials(5), odf=4, state_hash=OTHER_HASH)
    table = titled(tables.tables(canned.campaign()), "Final states")
    assert [row[-1] for row in table.rows] == ["WRONG: 2 states"] * 2
    assert report.write(canned.write(tmp_path / "c.jsonl"), None) == 1
    assert "ended in different states" in (tmp_path / "c.html").read_text()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (1.5, "1.500"),
        (0.00071982, "0.0007198"),
        (12345.678, "12,346"),
        (1.234e-9, "1.234e-09"),
        (-1e-5, "-0.00001000"),
        (9.999e-6, "9.999e-06"),
        (999999999.0, "999,999,999"),
        (1e9, "1.000e+09"),
        (float("nan"), "-"),
        (float("inf"), "infinite"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    """Catches digits that are lost, or more than were measured."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((1.0, 0.5542, 1.567), "1.0 [0.55, 1.6]"),
        ((1.234, 1.2, 1.3), "1.23 [1.20, 1.30]"),
        ((1.2345, 1.234, 1.235), "1.234 [1.234, 1.235]"),
        ((2.0, math.nan, math.nan), "2.000 [none]"),
        ((2.0, 2.0, 2.0), "2.000 [2.000, 2.000]"),
        ((0.0, -1.0, 1.0), "0.0 [-1.0, 1.0]"),
    ],
)
def test_no_more_digits_than_the_interval_allows(bounds: tuple[float, ...], text: str) -> None:
    """Catches four digits where the interval is as wide as the value."""
    assert with_bounds(Interval(*bounds)) == text
    thousand = Interval(*(1e-3 * bound for bound in bounds))
    assert with_bounds(thousand, 1e3) == text


def test_small_numbers_of_few_digits() -> None:
    """Catches a number with an exponent that has more digits than others."""
    assert [number(1.2345e-9, digits) for digits in (2, 3)] == ["1.2e-09", "1.23e-09"]


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((0.0023, 0.001, 0.004), "2.3 ms [1.0, 4.0]"),
        ((0.0010495, 0.0010495, 0.0010495), "1.0 ms [1.0, 1.0]"),
        ((math.nan, 0.0, 0.004), "below 4.0 ms"),
        ((math.nan, 0.001, math.inf), "above 1.0 ms"),
        ((math.nan, 0.001, 0.004), "not monotone: 1.0 to 4.0 ms"),
    ],
)
def test_metg_says_what_is_known(bounds: tuple[float, ...], text: str) -> None:
    """Catches a METG of many digits, or of one crossing where there are several."""
    assert half_point(Interval(*bounds)) == text


# Figures ------------------------------------------------------------------------------------------


def ticks(axis: Any) -> list[str]:
    """The labels of the major ticks."""
    return [label.get_text() for label in axis.get_ticklabels()]


def test_error_bars_reach_from_one_bound_to_the_other() -> None:
    """Catches bars that are turned upside down, which symmetrical intervals do not show."""
    values, lengths = drawing.error_bars([Interval(5.0, 4.0, 9.0), Interval(2.0, math.nan, 3.0)])
    assert values.tolist() == [5, 2] and lengths.tolist() == [[1, 0], [4, 1]]
    _, beyond = drawing.error_bars([Interval(2.0, 2.5, 3.0), Interval(2.0, 1.0, 1.5)])
    assert beyond.tolist() == [[0, 1], [1, 0]]  # a bound on the other side of the mean


@pytest.mark.long
def test_many_bars_are_in_panels(granularity: Canned) -> None:
    """Catches a column of bars as high as a page, a panel of another configuration, lost points."""
    for odf in (1, 4):
        for size in range(20, 0, -1):
            granularity.point(
                "charm", 2, trials(10 + size), odf=odf, size=[size, 1], work=size * 1e6
            )
    figure = figures.figures(granularity.campaign())["parts"]
    panels = {axes.get_title(): ticks(axes.yaxis) for axes in figure.axes}
    assert panels["mpi, 2 PEs"] == [f"size {size}x1" for size in (8, 4, 2, 1)]
    first, rest = panels["charm ODF 4, 2 PEs"], panels["charm ODF 4, 2 PEs, continued"]
    assert first + rest == [f"size {size}x1" for size in range(20, 0, -1)] and len(first) == 10
    assert len(panels) == 5 and figure.get_figheight() < 9 < figure.get_figwidth()


def test_nothing_to_scale_is_not_drawn() -> None:
    """Catches figures of scaling with one number of PEs, and of a campaign without runs."""
    canned = Canned()
    assert figures.figures(Canned(points=[*canned.points]).campaign()) == {}
    canned.point("mpi", 4, trials(5))
    canned.point("mpi", 8, trials(9))
    assert list(figures.figures(canned.campaign())) == ["step-time", "parts"]


# Report -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_same_campaign_same_files(strong, tmp_path, capsys):
    """Catches dates and random ids, a figure that is not written, numbers that are not printed."""
    written = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        assert report.write(strong.write(folder / "my.jsonl"), None) == 0
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    first, second = written
    assert first == second
    names = ("step-time", "speed-up", "efficiency", "parts")
    wanted = {f"my-{name}.{form}" for name in names for form in ("png", "svg", "pdf")}
    assert first.keys() == wanted | {"my.html", "my.jsonl"}
    said = capsys.readouterr().out
    for text in ("Strong scaling", "Machine and versions", "0.571 [", "MPICH 5", "timed 11 times"):
        assert text in said
    assert "Dropped" not in said


@pytest.mark.long
@pytest.mark.usefixtures("only_svg")
def test_figures_of_the_page(strong: Canned, tmp_path: Path) -> None:
    """Catches a figure beside the caption of another one, or that uses a glyph of another one.

    An SVG names its texts in comments, and its clip paths, markers and glyphs by ids.
    """
    report.write(strong.write(tmp_path / "my.jsonl"), None)
    page = (tmp_path / "my.html").read_text()
    labels = {"step-time": "time per step [ms]", "speed-up": "speed-up"}
    labels |= {"efficiency": "parallel efficiency", "parts": "a PE's time per step [ms]"}
    parts = dict(re.findall(r'<figure id="figure-([\w-]+)"(.*?)</figure>', page, re.DOTALL))
    assert parts.keys() == labels.keys()
    for name, part in parts.items():
        title, caption = figures.CAPTIONS[name]
        svg, below = map(html.unescape, part.split("</svg>"))
        assert f'aria-label="{title}"' in svg and f"<!-- {labels[name]} -->" in svg
        said = " ".join(re.sub("<[^>]*>", "", below).split())
        assert title in said and caption in said
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 100
    used = set(re.findall(r'href="#([^"]+)"', page))
    used |= set(re.findall(r"url\(#([^)]+)\)", page))
    assert used and used <= set(ids)


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_dropped_run_fails_the_study(strong, tmp_path, capsys):
    """Catches a dropped run that is not said, and one made since that still is."""
    strong.drop(2, 0, "was made since")  # trial 0 of point 2 has a run
    path = strong.write(tmp_path / "my.jsonl")
    assert report.write(path, None) == 0
    assert "failed" not in (tmp_path / "my.html").read_text()
    strong.drop(2, 7, "not valid: missing cells")
    assert report.write(strong.write(path), None) == 1
    page = (tmp_path / "my.html").read_text()
    head = page[: page.index("Figures</h2>")]
    for text in ("This study has failed", "not valid: missing cells", "dropped 2", "mpi, 2 PEs"):
        assert text in head
    assert "was made since" not in page
    assert "not valid: missing cells" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_commands_of_every_point(strong: Canned, tmp_path: Path) -> None:
    """Catches a point that nobody can run again."""
    never = strong.point("charm", 4, odf=4)
    strong.drop(never, 0, "failed")
    table = provenance.commands_table(strong.campaign())
    assert cells(table, "command")[1] == "miniapps run jacobi2d --driver mpi -n 1"
    assert cells(table, "as launched")[1] == "launch point 1"
    assert cells(table, "as launched")[never] == f"dropped {never}"
    report.write(strong.write(tmp_path / "my.jsonl"), None)
    page = (tmp_path / "my.html").read_text()
    assert all(f"launch point {number}" in page for number in range(never))


@pytest.mark.usefixtures("no_figures")
def test_published_values(strong: Canned, tmp_path: Path) -> None:
    """Catches published values without their source, or drawn among measured ones."""
    path = tmp_path / "published.json"
    values = {"pes": [1, 2], "mpi4py": [3.25, 1.75], "unit": "s", "short": [7]}
    values |= {"deep": {"odf": [4, 8]}}
    path.write_text(json.dumps({"source": "Fink, Table 3", **values}))
    first, second = report.published_tables(path)
    assert first.title == "Published: Fink, Table 3" and first.notes == ("unit: s", "short: [7]")
    assert first.rows == (("1", "3.25"), ("2", "1.75"))
    assert second.title == "Published: Fink, Table 3: deep" and second.rows == (("odf", "[4, 8]"),)
    assert report.write(strong.write(tmp_path / "my.jsonl"), path) == 0
    page = (tmp_path / "my.html").read_text()
    assert page.count("3.25") == 1 and page.index("Published values") < page.index("3.25")


@pytest.mark.slow
@pytest.mark.usefixtures("only_svg")
def test_hostile_text_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches words of a file that become elements of the page, or colours of the terminal."""
    canned = Canned()
    canned.point("mpi", 1, trials(8), size=HOSTILE)
    versions = {"mpi": HOSTILE + "[red]x[/]", HOSTILE: "1"}
    canned.point("charm", 2, trials(5), versions=versions)
    canned.drop(0, 5, HOSTILE + "\x1b[31m")
    (published := tmp_path / "p.json").write_text(json.dumps({"source": HOSTILE, "n": [HOSTILE]}))
    assert report.write(canned.write(tmp_path / "my.jsonl"), published) == 1
    page = (tmp_path / "my.html").read_text()
    assert "<script" not in page and page.count("&lt;script&gt;") >= 5
    assert page.count("</svg>") == page.count("<svg ")
    said = capsys.readouterr().out
    assert "[red]x[/]" in said and "\x1b" not in said + page and said.count(r"\x1b[31m") == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json\n",
        '{"campaign": 1}\n',
        '{"campaign": 1, "study": {"kind": "other"}, "points": [{}]}\n',
        '{"campaign": 1, "study": {"kind": "lb", "app": "none"}, "points": [{}]}\n',
        '{"campaign": 1, "study": {"kind": "lb", "app": "echo"}, "points": [{}]}\n{"no": 1}\n',
    ],
)
def test_bad_campaign(text: str, tmp_path: Path) -> None:
    """Catches a traceback where a line would do."""
    (path := tmp_path / "bad.jsonl").write_text(text)
    with pytest.raises(InputError):
        report.write(path, None)
    with pytest.raises(InputError):
        report.write(tmp_path / "none.jsonl", None)


@pytest.mark.parametrize("path", sorted((ROOT / "studies" / "published").glob("*.json")))
def test_every_published_file(path: Path) -> None:
    """Catches a file of this project that cannot be shown, or whose numbers are lost."""
    shown = report.published_tables(path)
    said = " ".join(" ".join((*table.notes, *map(" ".join, table.rows))) for table in shown)
    numbers = re.findall(r"\d+\.\d+", json.dumps(json.loads(path.read_text()) | {"source": ""}))
    assert shown and all(number in said for number in numbers)


@pytest.mark.parametrize("text", ["[1]", "{}", "no", '{"source": 3}'])
def test_bad_published(text: str, strong: Canned, tmp_path: Path) -> None:
    """Catches published values of nobody."""
    (path := tmp_path / "p.json").write_text(text)
    with pytest.raises(InputError, match="--published"):
        report.write(strong.write(tmp_path / "my.jsonl"), path)


@pytest.mark.usefixtures("no_figures")
def test_command_line(tmp_path: Path) -> None:
    """Catches a report that the command line does not reach, and its statuses."""
    canned = Canned()
    canned.point("mpi", 1, [8.0])
    command = ("study", "report")
    assert in_process(*command, canned.write(tmp_path / "my.jsonl")).returncode == 0
    bad = in_process(*command, tmp_path / "none.jsonl")
    assert bad.returncode == 2 and len(bad.stderr.splitlines()) == 1
    canned.drop(0, 9, "gone")
    assert in_process(*command, canned.write(tmp_path / "my.jsonl")).returncode == 1


# In a browser -------------------------------------------------------------------------------------


Show = Callable[[Path], tuple[Any, list[str]]]


@pytest.mark.slow
@pytest.mark.usefixtures("only_svg")
def test_page_in_a_browser(strong: Canned, tmp_path: Path, browser_page: Show) -> None:
    """Catches a page that loads something, has errors, or does not show what was measured."""
    strong.drop(2, 7, HOSTILE)
    report.write(strong.write(tmp_path / "my.jsonl"), None)
    page, complaints = browser_page(tmp_path / "my.html")
    assert complaints == []
    assert (
        page.locator("h1").inner_text() == page.title() == "Strong scaling of jacobi2d, size 10x10"
    )
    assert "Abacus, 4 cores" in page.locator(".lead").inner_text()
    heads = page.locator("h2").all_inner_texts()
    sections = ["Figures", "Tables", "Commands", "Definitions"]
    assert heads == ["This study has failed", *sections]
    assert page.locator("script").count() == 0
    assert HOSTILE in page.locator("[role=alert]").inner_text()
    shown = [provenance.failures_table(strong.campaign()), *tables.tables(strong.campaign())]
    shown.append(provenance.commands_table(strong.campaign()))
    assert page.locator("table").count() == len(shown)
    for place, wanted in enumerate(shown):
        table = page.locator("table").nth(place)
        assert table.locator("caption").inner_text() == wanted.title
        assert table.locator("tbody tr").count() == len(wanted.rows)
        assert table.locator("thead th[scope=col]").count() == len(wanted.columns)
        assert table.locator("tbody th[scope=row]").count() == len(wanted.rows)
        text = table.inner_text()
        assert all(cell in text for row in wanted.rows for cell in row)
    _check_figures(page)


def _check_figures(page: Any) -> None:
    """Every figure has a name, a caption, and ink in a box of some size."""
    assert page.locator("figure svg[role=img]").count() == 4
    for place in range(4):
        figure = page.locator("figure").nth(place)
        box = figure.locator("svg").bounding_box()
        assert box["width"] > 300 and box["height"] > 150
        name = figure.locator("svg").get_attribute("aria-label")
        assert figure.locator("figcaption").inner_text().startswith(name)
        inks = "els => els.filter(e => e.getBoundingClientRect().width > 0).length"
        assert figure.locator("svg use, svg path").evaluate_all(inks) > 30


@pytest.mark.slow
@pytest.mark.usefixtures("only_svg")
def test_page_of_every_kind(balancing, granularity, tmp_path, browser_page):
    """Catches a kind of study whose page lacks its own figure, table or explanation."""
    wanted = (
        (balancing, "gain", "Gain of load balancing", "Gain, ideal gain, fraction achieved"),
        (granularity, "granularity", "Granularity", "METG(50 %)"),
        (factors_study(), "odf", "Pairwise comparisons", "ODF"),
    )
    for canned, figure, title, term in wanted:
        report.write(canned.write(tmp_path / f"{figure}.jsonl"), None)
        page, complaints = browser_page(tmp_path / f"{figure}.html")
        assert complaints == [] and page.locator("[role=alert]").count() == 0
        assert page.locator("figure").count() == 2
        assert page.locator(f"#figure-{figure} svg").bounding_box()["height"] > 100
        assert title in page.locator("caption").all_inner_texts()
        terms = [text.replace("\u00a0", " ") for text in page.locator("dt").all_inner_texts()]
        assert term in terms


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_a_noisy_machine_is_announced_once(strong, tmp_path, capsys):
    """Catches a study whose noise varied by 170 %, and all is well; a banner in every table.

    And points that other programs disturbed, but are only "valid".
    """

    def said() -> tuple[str, str]:
        report.write(strong.write(tmp_path / "my.jsonl"), None)
        return capsys.readouterr().out, (tmp_path / "my.html").read_text()

    assert not any("NOISY" in text or "DISTURBED" in text for text in said())
    strong.events += [{"event": "noise", "seconds": seconds} for seconds in (0.1, 0.1, 0.3)]
    assert [text.count("NOISY") for text in said()] == [1, 1]
    waited = {"waited": 0.4, "steal": 0.0, "switches_per_s": 9.0, "load_average": 3.0}
    strong.events[0]["record"]["disturbance"] = waited
    assert [text.count("DISTURBED") for text in said()] == [1, 1]
    points = titled(tables.tables(strong.campaign()), "All points")
    runs = strong.campaign().of("run")
    count = sum(run["point"] == strong.events[0]["point"] for run in runs)
    assert cells(points, "result")[:2] == [f"valid; 1 of {count} runs disturbed", "valid"]
