"""Figures of communication benchmarks and of the demo, and their times, against values by hand."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
import support
from drawn import (
    assert_intervals,
    assert_ticks_are_values,
    bars,
    laid_out,
    lines,
    names,
    text_of,
    titles,
)

from miniapps.communication import session, timing
from miniapps.communication.catalogue import CATALOGUE
from miniapps.communication.progress import Progress
from miniapps.communication.settings import Settings
from miniapps.communication.timing import Overlap, timed
from miniapps.workbench.comm import text
from miniapps.workbench.show import comm_figure, demo_figure
from miniapps.workbench.study.comm import figures, tables, written
from miniapps.workbench.study.comm.series import Line, Result
from miniapps.workbench.study.statistics import Interval

pytestmark = pytest.mark.usefixtures("intervals_by_hand")
SIZE = "size of a message"
SIZES = [0, 8, 1024, 1 << 20]


def record_of(name: str, benchmark: str, factor: float) -> dict[str, Any]:
    """A record whose values have intervals with two different halves, but for the last one."""
    values = [factor * (n + 1) for n in range(4)]
    rows = [{"size": size, "value": value, "low": 0.9 * value, "high": 1.5 * value}
            for size, value in zip(SIZES, values, strict=True)]  # fmt: skip
    rows[-1] |= {"low": None, "high": None}
    measures = CATALOGUE[benchmark].measures
    given = {"name": name, "benchmark": benchmark, "measures": measures, "driver": "mpi", "pes": 2}
    return given | {"buffer": "numpy", "sizes": SIZES, "results": rows, "host": support.HOST}


assert_lines = partial(assert_intervals, within=0.3)  # at sizes in bytes


@pytest.mark.long
@pytest.mark.parametrize(("benchmark", "unit"), [("latency", "latency [us]"),
                                                 ("bw", "bandwidth [MB/s]")])  # fmt: skip
def test_values_and_ratios(benchmark: str, unit: str) -> None:
    """Catches another unit or size, error bars upside down, a ratio under another line's name."""
    records = [record_of(name, benchmark, f) for name, f in (("none", 1), ("both", 3))]
    ratios = [[Interval(n, n / 2, 3 * n) for n in (2.0, 3.0, 4.0, 5.0)] for _ in records]
    figure = laid_out(comm_figure.figure_of(records, ratios))
    left, right = figure.axes
    assert titles(left) == (SIZE, unit) and titles(right) == (SIZE, "ratio to none")
    assert_ticks_are_values(figure)
    assert [text_of(t) for t in left.get_xticklabels()] == ["0 B", "8 B", "1 KiB", "1 MiB"]
    places = [0.5, 8, 1024, 1 << 20]
    wanted = {
        name: [(x, f * n, 0.9 * f * n, 1.5 * f * n) for n, x in enumerate(places, 1)]
        for name, f in (("none", 1), ("both", 3))
    }
    for points in wanted.values():
        points[-1] = (*points[-1][:2], points[-1][1], points[-1][1])
    assert_lines(left, wanted)
    assert_lines(right, {"both": [(x, n, n / 2, 3 * n) for n, x in enumerate(places, 2)]})
    level = [at[:, 1] for name, at in lines(right) if not name and len(at) == 2]
    assert any(np.allclose(at, 1) for at in level)


def line_of(name: str, unit: str, factor: float, published: dict[int, float]) -> Line:
    """A line of a claim with three trials of each of two sizes, in four launches."""
    trials = {8: factor * np.array([1.0, 2.0, 6.0]), 64: factor * np.array([4.0, 5.0, 9.0])}
    record = {"pes": 2, "oversubscribed": False}
    return Line(name, unit, (record,) * 4, trials, published, dict.fromkeys(tables.LAUNCH, ""))


def claim_of(unit: str) -> Result:
    """A claim of two lines, of which both have published values."""
    claim = {"name": "c", "title": "A claim", "published": "values.json"}
    published = {8: 10.0, 64: 20.0}, {8: 40.0, 64: 50.0}
    fast, slow = (line_of(*given) for given in zip(
        ("fast", "slow"), (unit, unit), (1.0, 2.0), published, strict=True))  # fmt: skip
    return Result(claim, (fast, slow))


@pytest.mark.long
@pytest.mark.parametrize(("unit", "title"), [("us", "latency [us]"), ("MB/s", "bandwidth [MB/s]")])
def test_claims(unit: str, title: str) -> None:
    """Catches published values beside another line, names exchanged, a ratio upside down."""
    result = claim_of(unit)
    figure = laid_out(figures.claim_figure(result, "Abacus, 4 cores"))
    left, right = figure.axes
    assert titles(left) == (SIZE, title) and titles(right) == (SIZE, "ratio to fast")
    assert_ticks_are_values(figure)
    assert_lines(
        left,
        {
            "fast": [(8, 3, 1, 6), (64, 6, 4, 9)],
            "slow": [(8, 6, 2, 12), (64, 12, 8, 18)],
            "fast, published": [(8, 10, 10, 10), (64, 20, 20, 20)],
            "slow, published": [(8, 40, 40, 40), (64, 50, 50, 50)],
        },
    )
    ends = [(8, 2, 2 / 6, 12), (64, 2, 8 / 9, 18 / 4)]
    assert_lines(right, {"slow": ends, "slow, published": [(8, 4, 4, 4), (64, 2.5, 2.5, 2.5)]})
    colours = {name: key[0] for key, name in names(left).items()}
    assert all(colours[name] == colours[f"{name}, published"] for name in ("fast", "slow"))


@pytest.mark.parametrize("unit", ["us", "MB/s"])
def test_tables_of_claims(unit: str) -> None:
    """Catches bounds that are exchanged, a unit of another line, published for measured values.

    In the tables, and in the file that pandas reads.
    """
    result = claim_of(unit)
    assert [*tables._summary(result)] == ["slow: 2.00 times fast (published 2.50 to 4.00)"]
    assert [*tables._summary(Result(result.claim, result.lines[:1]))] == [
        f"fast: 3.00 to 6.00 {unit}"
    ]
    values, ratios = tables.values_table(result), tables.ratios_table(result)
    titled = [column.title for column in values.columns]
    lines_ = [f"fast [{unit}]", "fast, published", f"slow [{unit}]", "slow, published"]
    assert titled == ["bytes", *lines_]
    assert [[numbers(cell) for cell in row] for row in values.rows] == [
        [[8], [3, 1, 6], [10], [6, 2, 12], [40]],
        [[64], [6, 4, 9], [20], [12, 8, 18], [50]],
    ]
    assert [column.title for column in ratios.columns] == ["bytes", "slow", "slow, published"]
    assert [[numbers(cell) for cell in row] for row in ratios.rows] == [
        [[8], [2, 0.33, 12], [4]],
        [[64], [2, 0.89, 4.5], [2.5]],
    ]
    found = pandas.read_csv(io.StringIO(tables.csv_text([result]))).set_index(["line", "size"])
    assert set(found["unit"]) == {unit} and set(found["trials"]) == {3}
    for line, size, of in (("fast", 8, (3, 1, 6)), ("slow", 64, (12, 8, 18))):
        assert tuple(found.loc[line, size][["value", "low", "high"]]) == of
    slow = found.loc["slow", 8][["ratio", "ratio_low", "ratio_high", "published_ratio"]]
    assert list(slow) == pytest.approx([2, 2 / 6, 12, 4])
    assert list(found["published"]) == [10, 20, 40, 50]
    assert found.loc["fast"]["ratio"].isna().all()


@pytest.mark.parametrize(("unit", "ratio"), [("us", 2.0), ("MB/s", 0.5)])
def test_a_higher_rate_takes_less_time(unit: str, ratio: float) -> None:
    """Catches a ratio of rates where one of times is meant."""
    fast, slow = claim_of(unit).lines
    found = written.times_as_long(slow, fast, 8)
    assert found is not None and found.value == pytest.approx(ratio)


def test_written_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches pairs of other runtimes, ratios upside down, and overlapping intervals that count.

    Under charm the first size takes 10 times as long with unchanged buffers and 5 times with
    written ones, the second 1 and 2 times, and the last, which scatters, 3 and 4 times.
    """
    monkeypatch.setattr(written, "SIZES", {8: "8 B", 64: "64 B", 512: "512 B"})
    values = {
        ("mpi", "none"): [[2.0] * 3, [4.0] * 3, [1.0] * 3],
        ("mpi", "both"): [[4.0] * 3, [2.0] * 3, [1.0] * 3],
        ("charm", "none"): [[20.0] * 3, [4.0] * 3, [1.0, 2.0, 6.0]],
        ("charm", "both"): [[20.0] * 3, [4.0] * 3, [1.0, 2.0, 9.0]],
    }
    point = dict.fromkeys(tables.LAUNCH, "") | {"window": 1, "benchmark": "latency"}
    made = []
    for (driver, touch), each in values.items():
        trials = {size: np.array(one) for size, one in zip((8, 64, 512), each, strict=True)}
        own = point | {"driver": driver, "touch": touch}
        made.append(Line(f"{driver} {touch}", "us", ({"oversubscribed": False},), trials, {}, own))
    pairs = written.pairs([Result({}, tuple(made[::-1]))])
    effects = {row[1]: row[3:5] for row in written.effects_table(pairs).rows}
    assert effects == {"mpi": ("2.000 [2.000, 2.000]", "0.5000 [0.5000, 0.5000]"),
                       "charm": ("1.000 [1.000, 1.000]",) * 2}  # fmt: skip
    compared = [
        [numbers(cell)[0] for cell in row[3:]] for row in written.comparisons_table(pairs).rows
    ]
    assert compared == [[10, 5], [1, 2], [3, 4]]
    effect, comparison = written.in_words(pairs)
    assert "Of 6 cases, written buffers take longer in 1 and less time in 1;" in effect
    better = (
        "Compared with mpi, charm does better with written buffers in 1 of 3 cases and worse in 1;"
    )
    assert comparison.startswith(better)


def numbers(cell: str) -> list[float]:
    """The numbers of a cell."""
    return [float(word) for word in re.findall(r"[\d.]+", cell)]


def demo_record(driver: str, pes: int, step_ms: float, **more: Any) -> dict[str, Any]:
    """A record of the demo."""
    given = {"app": "jacobi2d", "driver": driver, "pes": pes, "odf": 1, "warmup": 0, "steps": 10}
    given |= {"balancer": None, "problem": {"size": [64, 64]}, "lb_period": 0}
    return support.whole_record(given | more, step_ms / 1e3)


@pytest.mark.long
def test_speed_ups_of_the_demo() -> None:
    """Catches speed-ups upside down or over another app's time, bars of another driver or app."""
    scaling = [
        demo_record("serial", 1, 12.0),
        demo_record("mpi", 2, 8.0),
        demo_record("charm", 2, 6.0, odf=4),
        demo_record("serial", 1, 30.0, app="stencil3d", problem={"size": [8, 8, 8]}),
        demo_record("mpi", 2, 10.0, app="stencil3d", problem={"size": [8, 8, 8]}),
    ]
    figure = laid_out(demo_figure.figure_of(scaling, [demo_record("mpi", 2, 10.0)]))
    axes, _ = figure.axes
    assert_ticks_are_values(figure)
    assert bars(axes, upright=True) == {
        "mpi": {"jacobi2d": (0, 1.5), "stencil3d": (0, 3)},
        "charm": {"jacobi2d": (0, 2)},
    }
    said = {text_of(text) for text in axes.texts}
    assert {"1.50", "3.00", "2.00", "size 64x64", "size 8x8x8"} <= said


# Times --------------------------------------------------------------------------------------------


class Clock:
    """Seconds, which only what is done moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(timing, "perf_counter", lambda: self.now)

    def takes(self, seconds: float, result: Any = None) -> Callable[..., Any]:
        """A function that takes so long."""

        def act(*_: Any) -> Any:
            self.now += seconds
            return result

        return act


def test_iterations_are_timed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a barrier or a report of progress that counts, a chunk that is not divided."""
    clock = Clock(monkeypatch)
    call = [clock.takes(1.0), clock.takes(2.0)]
    found = timed(call, 5, 2, clock.takes(64.0), clock.takes(128.0))
    assert found.mean_s == 3.0 and found.each_s.tolist() == [3.0, 3.0, 3.0]
    assert timed(call, 1, 2, None, clock.takes(128.0)).mean_s == 3.0
    assert timed(call, 0, 2, None, clock.takes(128.0)).mean_s == 0.0


def test_a_barrier_is_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches milliseconds, a sum over barriers, and the largest where the middle counts."""
    clock = Clock(monkeypatch)
    lengths = [1.0, 3.0, 8.0]
    calls, each = count(), session.BARRIERS + 1

    def barrier() -> None:
        clock.now += lengths[next(calls) // each]

    place: Any = {"rank": 0, "ranks": 2, "local_rank": 0, "barrier": barrier}
    settings = Settings(trials=3, iterations=session.BARRIERS)
    made = session.Session(SimpleNamespace(**place), CATALOGUE["latency"], settings,
                           Progress(lambda _: None))  # fmt: skip
    monkeypatch.setattr(made, "_trial", lambda size: {"value": size})
    found = made.measure()
    assert found["barrier_us"] == 3e6
    assert {one["trial"] for one in found["measured"]} == {0, 1, 2}


def test_columns_of_overlap() -> None:
    """Catches parts of a collective that are exchanged, or in another unit."""
    overall = timing.Times(7e-6, np.ones(1))
    parts = Overlap(pure_s=3e-6, compute_s=5e-6, overall=overall, begin_s=11e-6, wait_s=13e-6)
    sample = timing.Sample(timing.Times(1.0, np.ones(1)), overlap=parts)
    found = timing.joined(CATALOGUE["ibcast"], 8, 1, [sample, sample], ())
    names = ("pure_us", "compute_us", "value", "begin_us", "wait_us")
    assert [found[name] for name in names] == pytest.approx([3, 5, 7, 11, 13])


# Text ---------------------------------------------------------------------------------------------

ROW = {
    **{"size": 8, "iterations": 100, "value": 2.0, "low": 1.5, "high": 2.75, "least": 1.0},
    **{"most": 3.0, "touch_us": 4.0, "unchanged": 5.0, "messages_per_s": 6.0, "compute_us": 7.0},
    **{"pure_us": 8.0, "overlap_percent": 9.0, "begin_us": 10.0, "wait_us": 11.0},
    "percentiles": [12.0, 13.0],
}
SPREAD = {"Min": 1, "Max": 3, "Iterations": 100, "P50": 12, "P99": 13, "Low": 1.5, "High": 2.75}
COLUMNS: dict[str, dict[str, float]] = {  # by a word of their titles, in order
    "latency": {"Avg Latency(us)": 2, **SPREAD, "Touch(us)": 4, "Unchanged(us)": 5},
    "bw": {"Bandwidth (MB/s)": 2, **SPREAD, "Touch(us)": 4, "Unchanged(MB/s)": 5},
    "mbw_mr": {"MB/s": 2, "Messages/s": 6, **SPREAD, "Touch(us)": 4, "Unchanged(MB/s)": 5},
    "iallgather": {
        **{"Overall(us)": 2, "Compute(us)": 7, "Init(us)": 10, "Wait(us)": 11, "Comm.(us)": 8},
        **{"Overlap(%)": 9, **SPREAD, "Touch(us)": 4, "Unchanged(us)": 5},
    },
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_have_the_values_of_their_titles(name: str) -> None:
    """Catches columns that are exchanged, and another unit in a title."""
    record = record_of("one", name, 1) | {"percentiles": [50.0, 99.0], "touch": "both", "window": 8}
    record |= {"measured": [{"unchanged": 5.0}], "trials": 3, "barrier_us": 1.0, "valid": True}
    record |= {"disturbance": {"waited": 0.0, "steal": 0.0}, "oversubscribed": False}
    made = list(text.lines(record, [ROW], full=True))
    heading = next(line for line in made if "Min" in line)
    (row,) = [line for line in made if not line.startswith("#")]
    values = [float(word) for word in row.split()]
    assert values == [8, *COLUMNS[name].values()]
    places = [heading.find(title) for title in COLUMNS[name]]
    assert places == sorted(places) and places[0] > 0
    ends = [m.end() for m in re.finditer(r"\S+", row)][1:]
    for place, end, before in zip(places, ends, [10, *ends], strict=False):
        assert before <= place < end  # a title is above its own number
    rate = name in ("bw", "mbw_mr")
    units = {title: unit for title in SPREAD if title not in ("Iterations", "P50", "P99")
             for unit in ["(MB/s)" if rate else "(us)"]}  # fmt: skip
    assert all(
        re.search(rf"{title}[ a-zA-Z]*{re.escape(unit)}", heading) for title, unit in units.items()
    )
