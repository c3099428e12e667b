"""`miniapps verify`: its cases can all be run, and it says so where one is different or wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import skips

from miniapps import apps
from miniapps.echo.block import EchoBlock
from miniapps.workbench import verify
from miniapps.workbench.run import batch, launch
from miniapps.workbench.run.cases import Case, spec_of


@pytest.mark.parametrize("app", apps.names())
def test_every_case_can_be_run(app: str) -> None:
    """Catches a tiny problem that is too small for a decomposition with a wide halo."""
    for case in verify.cases(apps.load(app).Problem.variants, full=True):
        spec_of(app, case, "tiny").check()


def results(monkeypatch: pytest.MonkeyPatch, result: Callable[[int, Any], Any]) -> None:
    """Let runs end as ``result`` says, by their number and spec."""

    def solve_all(specs: list[Any], device: str) -> list[Any]:
        return [result(number, spec) for number, spec in enumerate(specs)]

    monkeypatch.setattr(verify, "solve_all", solve_all)
    monkeypatch.setattr(verify, "resumed", lambda app, device: [])


def valid(state: str) -> dict[str, Any]:
    """A valid record."""
    return {"state_hash": state, "checks": [{"name": "mode", "ok": True}]}


@pytest.mark.parametrize("outcome", ["other", "wrong", "PE 1 died in step 3"])
def test_one_bad_case_is_enough(monkeypatch, capsys, outcome):
    """Catches a result that looks at the last case only, or at hashes but not at checks."""
    bad = {
        "other": valid("other"),
        "wrong": {"state_hash": "same", "checks": [{"name": "mode", "ok": False}]},
    }.get(outcome, outcome)
    results(monkeypatch, lambda number, spec: bad if number == 2 else valid("same"))
    assert verify.verify(["echo"], full=False) == 1
    assert "1 of the runs above went wrong" in capsys.readouterr().out


def test_all_alike_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a command that fails whatever it finds."""
    results(monkeypatch, lambda number, spec: valid("same"))
    assert verify.verify(["echo"], full=False) == 0


def test_a_run_that_goes_on_is_compared(monkeypatch, capsys):
    """Catches an app whose checkpoint lacks something, which nothing else of `verify` finds."""
    monkeypatch.setattr(verify, "cases", lambda variants, full: [Case("serial")])
    assert verify.verify(["echo"], full=False) == 0
    assert "3 parts, from that checkpoint" in " ".join(capsys.readouterr().out.split())
    usual = EchoBlock.resume

    def wrong(self: Any, saved: Any) -> Any:
        yield from usual(self, saved)
        self.wrong += 1

    monkeypatch.setattr(EchoBlock, "resume", wrong)
    assert verify.verify(["echo"], full=False) == 1
    monkeypatch.delattr(EchoBlock, "resume")
    assert [*verify.resumed("echo", "cpu")] == []


def test_a_gpu_is_compared_with_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches runs on a GPU that are compared with each other only, or that ran on the CPU."""
    devices: list[str] = []

    def spec_of(app: str, case: Case, preset: str, device: str) -> Any:
        devices.append(device)
        return device

    monkeypatch.setattr(verify, "spec_of", spec_of)
    results(monkeypatch, lambda number, device: valid("right" if device == "cpu" else "wrong"))
    assert verify.verify(["echo"], full=False, device="gpu") == 1
    assert devices[0] == "cpu" and set(devices[1:]) == {"gpu"} and len(devices) > 15


@pytest.mark.long
def test_several_kinds_of_blocks_are_compared_on_the_smaller_problem(monkeypatch):
    """Catches a run of pairs of cells whose bits differ from those of blocks, and passes."""
    sizes: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    wrong: set[str] = set()

    def result(number: int, spec: Any) -> Any:
        problem = spec.problem
        sizes.setdefault((spec.driver, problem.decomposition), set()).add(problem.lattice)
        other = problem.decomposition == "pairs" and spec.driver in wrong
        return valid("other" if other else f"{problem.lattice}")

    results(monkeypatch, result)
    assert verify.verify(["leanmd"], full=False) == 0
    small = {"pairs": {(6, 4, 4)}, "blocks": {(6, 4, 4), (12, 4, 4)}}
    for driver in ("serial", "sim"):
        assert {kind: sizes[driver, kind] for kind in small} == small
    for driver, kind in sizes:
        wrong = {driver} if kind == "pairs" else set()
        assert verify.verify(["leanmd"], full=False) == bool(wrong)
    cases = verify.cases(apps.load("leanmd").Problem.variants, full=False)
    first = [case for case, where in verify.on_device(cases, "gpu") if where == "cpu"]
    assert [case.smaller for case in first] == [False, True]


def test_each_drivers_smallest_launch_starts_its_pes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a driver all of whose PEs are forked, GPUs in forked PEs, and results in disorder."""
    forking, calls = False, []

    @contextmanager
    def started(short: list[Any]) -> Iterator[list[str]]:
        nonlocal forking
        assert {spec.app for spec in short} == {"echo"}
        forking = True
        yield ["program"]
        forking = False

    def solve_all(specs: list[Any]) -> list[Any]:
        calls.extend((spec.driver, spec.pes, forking) for spec in specs)
        assert forking == (launch.pe_program() == ["program"])
        return list(specs)

    monkeypatch.setattr(verify.warm, "started", started)
    monkeypatch.setattr(verify.batch, "solve_all", solve_all)
    specs = [spec_of("echo", case, "tiny") for case in verify.cases((), full=False)]
    assert verify.solve_all(specs[::-1], "cpu") == specs[::-1]
    assert {pes for driver, pes, forked in calls if driver == "mpi" and not forked} == {1}
    assert {pes for driver, pes, forked in calls if driver == "mpi" and forked} == {2, 3, 4, 6}
    assert {driver for driver, _, forked in calls if not forked} == {s.driver for s in specs}
    calls.clear()
    verify.solve_all(specs, "gpu")
    assert not any(forked for _, _, forked in calls) and len(calls) == len(specs)


def test_few_launches_make_all_runs() -> None:
    """Catches runs that no longer share a launch, and runs that share one though they cannot."""
    specs = [
        spec_of(app, case, "tiny")
        for app in apps.names()
        for case in verify.cases(apps.load(app).Problem.variants, full=False)
    ]
    launches = {batch.launch_of(spec) for spec in specs if not spec.can.one_process}
    with_charm = skips.no_wheel() is None
    assert len(specs) > (150 if with_charm else 80)
    assert len(launches) == (12 if with_charm else 6)
    assert len({(driver, pes) for driver, pes, *_ in launches}) == (9 if with_charm else 6)


@pytest.mark.slow
def test_a_run_that_fails_is_that_case_and_the_others_still_run(tmp_path, miniapps):
    """Catches a failure that takes the runs behind it along, or is taken for another run's."""
    (tmp_path / "sitecustomize.py").write_text(SABOTAGE)
    drivers = skips.expected("mpi", "charm")
    lines = "\n".join(
        f"run jacobi2d --preset tiny --warmup 0 --steps {steps} --driver {driver} -n 2"
        for driver in drivers
        for steps in (3, 4, 5)
    )
    (tmp_path / "runs").write_text(f"# comments are left out\n\n{lines}\n")
    done = miniapps("batch", tmp_path / "runs", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 3, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one.get("steps") for one in found] == [3, None, 5] * len(drivers)
    assert all("out of cheese" in one["failed"] for one in found[1::3])


SABOTAGE = """
from miniapps import apps
load = apps.load
def spoilt(name):
    module = load(name)
    if name == "jacobi2d" and not hasattr(module, "spoilt"):
        from miniapps.jacobi2d.block import JacobiBlock
        module.spoilt, measure = True, JacobiBlock.measure
        def wrong(self):
            if self.time == 4:
                raise ValueError("out of cheese")
            return measure(self)
        JacobiBlock.measure = wrong
    return module
apps.load = spoilt
"""


def test_a_bad_line_is_refused_before_anything_runs(tmp_path, miniapps):
    """Catches runs that are made for nothing, as the last of them cannot be made."""
    for line in ("run jacobi2d --size 0x5", "study report"):
        (tmp_path / "runs").write_text(f"run echo\n{line}\n")
        done = miniapps("batch", tmp_path / "runs")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
