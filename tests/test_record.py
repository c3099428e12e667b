"""The record of a run, made of outcomes that are changed by hand, and its summary in words."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import support

from miniapps import apps
from miniapps.devices import system
from miniapps.drivers.agreements import Wish
from miniapps.drivers.descriptor import Balancing, Options
from miniapps.drivers.outcome import Outcome
from miniapps.parameters import InputError
from miniapps.workbench import environment
from miniapps.workbench.exit_status import STOPPED, VALID, WRONG
from miniapps.workbench.run import record
from miniapps.workbench.run.spec import RunSpec

PES, STEPS, WARMUP = 6, 4, 2
OF_SERIAL = Options()
BALANCED = Balancing(balancer="Greedy", lb_period=2, lb_first=3)  # due before steps 3 and 5 of 6


@pytest.fixture(scope="module")
def solved() -> support.Solved:
    """A run of a problem that may end where its tolerance is tested: after every fifth step."""
    values = {"tolerance": 1e-9, "check_every": 5, "time_tile": 1}
    problem = support.small_problem(apps.load("jacobi2d"), **values)
    return support.solve("jacobi2d", problem, (3, 2), STEPS, WARMUP)


def made(solved: support.Solved, own: Any = OF_SERIAL, **changes: Any) -> dict[str, Any]:
    """The record of the run with another outcome."""
    spec = RunSpec("jacobi2d", solved.problem, steps=STEPS, warmup=WARMUP, pe_grid=(3, 2), own=own)
    outcome: Outcome = replace(solved.outcome, pes=PES, **changes)
    return record.build(spec, outcome, 0.0)


def value_of(found: dict[str, Any], name: str) -> float | None:
    """The value of a check whose limit is 0; None if it was not made."""
    checks = {check["name"]: (check["value"], check["limit"]) for check in found["checks"]}
    value, limit = checks.get(name, (None, 0))
    assert limit == 0
    return value


@pytest.mark.parametrize(("done", "missing"), [(6, 0), (5, 0), (4, 2), (3, 3), (7, 1), (10, 4)])
def test_steps_that_are_missing(solved: support.Solved, done: int, missing: int) -> None:
    """Catches a run that ends too early or too late, and a right end where it may finish."""
    assert value_of(made(solved, steps_done=done), "steps missing") == missing
    assert value_of(made(solved), "blocks missing") == 0


@pytest.mark.parametrize(
    ("wish", "by"), [(Wish.TIME_LIMIT, "--time-limit"), (Wish.SIGNAL, "signal")]
)
def test_a_run_that_stopped(solved: support.Solved, wish: Wish, by: str) -> None:
    """Catches steps that are missing because the run was to stop, and a stop without its reason."""
    assert not {"stopped", "for_a_time"} & made(solved).keys()
    found = made(solved, stopped=wish, steps_done=5)
    assert value_of(found, "steps missing") == value_of(found, "blocks missing") == 0
    assert found["stopped"] == {"step": 5, "by": by} and found["steps"] == 3


def test_a_run_that_stopped_in_its_warm_up(solved: support.Solved) -> None:
    """Catches a time of no step, and another status than that of a stop."""
    none = {"rounds": [], "wall_s": np.zeros(0), "compute_s": np.zeros((PES, 0))}
    found = made(solved, stopped=Wish.SIGNAL, steps_done=1, **none)
    assert value_of(found, "blocks missing") is None and found["steps"] == 0
    assert found["valid"] is all(check["ok"] for check in found["checks"])
    assert "step_time_s" not in found


@pytest.mark.parametrize(
    ("valid", "stopped", "status"),
    [(True, False, VALID), (True, True, STOPPED), (False, False, WRONG), (False, True, WRONG)],
)
def test_status(valid: bool, stopped: bool, status: int) -> None:
    """Catches a wrong run that ends as one that stopped, or one that stopped as a wrong one."""
    assert record.status_of({"valid": valid} | ({"stopped": {}} if stopped else {})) == status


def test_times_of_rounds(solved: support.Solved) -> None:
    """Catches a time per round for one per step, a mean for a median, a rate of other steps."""
    walls, compute = np.array([1.0, 8.0, 3.0, 8.0]), np.array([[1, 2, 2, 5], [1, 4, 1, 2.0]])
    rounds = [(2, 1), (3, 2), (5, 1), (6, 4)]
    changed = replace(
        solved.outcome, pes=2, rounds=rounds, wall_s=walls, compute_s=compute, steps_done=10
    )
    spec = RunSpec("jacobi2d", solved.problem, steps=8, warmup=2, own=OF_SERIAL)
    found = record._timing(spec, changed)
    assert found["step_time_s"] == {"median": 2.5, "min": 1, "max": 4}
    assert (found["wall_s"], found["compute_s"]) == (20, 18)
    cells = np.prod(solved.problem.size)
    assert found["rate"] == {"value": 8 * cells / 20, "unit": "points/s"}
    assert found["utilisation"] == 18 / 40
    assert found["rounds"]["first"] == [2, 3, 5, 6] and found["rounds"]["count"] == [1, 2, 1, 4]
    assert found["rounds"]["compute_s"] == compute.tolist()
    assert record._short(np.array([1.2345678, 0.1])) == [1.23457, 0.1]


@pytest.mark.parametrize(
    ("own", "steps", "missing"),
    [
        (OF_SERIAL, [], None),
        (Balancing(), [], None),
        (BALANCED, [3, 5], 0),
        (BALANCED, [5], 1),
        (BALANCED, [], 2),
        (BALANCED, [3, 4, 5], 1),
    ],
)
def test_load_balancing_steps_that_are_missing(solved, own, steps, missing):
    """Catches a run that was to be balanced and was not, or when it was not due."""
    entry = {"moved": 0, "seconds": 0.0, "paid_after": None}
    entry |= {"imbalance_before": 1.0, "imbalance_after": 1.0}
    found = made(solved, own, balancing=[entry | {"step": step} for step in steps])
    assert value_of(found, "balancing steps missing") == missing


def test_pes_and_cores(solved: support.Solved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a load of the last 5 minutes, and PEs with a core each that are too many."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.25, 0.5, 0.75))
    for cores, many in ((PES, False), (PES - 1, True)):
        monkeypatch.setattr(environment, "cores_of_run", lambda: cores)  # noqa: B023
        found = made(solved)
        assert found["oversubscribed"] is many and found["host"]["cores"] == cores
        assert found["disturbance"]["load_average"] == 0.25


@pytest.mark.parametrize(("cores", "many"), [((PES, 1), False), ((PES - 2, 9), True)])
def test_pes_and_cores_of_hosts(cores, many, solved, monkeypatch):
    """Catches a host with too few cores that is excused by one with many."""
    hosts = [
        {"name": name, "pes": pes, "cores": count, "memory_bytes": 1}
        for name, pes, count in zip("ab", (PES - 1, 1), cores, strict=True)
    ]
    monkeypatch.setenv(environment.HOSTS_VARIABLE, json.dumps(hosts))
    found = made(solved)
    assert found["hosts"] == hosts
    assert found["oversubscribed"] is many


def test_compute_of_pes_is_left_out_above_the_limit(solved, monkeypatch):
    """Catches a record with one number more than are allowed, and one less."""
    for most, kept in ((STEPS, True), (STEPS - 1, False)):
        monkeypatch.setattr(record, "MANY", most)
        assert ("compute_s" in made(solved)["rounds"]) is kept


@pytest.mark.parametrize(
    ("result", "said"), [({"steps": -1}, "record.steps"), ({"two\nlines": 1}, "a key of record")]
)
def test_what_an_app_may_not_put_into_a_record(solved, result, said, monkeypatch):
    """Catches a record that no reader understands, or that does what a terminal is told to."""
    monkeypatch.setattr(type(solved.problem), "results", lambda *_: result)
    with pytest.raises(InputError, match=said):
        made(solved)


CPUINFO = "processor\t: 0\nmodel name\t: Abacus 2: fast \nmodel name\t: Other\n"


@pytest.mark.parametrize(
    ("told", "named", "said"),
    [
        (CPUINFO, "x", "Abacus 2: fast"),
        ("CPU part\t: 0xd40\n", "x", "x"),
        ("", "x", "x (no /proc/cpuinfo)"),
        ("CPU part\t: 0xd40\n", "", "machine"),
    ],
)
def test_host(told: str, named: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches another core's model, and a kernel's version that changes with each update."""
    monkeypatch.setattr(system, "text", lambda path: told if path == "/proc/cpuinfo" else "")
    for name, word in {"processor": named, "machine": "machine", "release": "6.1.12-9"}.items():
        monkeypatch.setattr(platform, name, lambda word=word: word)
    found = record.host()
    assert found["processor"] == said and found["system"].endswith(" 6.1")


def summed_up(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the summary of a record by hand."""
    monkeypatch.setenv("COLUMNS", "200")
    case = {"app": "jacobi2d", "driver": "mpi", "pes": 2, "odf": 1, "warmup": 2, "steps": 4}
    case |= {"gpu": None, "transport": None, "problem": {}}
    return record.summary(support.whole_record(case | more, 0.001)).splitlines()


DISTURBED = {"load_average": 0.0, "switches_per_s": 0.0}
MOVED = {"seconds": 0.0012345, "imbalance_before": 1.5, "imbalance_after": 1.25}
GPU = {"path": "staged", "reason": "no peers", "staged_bytes": 1234501}
WAITED = "a PE waited 50% of the time for a core that other programs used; times are too long"
STOLEN = "the host of this virtual machine took 50% of the time from its cores; times are too long"
SUMMARIES: list[tuple[dict[str, Any], set[str], set[str]]] = [  # changes; lines; without words
    ({}, {"ok    missing cells: 0 (limit 0)", f"state {'ab' * 32}"}, {"DISTURBED", "oversub"}),
    (
        {"valid": False, "checks": [{"name": "a", "value": None, "limit": 0.5, "ok": False}]},
        {"WRONG a: not a number (limit 0.5)", "NOT VALID: no timing is given"},
        {"ms", "utilisation"},
    ),
    (
        {"checks": [{"name": "a", "value": 0.25, "limit": 0.5, "ok": True}]},
        {"ok    a: 0.25 (limit 0.5)"},
        {"NOT VALID"},
    ),
    ({"disturbance": DISTURBED | {"waited": 0.5, "steal": 0.5}}, {f"DISTURBED: {WAITED}"}, set()),
    ({"disturbance": DISTURBED | {"waited": 0.1, "steal": 0.5}}, {f"DISTURBED: {STOLEN}"}, set()),
    ({"disturbance": DISTURBED | {"waited": record.DISTURBED, "steal": 0.0}}, set(), {"DISTURBED"}),
    (
        {"pes": 5, "environment": {"NUMBA_DISABLE_JIT": "1"}},
        {
            "oversubscribed: 5 PEs on 4 cores; no speed to quote",
            "NUMBA_DISABLE_JIT: kernels ran as plain Python; no speed to quote",
        },
        {"more"},
    ),
    (
        {
            "hosts": [{"name": "a", "pes": 1, "cores": 1}, {"name": "b", "pes": 2, "cores": 1}],
            "oversubscribed": True,
        },
        {"oversubscribed: 2 PEs on 1 core of host b; no speed to quote"},
        {"of host a"},
    ),
    (
        {"resumed": [{"step": 1}, {"step": 2}, {"step": 3}]},
        {"4 steps from the checkpoint of step 3 on"},
        {"warm-up"},
    ),
    (
        {"gpu": "Card", "transport": GPU},
        {"messages staged: no peers; 1.235 MB through hosts"},
        {"cpu"},
    ),
    (
        {"rounds": {"first": [2, 4], "count": [2, 2], "wall_s": [0.002, 0.002]}},
        {"step 1 ms median (1 to 1), 1000 points/s"},
        {"in one round"},
    ),
    (
        {"balancer": "Greedy", "lb_period": 2, "lb": [MOVED]},
        {"balanced before step 4: moved no block in 1.23 ms, imbalance 1.500 -> 1.250"},
        {"saved"},
    ),
    ({"transport": GPU}, {"messages staged: no peers"}, {"MB through"}),
    (
        {"snapshots_s": 0.0, "checkpoints_s": 0.125},
        {"checkpoints 0.125 s, not timed"},
        {"snapshots"},
    ),
]


@pytest.mark.parametrize(("more", "said", "unsaid"), SUMMARIES)
def test_summary(more, said, unsaid, monkeypatch):
    """Catches a line that is missing, or said of another run, or its number in another unit."""
    lines = summed_up(more, monkeypatch)
    assert said <= {line.strip() for line in lines}
    assert [word for word in unsaid if any(word in line for line in lines)] == []


def test_imports_of_a_run(solved: support.Solved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a time of imports that nobody has measured, or none although somebody has."""
    spec = RunSpec("jacobi2d", solved.problem, steps=STEPS, warmup=WARMUP, own=OF_SERIAL)
    times = [record.build(spec, solved.outcome, seconds) for seconds in (None, 0.5)]
    assert [found.get("import_s") for found in times] == [None, 0.5]
    without = summed_up({}, monkeypatch)
    assert any("imports 1.00 s" in line for line in without)
    assert record._imports({}) == "unknown"


def test_an_app_says_its_own_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a summary without what only the app knows."""
    problem = apps.load("jacobi2d").Problem
    monkeypatch.setattr(problem, "lines", lambda found: [f"{found['steps']} by itself"])
    assert "  4 by itself" in summed_up({}, monkeypatch)
