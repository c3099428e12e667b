"""Times of studies and of communication benchmarks against their values by hand, all the way.

Clocks are virtual: trials and messages take known times, which must come back in every table,
file and sentence, in the unit that it names.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support

from miniapps.communication import actions, parts, settings, timing
from miniapps.communication.actions import Call, Split
from miniapps.communication.catalogue import CATALOGUE
from miniapps.communication.progress import Progress
from miniapps.communication.session import Session
from miniapps.communication.settings import Settings
from miniapps.workbench.comm import results, text
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.run import launch
from miniapps.workbench.run import record as run_record
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.study import analysis, export, noise, runner, tables
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.plan import NO_BALANCING
from miniapps.workbench.study.runner import Policy

# The text of a run --------------------------------------------------------------------------------


def test_load_balancing_and_messages_in_the_text() -> None:
    """Catches a unit, and numbers before and after that are exchanged, where a run is summed up."""
    given = {"app": "jacobi2d", "steps": 8, "warmup": 0, "pes": 2, "odf": 1, "driver": "charm"}
    given |= {"balancer": "Rotate", "lb_period": 4, "snapshots_s": 0.0, "problem": {}}
    given |= {"gpu": "Abacus"}  # else no bytes are staged
    moved = {"moved": 3, "seconds": 0.004, "paid_after": 2}
    moved |= {"imbalance_before": 1.5, "imbalance_after": 1.25}
    sent = {"path": "staged", "reason": "by hand", "staged_bytes": 2_500_000}
    record = support.whole_record(given | {"lb": [moved], "transport": sent}, 0.25)
    said = [line.strip() for line in run_record.summary(record).splitlines()]
    assert "step 250 ms median (250 to 250), 4 points/s" in said
    assert "messages staged: by hand; 2.5 MB through hosts" in said
    wanted = "balanced before step 4: moved 3 blocks in 4 ms, imbalance 1.500 -> 1.250; saved more"
    assert wanted in " ".join(said)


# Studies ------------------------------------------------------------------------------------------

STEPS, POINTS = 8, 100.0  # of a run; of a step
STEP_S = {  # of each trial, by driver and PEs
    ("mpi", 1): (0.5, 0.25, 0.75),
    ("mpi", 2): (0.25, 0.375, 0.125),
    ("file", 2): (1.0, 0.5, 0.75),
}
SHARES = {1: (0.5,), 2: (0.375, 0.625)}  # of the steps, in which PEs compute; half on average
READING_S = 2.0**-10  # between two readings of the clock of noise
LAUNCH_S = 3.0


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Iterator[Campaign]:
    """A campaign whose launches take known times; `Campaign.read` has read it from its file."""
    readings, now, made = (n * READING_S for n in count()), [50.0], dict.fromkeys(STEP_S, 0)

    def launched(spec: RunSpec, command: list[str], limit: float | None) -> dict[str, Any]:
        key = spec.driver, spec.pes
        step_s = STEP_S[key][made[key]]
        made[key] += 1
        now[0] += LAUNCH_S
        record = support.record_of(spec, step_s, POINTS)
        rounds = {"first": [*range(2, 2 + STEPS, 2)], "count": [2] * (STEPS // 2)}
        rounds["wall_s"] = [2 * step_s] * (STEPS // 2)
        loads = [[2 * share * step_s] * (STEPS // 2) for share in SHARES[spec.pes]]
        imbalance = 1.25 if spec.pes == 2 else 1.0
        return record | {"rounds": rounds | {"compute_s": loads}, "imbalance": imbalance}

    monkeypatch.setattr(noise, "perf_counter", lambda: next(readings))
    monkeypatch.setattr(noise, "REPEATS", 1)
    monkeypatch.setattr(noise, "READINGS", 10)
    monkeypatch.setattr(runner.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(launch, "launch", launched)
    study = support.small_study(
        steps=STEPS, drivers=("mpi", "file"), pes=(1, 2), balancer_settings=(NO_BALANCING,)
    )
    specs = [spec for spec in study.specs() if (spec.driver, spec.pes) in STEP_S]
    monkeypatch.setattr(runner, "shuffled", lambda seed, trial, points: [*range(points)])
    path = tmp_path / "study.jsonl"
    policy = Policy(3, pin=False)
    assert runner.run_campaign(study, specs, policy, path) == VALID
    yield Campaign.read(path)


def test_times_of_a_study(campaign: Campaign, capsys: Any) -> None:
    """Catches a trial that is lost, doubled or another point's, and another mean or unit."""
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "trial 1, mpi, 1 PE: 500 ms per step; 8 runs left, about 24 s"
    assert said[-1].startswith("trial 3, file, 2 PEs: 750 ms per step")
    assert [run["seconds"] for run in campaign.of("run")] == [LAUNCH_S] * 9
    assert [entry["seconds"] for entry in campaign.of("noise")] == [READING_S] * 10
    (start,) = campaign.of("start")
    assert start["clock_tick_s"] == READING_S
    found = analysis.results(campaign)
    for result, times in zip(found, STEP_S.values(), strict=True):
        assert tuple(result.times) == times and result.step.value == sum(times) / 3
        assert result.rate == POINTS / (sum(times) / 3)
        half = sum(times) / 3 / 2  # what a PE computes
        assert result.parts == {"compute": half, "balance": 0.0, "wait": half}
    one, two, other = found
    scaled = [row for row in analysis.scaling(found, False) if row.result is two]
    assert [(row.base, row.speedup.value, row.efficiency.value) for row in scaled] == [(one, 2, 1)]
    (pair,) = analysis.pairwise_comparisons(found)
    assert (pair.first, pair.second, pair.ratio.value) == (two, other, 3.0)
    assert (pair.test.u, pair.test.effect) == (9.0, 1.0)


@pytest.mark.long
def test_times_of_a_study_in_tables_and_files(campaign: Campaign) -> None:
    """Catches a unit, a row or a column that is another one in what is shown or exported."""
    points = tables.tables(campaign)[0]
    titles = [column.title for column in points.columns]
    shown = [dict(zip(titles, row, strict=True)) for row in points.rows]
    assert [row["ms per step"].split(" ")[0] for row in shown] == ["500", "250", "750"]
    assert [row["rate [points/s]"] for row in shown] == ["200.0", "400.0", "133.3"]
    rows = list(csv.DictReader(io.StringIO(export.tidy_csv(campaign))))
    by_trial = [
        (driver, int(pes), step)
        for trial in range(3)
        for (driver, pes), step in (((*key,), times[trial]) for key, times in STEP_S.items())
    ]
    assert [(r["driver"], int(r["pes"]), float(r["step_s"])) for r in rows] == by_trial
    assert [float(row["compute_s"]) for row in rows] == [
        step * STEPS * pes / 2 for _, pes, step in by_trial
    ]
    seed = export.seed_csv(campaign)
    table = list(csv.DictReader(io.StringIO(seed["trial01-point01-mpi-2pe.csv"])))
    assert [int(row["Process"]) for row in table] == [0] * STEPS + [1] * STEPS
    assert [int(row["Iteration"]) for row in table] == 2 * [*range(2, 2 + STEPS)]
    for row, share in zip(table, np.repeat(SHARES[2], STEPS), strict=True):
        assert float(row["Iteration Time"]) == 0.375
        assert float(row["Computation Time"]) == share * 0.375
        assert float(row["Communication Time"]) == (1 - share) * 0.375
    lines = export.extra_p(campaign).splitlines()
    assert lines[1] == "POINTS ( 1 ) ( 2 )"
    assert lines[-2:] == ["DATA 0.5 0.25 0.75", "DATA 0.25 0.375 0.125"]
    read: dict[str, Any] = {}
    exec(export.reframe_check(campaign).split("@rfm")[0].split("variable,\n)")[1], read)
    expected = read["POINTS"]["01-mpi-2pe"]
    assert (expected["step_s"], expected["rate"]) == (0.25, np.mean([400, 100 / 0.375, 800]))


def test_noise_is_compared_with_the_quietest() -> None:
    """Catches noise that is compared with the loudest or the first sample, and no limit for it."""
    seconds = [0.2, 0.1, 0.4]
    campaign = Campaign({}, [{"event": "noise", "seconds": one} for one in seconds])
    quiet = {"oversubscribed": False, "disturbance": {"waited": 0.01, "steal": 0.0}}
    found = [runner._disturbance(campaign, quiet, after_s, 0.05) for after_s in (0.12, 0.13)]
    assert found == [None, "disturbed: a fixed piece of work took 30% longer"]
    said = str(noise.Noise.of([0.25, 0.125, 0.25]))
    assert "a fixed 250.0 ms of work, timed 3 times, varied by 40.0% (slowest +0.0%)" in said


# Communication ------------------------------------------------------------------------------------

CALL_S = {1: 5.0, 2: 6.0, 3: 10.0}  # of the first iteration, by trial, which is a warm-up
LATER_S = 0.0625  # that each iteration takes longer than the one before
BARRIER_S = 0.5
START_S, ALONE_S, HIDDEN_S = 2.0, 3.0, 1.0  # of a collective: waits alone, and after computing
MULTIPLIED_S = 2.0**-7
ITERATIONS, WINDOW = 4, 8


class Timed:
    """A clock, a rank of two whose calls move it, and the benchmark that is made."""

    def __init__(self, name: str, **asked: Any) -> None:
        self.now, self.computed = 0.0, False
        self.calls = Counter[str]()
        place = {"rank": 0, "ranks": 2, "local_rank": 0, "barrier": self.barrier}
        action = Split(self.start, self.wait) if name[0] == "i" else Call(self.call, "both")
        world: Any = SimpleNamespace(
            **place,
            actions=lambda *_: [action],
            gather=lambda own: [own] * 2,
            share=lambda one: one,
        )
        asked = {"iterations": ITERATIONS, "warmups": 1, "trials": 3, "window": WINDOW} | asked
        settings = Settings(no_check=True, **asked)
        self.session = Session(world, CATALOGUE[name], settings, Progress(lambda _: None))

    def barrier(self) -> None:
        self.now += BARRIER_S

    def call(self) -> None:
        doing = self.session.doing
        self.now += CALL_S[int(doing.split()[-1])] + LATER_S * self.calls[doing]
        self.calls[doing] += 1

    def start(self) -> None:
        self.computed = False
        self.now += START_S

    def wait(self, handle: None) -> None:
        self.now += HIDDEN_S if self.computed else ALONE_S

    def compute(self, work: timing.Work) -> None:
        self.computed = True
        self.now += MULTIPLIED_S * work.count


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """``measured(benchmark, ...)``: what its session measures."""

    def measure(name: str, **asked: Any) -> dict[str, Any]:
        timed = Timed(name, **asked)
        for module in (actions, timing):
            monkeypatch.setattr(module, "perf_counter", lambda: timed.now)
        monkeypatch.setattr(timing.Work, "__call__", lambda work: timed.compute(work))
        return timed.session.measure()

    return measure


SPAN = settings.Span(16, 16)
MEANS_S = {trial: call_s + LATER_S * 2.5 for trial, call_s in CALL_S.items()}  # of later ones
NUMBERS = {  # of trials: the benchmark, and its value in us or MB/s as a function of the seconds
    "latency": lambda call_s: call_s / 2 * 1e6,
    "bw": lambda call_s: WINDOW * 16 / call_s / 1e6,
    "bibw": lambda call_s: 2 * WINDOW * 16 / call_s / 1e6,
    "mbw_mr": lambda call_s: WINDOW * 16 / call_s / 1e6,
    "allreduce": lambda call_s: call_s * 1e6,
    "barrier": lambda call_s: call_s * 1e6,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_times_of_communication(name: str, measured: Callable[..., dict[str, Any]]) -> None:
    """Catches a time of one way for a round trip, MiB, seconds, and warm-ups or barriers in it."""
    found = measured(name, span=SPAN, percentiles=settings.Percentiles.parse("0,100"))
    by_trial = sorted((one["trial"], one["value"]) for one in found["measured"])
    assert by_trial == [
        (trial, pytest.approx(NUMBERS[name](MEANS_S[trial + 1]), rel=1e-12)) for trial in range(3)
    ]
    assert found["barrier_us"] == pytest.approx(BARRIER_S * 1e6, rel=1e-12)
    trips = 2 if name == "latency" else 1
    for one in found["measured"]:
        ends = [(CALL_S[one["trial"] + 1] + LATER_S * n) / trips * 1e6 for n in (1, ITERATIONS)]
        assert one["percentiles"] == pytest.approx(ends, rel=1e-12)
    if name == "mbw_mr":
        rates = [one["messages_per_s"] for one in found["measured"]]
        assert sorted(rates) == pytest.approx(sorted(WINDOW / s for s in MEANS_S.values()))
    record = shown_record(name, found, [0 if name == "barrier" else 16])
    rows = results.rows(record)
    assert rows[0]["value"] == pytest.approx(np.mean([value for _, value in by_trial]), rel=1e-12)
    said = list(text.lines(record, rows, False))
    numbers = [line.split() for line in said if not line.startswith("#")]
    assert f"{rows[0]['value']:.2f}" in numbers[0]
    unit = "MB/s" if name in ("bw", "bibw", "mbw_mr") else "(us)"
    assert any(unit in line for line in said if line.startswith("#"))
    assert any("it takes 500000.00 us" in line for line in said)


def test_times_of_overlapping(measured: Callable[..., dict[str, Any]]) -> None:
    """Catches an overlapped time without its start, its computing or its end, or with barriers."""
    found = measured("iallreduce", span=SPAN)
    pure = START_S + ALONE_S
    overall = START_S + pure + HIDDEN_S  # it computes as long as the collective takes alone
    for one in found["measured"]:
        wanted = {
            "value": overall, "least": overall, "most": overall, "pure_us": pure,
            "compute_us": pure, "begin_us": START_S, "wait_us": HIDDEN_S,
        }  # fmt: skip
        assert {key: one[key] / 1e6 for key in wanted} == pytest.approx(wanted, rel=1e-12)
        assert one["overlap_percent"] == pytest.approx(100 * (2 * pure - overall) / pure)


def test_times_of_the_parts_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a round trip as one message, the slowest loop, and another unit than us."""
    now, calls = [0.0], Counter[str]()

    def longer(name: str, seconds: float) -> None:
        now[0] += seconds + LATER_S * calls[name]
        calls[name] += 1

    for module in (parts, timing):
        monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    path = parts.MessagePath(lambda: longer("send", 3.0), lambda: longer("receive", 5.0))
    rank: Any = SimpleNamespace(leads=True)
    later_s = LATER_S * 3.5  # of the mean of eight calls
    assert parts.Anatomy._seconds(rank, path, 8) == (3.0 + 5.0) / 2 + later_s
    assert timing.cost_of(lambda: longer("alone", 2.0), 8) == 2.0 + later_s
    monkeypatch.setattr(parts, "calls_of", lambda nbytes: 8)
    assert parts.fastest(lambda: longer("loop", 1.0), 16) == 1e6 * (1.0 + later_s)


def shown_record(name: str, found: dict[str, Any], sizes: list[int]) -> dict[str, Any]:
    """The record of a benchmark with what its session has measured."""
    usual = {"driver": "mpi", "pes": 2, "trials": 3, "window": WINDOW, "touch": "none"}
    usual |= {"percentiles": [], "valid": None, "oversubscribed": False, "host": {"cores": 2}}
    usual |= {"buffer": "numpy", "pickle": None, "method": None, "iterations": [ITERATIONS]}
    usual |= {"disturbance": {"waited": 0.0, "steal": 0.0}, "sizes": sizes}
    return usual | {"benchmark": name} | found
