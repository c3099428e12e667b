"""Exports of a campaign, each read by the program it is for: csv, Extra-P, ReFrame."""

from __future__ import annotations

import copy
import csv
import io
import json
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support

from miniapps.jacobi2d.problem import JacobiProblem
from miniapps.parameters import InputError
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.export import FORMATS, SUFFIXES, export, extra_p, seed_csv, tidy_csv
from miniapps.workbench.study.plan import NO_BALANCING, Study
from miniapps.workbench.study.reframe import reframe_check
from miniapps.workbench.study.reframe import tolerance as tolerance_of
from miniapps.workbench.study.runner import header_of

SOURCE = Path("campaign.jsonl")
EXTRAP = Path(sys.executable).parents[1] / "extrap"
TWO_PROBLEMS = tuple(JacobiProblem((61, 43), initial=initial) for initial in ("ones", "noise"))
SECONDS = {"wall_s": (0.5, 0.25, 0.25), "count": (2, 2, 1)}


def a_study(**values: Any) -> Study:
    """A study on many PEs, of which nothing is run."""
    usual: dict[str, Any] = {
        "steps": 5,
        "warmup": 3,
        "pes": (1, 2, 4, 8, 16),
        "odfs": (1, 4),
        "balancer_settings": (NO_BALANCING, ("Greedy", 2)),
    }
    return support.small_study(**(usual | values))


def record_of(head: dict[str, Any], number: int, trial: int) -> dict[str, Any]:
    """A record with times that are known: pes + trial / 8 seconds for the five steps."""
    point = head["points"][number]
    pes, wall = point["pes"], point["pes"] + trial / 8
    walls = [wall * share for share in SECONDS["wall_s"]]
    compute = [[0.5 * one / (pe + 1) for one in walls] for pe in range(pes)]
    balancing = [{"seconds": 0.125}, {"seconds": 0.25}] if point["balancer"] else []
    rounds = {"first": [3, 5, 7], "count": list(SECONDS["count"]), "wall_s": walls}
    times = {"median": wall / 4, "min": wall / 8, "max": wall / 4}
    given = point | {"app": "jacobi2d", "steps": 5, "warmup": 3, "lb": balancing}
    given |= {"step_time_s": times, "wall_s": wall, "rounds": rounds | {"compute_s": compute}}
    given |= {"compute_s": float(np.sum(compute)), "imbalance": 1.25, "migrations": 3}
    given |= {"import_s": 1.5, "oversubscribed": pes > 8}
    return support.whole_record(given, wall / 5, 2623)


def a_campaign(trials: int = 2, **values: Any) -> Campaign:
    """A campaign as its file would give it, and a run that does not count."""
    study = a_study(**values)
    head = json.loads(json.dumps(header_of(study, study.specs())))
    events = [
        {
            "event": "run",
            "trial": trial,
            "point": number,
            "command": f"miniapps {' '.join(head['points'][number]['arguments'])}",
            "record": record_of(head, number, trial),
        }
        for trial in range(trials)
        for number in range(len(head["points"]))
    ]
    dropped = {"event": "dropped", "trial": 9, "point": 0, "reason": "status 3", "final": False}
    return Campaign(head, [*events, dropped])


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def runs_of(campaign: Campaign) -> list[dict[str, Any]]:
    return list(campaign.of("run"))


def test_tidy_csv_has_a_row_for_each_run_that_counts() -> None:
    """Mistake: a mean over trials, a shifted column, a total where a step's time should be."""
    campaign = a_campaign()
    rows, runs = rows_of(tidy_csv(campaign)), runs_of(campaign)
    assert len(rows) == len(runs)
    for row, run in zip(rows, runs, strict=True):
        record = run["record"]
        for name in ("driver", "pes", "odf", "steps", "warmup", "migrations", "state_hash"):
            assert row[name] == str(record[name])
        assert row["command"] == run["command"] and row["trial"] == str(run["trial"])
        assert row["balancer"] == (record["balancer"] or "")
        assert float(row["step_s"]) == record["wall_s"] / 5
        assert float(row["step_min_s"]) == record["wall_s"] / 8
        assert float(row["rate"]) == record["rate"]["value"] and row["rate_unit"] == "points/s"
        assert float(row["balancing_s"]) == (0.375 if record["balancer"] else 0)
        assert row["problem.size"] == "61x43" and row["problem.time_tile"] == "2"
        assert row["oversubscribed"] == str(record["pes"] > 8)
        assert float(row["disturbed"]) == 0


def test_seed_csv_adds_up() -> None:
    """Mistake: rounds of several steps counted once, or each with the whole round's time.

    Another header than that code's readers look for, and a run without a file.
    """
    campaign = a_campaign()
    files = seed_csv(campaign)
    assert len(files) == len(runs_of(campaign)) + 1
    header = "Process,Iteration,Iteration Time,Communication Time,Computation Time"
    for name, text in files.items():
        assert name == "README.txt" or text.splitlines()[0] == header
    number = next(
        n for n, p in enumerate(campaign.head["points"]) if (p["driver"], p["pes"]) == ("mpi", 2)
    )
    rows = rows_of(files[f"trial00-point{number:02}-mpi-2pe.csv"])
    pairs = [(int(row["Process"]), int(row["Iteration"])) for row in rows]
    assert pairs == [(pe, step) for pe in (0, 1) for step in (3, 4, 5, 6, 7)]
    wall = np.array([float(row["Iteration Time"]) for row in rows]).reshape(2, 5)
    computed = np.array([float(row["Computation Time"]) for row in rows]).reshape(2, 5)
    waited = np.array([float(row["Communication Time"]) for row in rows]).reshape(2, 5)
    assert np.allclose(wall, [[0.5, 0.5, 0.25, 0.25, 0.5]] * 2)
    assert np.allclose(wall.sum(axis=1), 2)
    assert np.allclose(computed, wall * [[0.5], [0.25]])
    assert np.allclose(waited + computed, wall)


def test_charm_has_no_communication_time_and_the_reason_is_given() -> None:
    """Mistake: a number that looks like MPI's but holds other chares' computing, or a gap."""
    files = seed_csv(a_campaign(trials=1))
    charm = {name: rows_of(text) for name, text in files.items() if "-charm-" in name}
    assert charm and all(row["Communication Time"] == "" for rows in charm.values() for row in rows)
    assert all(float(row["Computation Time"]) > 0 for rows in charm.values() for row in rows)
    others = [rows_of(text) for name, text in files.items() if "mpi" in name or "serial" in name]
    assert all(float(row["Communication Time"]) > 0 for rows in others for row in rows)
    assert (
        "the rest of the iteration, under serial and sim and file and mpi:" in files["README.txt"]
    )
    assert "Communication Time is empty under charm. There a process holds" in files["README.txt"]
    assert any("charm-4pe-odf4-Greedy2.csv" in name for name in files)


@pytest.mark.slow
def test_extra_p_reads_the_text_and_finds_the_law(tmp_path: Path) -> None:
    """Mistake: a file that only looks like Extra-P's, values under the wrong point, lost trials."""
    path = tmp_path / "campaign.txt"
    path.write_text(extra_p(a_campaign(trials=3)))
    program = """\
import json, sys
from extrap.fileio.file_reader.text_file_reader import TextFileReader
from extrap.modelers.model_generator import ModelGenerator
experiment = TextFileReader().read_experiment(sys.argv[1])
models = ModelGenerator(experiment)
models.model_all()
print(json.dumps({
    path.name: [
        [[m.coordinate[0], m.repetitions, m.mean] for m in found],
        [p.name for p in experiment.parameters],
        metric.name,
    ] for (path, metric), found in experiment.measurements.items()
}))
laws = {path.name: model.hypothesis.function for (path, _), model in models.models.items()}
print(json.dumps({name: law.evaluate(64) for name, law in laws.items()}))
"""
    (place,) = EXTRAP.glob("lib/python*/site-packages")
    done = support.execute(
        [sys.executable, "-c", program, path], env={"PYTHONPATH": str(place)}, check=True
    )
    found, models = map(json.loads, done.stdout.splitlines())
    names = {"mpi", "charm_odf1", "charm_odf4", "charm_odf4_Greedy2"}
    assert found.keys() == names  # not serial, which has one point
    for measured, parameters, metric in found.values():
        assert parameters == ["p"] and metric == "time"
        assert [m[:2] for m in measured] == [[p, 3] for p in (1, 2, 4, 8)]  # 16: oversubscribed
        assert np.allclose([m[2] for m in measured], [(p + 1 / 8) / 5 for p in (1, 2, 4, 8)])
    assert models == pytest.approx(dict.fromkeys(names, (64 + 1 / 8) / 5), rel=1e-3)


def test_extra_p_keeps_to_points_that_all_ways_have() -> None:
    """Mistake: a missing run that shifts all later values to the point before."""
    campaign = a_campaign(drivers=("mpi", "charm"))
    gone = [
        r["point"]
        for r in runs_of(campaign)
        if (r["record"]["driver"], r["record"]["pes"]) == ("mpi", 2)
    ]
    campaign.events = [entry for entry in campaign.events if entry["point"] not in gone]
    lines = extra_p(campaign).splitlines()
    assert lines[:2] == ["PARAMETER p", "POINTS ( 1 ) ( 4 ) ( 8 )"]
    assert lines[3:8] == [
        "REGION mpi",
        "METRIC time",
        "DATA 0.2 0.225",
        "DATA 0.8 0.825",
        "DATA 1.6 1.625",
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "granularity", "halvings": 1},
        {"kind": "lb", "vary": ("initial=ones,initial=noise",), "problems": TWO_PROBLEMS},
    ],
)
def test_extra_p_does_not_mix_problems(values: dict[str, Any]) -> None:
    """Mistake: runs of several problems of a study as trials of one point."""
    campaign = a_campaign(**values, pes=(1, 2), drivers=("mpi",))
    lines = extra_p(campaign).splitlines()
    assert [line for line in lines if line.startswith("REGION")] == [
        "REGION mpi_problem0",
        "REGION mpi_problem1",
    ]
    assert {len(line.split()) for line in lines if line.startswith("DATA")} == {3}


@pytest.mark.parametrize("values", [{"pes": (2,)}, {"pes": (8, 16)}, {"drivers": ("serial",)}])
def test_extra_p_needs_several_numbers_of_pes(values: dict[str, Any]) -> None:
    """Mistake: a file of which Extra-P can make nothing."""
    with pytest.raises(InputError, match="two or more numbers of PEs"):
        extra_p(a_campaign(**values))


def test_extra_p_needs_numbers_of_pes_that_all_have() -> None:
    """Mistake: a file with a single point, because the others are of one configuration each."""
    campaign = a_campaign(drivers=("mpi", "charm"), odfs=(1,), pes=(1, 2, 4))
    kept = {("mpi", 1), ("mpi", 2), ("charm", 2), ("charm", 4)}
    campaign.events = [
        run for run in runs_of(campaign) if (run["record"]["driver"], run["record"]["pes"]) in kept
    ]
    with pytest.raises(InputError, match="two or more numbers of PEs"):
        extra_p(campaign)


def test_tolerance_follows_the_spread() -> None:
    """Mistake: checks that fail in every other run, or never."""
    assert tolerance_of([1.0, 1.0]) == 0.5
    assert tolerance_of([1.0, 1.0, 1.0]) == 0.1
    assert tolerance_of([0.9, 1.0, 1.1]) == pytest.approx(0.3)


# ReFrame ------------------------------------------------------------------------------------------


@cache
def measured(number: int) -> str:
    """The record of a real run of a point, as text."""
    study = a_study(pes=(2,), drivers=("serial", "mpi"), steps=6, warmup=0)
    return json.dumps(support.run_record(*study.specs()[number].arguments()[1:]))


def measured_campaign(slow: float = 1e6, **changes: Any) -> Campaign:
    """A campaign of real runs, whose times are made ``slow`` times longer."""
    study = a_study(pes=(2,), drivers=("serial", "mpi"), steps=6, warmup=0)
    head = json.loads(json.dumps(header_of(study, study.specs())))
    events = []
    for number in range(len(head["points"])):
        record = json.loads(measured(number))
        record["wall_s"] *= slow
        record["rate"]["value"] /= slow
        record |= {"oversubscribed": False} | changes
        events.append({"event": "run", "trial": 0, "point": number, "record": record})
    return Campaign(head, events)


def reframe(campaign: Campaign, folder: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    """Run a check under ReFrame: exit status, report by test, output."""
    (folder / "check.py").write_text(reframe_check(campaign))
    report = folder / "report.json"
    words = [support.BIN / "reframe", "-c", folder / "check.py", "-r", "--nocolor"]
    words += ["--prefix", folder, "--report-file", report]
    words += ["-S", f"program={support.BIN / 'miniapps'}", *more]
    done = support.execute(words, 100, {"HOME": str(folder), "RFM_SAVE_LOG_FILES": "no"})
    assert report.exists(), f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    cases = json.loads(report.read_text())["runs"][-1]["testcases"]
    return done.returncode, {case["point"]: case for case in cases}, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_reframe_runs_the_check(tmp_path: Path) -> None:
    """Mistake: a check that ReFrame cannot load, or that measures something else."""
    campaign = measured_campaign()
    status, cases, out = reframe(campaign, tmp_path)
    assert status == 0, out
    assert list(cases) == ["00-serial-1pe", "01-mpi-2pe"]
    for case, run in zip(cases.values(), runs_of(campaign), strict=True):
        assert case["result"] == "pass"
        found = {key.rpartition(":")[2]: value for key, value in case["perfvalues"].items()}
        value, reference, lower, upper, unit, *_ = found["step_time"]
        record = run["record"]
        assert reference == pytest.approx(record["wall_s"] / 6) and unit == "s"
        assert (lower, upper) == (None, 0.5) and 0 < value < reference
        value, reference, lower, upper, unit, *_ = found["rate"]
        assert reference == record["rate"]["value"] and unit == "points/s"
        assert lower == pytest.approx(-1 / 3) and upper is None and value > reference


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_reframe_refuses_other_bits(tmp_path: Path) -> None:
    """Mistake: a check that cannot fail."""
    status, cases, _ = reframe(measured_campaign(state_hash="ab" * 32), tmp_path, "-n", "serial")
    assert status == 1
    assert {case["fail_phase"] for case in cases.values()} == {"sanity"}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_reframe_refuses_slow_runs(tmp_path: Path) -> None:
    """Mistake: a reference that is only shown."""
    status, cases, _ = reframe(measured_campaign(slow=1e-6), tmp_path, "-n", "serial-1pe")
    assert status == 1
    assert [case["fail_phase"] for case in cases.values()] == ["performance"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_reframe_has_no_numbers_for_more_pes_than_cores(tmp_path: Path) -> None:
    """Mistake: a failure for a time that means nothing."""
    campaign = measured_campaign(slow=1e-6, oversubscribed=True)
    status, _, out = reframe(campaign, tmp_path, "-n", "serial-1pe")
    assert status == 0, out


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_reframe_puts_no_launcher_around_a_launcher(tmp_path: Path) -> None:
    """Mistake: under mpirun or srun, `miniapps run -n 2` is taken for one rank of two."""
    partition = {"name": "p", "scheduler": "local", "launcher": "mpirun", "environs": ["builtin"]}
    settings = {
        "systems": [{"name": "cluster", "hostnames": [".*"], "partitions": [partition]}],
        "environments": [{"name": "builtin"}],
    }
    (tmp_path / "settings.py").write_text(f"site_configuration = {settings!r}\n")
    (tmp_path / "check.py").write_text(reframe_check(a_campaign(pes=(2,), drivers=("mpi",))))
    words = [support.BIN / "reframe", "-C", tmp_path / "settings.py", "-c", tmp_path / "check.py"]
    support.execute(
        [*words, "--prefix", tmp_path, "--dry-run"], 100, {"HOME": str(tmp_path)}, check=True
    )
    (script,) = (tmp_path / "stage").rglob("rfm_job.sh")
    assert "\nminiapps run jacobi2d --driver mpi -n 2 " in script.read_text()


HARMFUL = [
    ["--launcher", "./mine"],
    ["--", "./mine"],
    ["--output", "../x.h5"],
    ["--json", "../x.json"],
    ["--steps", "--launcher=./mine"],
    ["--steps", "--json=../x"],
    ["./mine", "5"],
    ["--trace"],
]


@pytest.mark.parametrize("words", HARMFUL, ids="_".join)
def test_reframe_starts_nothing_but_runs(words: list[str]) -> None:
    """Catches arguments of a campaign from elsewhere that start a program or write a file."""
    campaign = a_campaign()
    assert "'--steps'" in reframe_check(campaign)
    campaign.head["points"][1]["arguments"] += words
    with pytest.raises(InputError, match="export"):
        reframe_check(campaign)


def test_numbers_of_a_reframe_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches medians for means, another unit, and a bound on the wrong side, without ReFrame."""
    units: list[str] = []
    plain = dict.fromkeys(("run_after", "run_before"), lambda _: lambda made: made)
    plain |= {"performance_function": lambda unit: units.append(unit) or (lambda made: made)}
    plain |= {"sanity_function": lambda made: made, "simple_test": lambda made: made}
    plain |= {"parameter": lambda values: None, "variable": lambda kind, value: value}
    stub = SimpleNamespace(**plain, RunOnlyRegressionTest=object, getlauncher=None, sanity=None)
    stub.utility = stub
    for name in ("", ".utility", ".utility.sanity", ".core", ".core.backends", ".core.builtins"):
        monkeypatch.setitem(sys.modules, f"reframe{name}", stub)
    campaign = a_campaign(3)
    runs = [run["record"] for run in runs_of(campaign) if run["point"] == 1]
    for record, wall in zip(runs, (1.0, 1.5, 5.0), strict=True):
        record |= {"wall_s": wall, "rate": {"value": 30 / wall, "unit": "points/s"}}
    made: dict[str, Any] = {}
    exec(reframe_check(campaign), made)
    check = made["MiniappsCheck"]()
    check.point = list(made["POINTS"])[1]
    check.set_up()
    slower = 3 * np.std([1.0, 1.5, 5.0], ddof=1) / 2.5
    step, rate = (check.reference["*"][name] for name in ("step_time", "rate"))
    assert step == (pytest.approx(0.5), None, pytest.approx(slower), "s")
    assert rate[:2] == (pytest.approx(56 / 3), pytest.approx(1 / (1 + slower) - 1))
    assert rate[2:] == (None, "points/s") and units == ["s", "points/s"]
    monkeypatch.chdir(tmp_path)
    Path("record.json").write_text(json.dumps(runs[2] | {"step_time_s": {"median": 9.0}}))
    assert (check.step_time(), check.rate()) == (1.0, 6.0)


def test_reframe_needs_one_answer() -> None:
    """Mistake: taking the first hash where there are two."""
    campaign = a_campaign()
    runs_of(campaign)[-1]["record"]["state_hash"] = "cd"
    with pytest.raises(InputError, match="different states"):
        reframe_check(campaign)


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_files_are_written_where_asked(tmp_path: Path, form: str) -> None:
    """Mistake: a format that is offered and not written, or files beside the place asked for."""
    source, target = tmp_path / "v1.2.jsonl", tmp_path / "made" / "here"
    files = export(a_campaign(), form, target, source)
    assert files and all(path.read_text() for path in files)
    beside = export(a_campaign(), form, None, source)
    if form == "seed-csv":
        assert {path.parent for path in files} == {target}
        assert {path.parent for path in beside} == {tmp_path / "v1.2"}
    else:
        assert files == [target]
        assert beside == [tmp_path / f"v1.2{SUFFIXES[form]}"] and SUFFIXES[form]


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    """Mistake: a traceback, or an empty file that looks like a result."""
    campaign = a_campaign()
    empty = Campaign(campaign.head, [campaign.events[-1]])
    with pytest.raises(InputError, match="--format xml: one of csv, seed-csv, extra-p, reframe"):
        export(campaign, "xml", tmp_path / "x", SOURCE)
    for form in FORMATS:
        with pytest.raises(InputError, match="no run that counts"):
            export(empty, form, tmp_path / "x", SOURCE)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--to .*cannot be written"):
        export(campaign, "csv", tmp_path / "file" / "x", SOURCE)
    with pytest.raises(InputError, match="is the campaign itself"):
        export(campaign, "csv", SOURCE.resolve(), SOURCE)
    old = copy.deepcopy(campaign)
    for run in old.of("run"):
        del run["record"]["rounds"]["compute_s"]
    with pytest.raises(InputError, match="has no times of single PEs"):
        export(old, "seed-csv", tmp_path / "x", SOURCE)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
