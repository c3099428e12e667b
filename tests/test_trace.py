"""Slices of what blocks do, and the trace that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import support

from miniapps import apps
from miniapps.contract import AllReduce, Collect, Pause, Post
from miniapps.devices.backend import Device
from miniapps.drivers.engine import Engine
from miniapps.drivers.timing import COMPUTE, PACK, PELog, Stepper
from miniapps.echo.block import EchoBlock
from miniapps.jacobi2d.block import JacobiBlock
from miniapps.kernel_user import KernelUser
from miniapps.leanmd.block import LeanmdBlock
from miniapps.leanmd.pairs import Cell, Compute
from miniapps.pic.block import PicBlock
from miniapps.stencil3d.block import StencilBlock
from miniapps.workbench.show.saved import SavedRun

DRIVERS = ["serial", "mpi", "charm"]


class CountedWork(Device):
    """A device whose marks are the units of work done so far, whatever else the machine does."""

    def __init__(self) -> None:
        self.done = 0
        self.mark = self.begin = lambda: float(self.done)  # a new object each time
        self.mark_after = lambda begin: float(self.done)


class Busy:
    """A block that computes 2 units, packs 1, computes 3, packs 1, computes 1."""

    def __init__(self) -> None:
        self.device = CountedWork()

    def work(self, units: int) -> None:
        """Do some units of work."""
        self.device.done += units

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Its life."""
        self.work(2)
        yield Pause()
        self.work(1)
        yield Post("a", {})
        self.work(3)
        yield Collect("a", ())
        self.work(1)
        yield Post("b", {})
        yield AllReduce(1, "sum")
        self.work(1)
        yield Pause()
        return False


def spend(ms: float) -> None:
    """Do nothing, busily."""
    end = perf_counter() + 1e-3 * ms
    while perf_counter() < end:
        pass


def lived(traced: bool) -> tuple[list[Any], Stepper]:
    """The requests that a driver sees of a busy block, and the PE that ran it."""
    stepper = Stepper(Busy(), traced)
    requests = [stepper.start(1)]
    while requests[-1] is not None:
        requests.append(stepper.resume(None))
    return [type(request) for request in requests[:-1]], stepper


def test_no_driver_sees_a_mark() -> None:
    """Catches a driver that would have to answer a Mark, and time that a Mark loses."""
    for traced in (False, True):
        requests, stepper = lived(traced)
        assert requests == [Post, Collect, Post, AllReduce]
        assert sum(end - begin for begin, end, _ in stepper.compute) == 8
    assert lived(False)[1].slices == []


def test_kinds_of_slices() -> None:
    """Catches packing that counts as computing, or computing before a Mark as packing."""
    _, stepper = lived(True)
    kinds = [kind for kind, _, _ in stepper.slices]
    assert kinds == [COMPUTE, PACK, COMPUTE, PACK, COMPUTE, COMPUTE, COMPUTE]
    assert [end - begin for _, begin, end in stepper.slices] == [2, 1, 3, 1, 0, 1, 0]


class Slowed:
    """Kernels, of which one takes long the first few times: ``spans`` has from when to when."""

    def __init__(self, kernels: Any, name: str, spans: list[tuple[float, float]]) -> None:
        self.kernels, self.name, self.spans = kernels, name, spans

    def __getattr__(self, name: str) -> Any:
        if name == self.name and len(self.spans) < 20:
            begin = perf_counter()
            spend(0.5)
            self.spans.append((begin, perf_counter()))
        return getattr(self.kernels, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "values", "owner", "name"),
    [
        ("pic", {}, PicBlock, "push"),
        ("leanmd", {"rebuild": 1}, LeanmdBlock, "kick_and_drift"),
        ("leanmd", {"rebuild": 1}, LeanmdBlock, "sort_into_bins"),
        ("leanmd", {"decomposition": "pairs", "rebuild": 1}, Cell, "kick_and_drift"),
        ("leanmd", {"decomposition": "pairs"}, Compute, "PAIR_FORCES"),
        ("leanmd", {"decomposition": "pairs", "thermo": 1}, Compute, "energies"),
        ("jacobi2d", {"time_tile": 1}, JacobiBlock, "sweep"),
        ("stencil3d", {"time_tile": 1}, StencilBlock, "sweep"),
    ],
)
def test_what_computes_is_no_packing(app, values, owner, name, monkeypatch):
    """Catches an app that computes between its last request and a Post and does not say so."""
    right = KernelUser.kernels.func
    spans: list[tuple[float, float]] = []
    slowed = property(lambda block: Slowed(right(block), name, spans))
    monkeypatch.setattr(owner, "kernels", slowed)
    assert_computing(app, support.small_problem(apps.load(app), **values), spans)


def test_checking_is_no_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an echo whose looking at messages counts as packing the next ones."""
    spans: list[tuple[float, float]] = []
    check = Slowed(SimpleNamespace(is_wrong=EchoBlock.is_wrong), "is_wrong", spans)
    monkeypatch.setattr(EchoBlock, "is_wrong", lambda self, *both: check.is_wrong(*both))
    assert_computing("echo", support.small_problem(apps.load("echo")), spans)


def assert_computing(app: str, problem: Any, spans: list[tuple[float, float]]) -> None:
    """Make two steps, and look that each of the spans lies in a slice of computing."""
    layout = problem.cut(1, 1, None)
    problem = problem.prepared(layout, "cpu")
    build = apps.load(app).Block
    engine = Engine([build(problem, layout, i, Device()) for _, i in layout.numbers], traced=True)
    engine.setup()
    spans.clear()
    log = PELog(0)
    for step in range(2):
        engine.round(step, 1)
        for runner in engine.runners.values():
            log.add(0, step, runner.stepper)
    assert spans
    slices = log.tables()["slices"]
    for span in spans:
        begin, end = (moment - log.origin for moment in span)
        (which,) = np.flatnonzero((slices["begin_s"] <= begin) & (end <= slices["end_s"]))
        assert slices["kind"][which] == COMPUTE


def test_slices_go_to_the_log_once() -> None:
    """Catches slices that a chare takes along when it migrates, or hands over twice."""
    _, stepper = lived(True)
    log = PELog(3)
    log.add(5, 0, stepper)
    assert (stepper.compute, stepper.slices) == ([], [])
    slices = log.tables()["slices"]
    assert len(slices) == 7 and set(slices["pe"]) == {3} and set(slices["block"]) == {5}


@pytest.mark.parametrize("driver", DRIVERS)
def test_slices_are_all_of_the_computing(traced_runs: dict[str, Path], driver: str) -> None:
    """Catches slices that are lost, doubled, or on another PE, block or round than their time."""
    run = SavedRun.read(traced_runs[driver])
    assert run.slices is not None
    keys = ("block", "pe", "round")
    rows = {tuple(int(row[key]) for key in keys): row for row in run.rows}
    took = dict.fromkeys(rows, 0.0)
    for row in run.slices:
        key = tuple(int(row[key]) for key in keys)
        took[key] += row["end_s"] - row["begin_s"]
        assert rows[key]["begin_s"] - 1e-9 <= row["begin_s"] <= row["end_s"]
        assert row["end_s"] <= rows[key]["end_s"] + 1e-9
    assert [took[key] for key in rows] == pytest.approx(
        [row["compute_s"] for row in rows.values()], abs=1e-9
    )
    assert set(run.slices["kind"]) == {COMPUTE, PACK}
    with h5py.File(traced_runs[driver]) as file:
        assert list(file["timing/slices"].attrs["kinds"]) == ["compute", "pack"]


def test_load_balancing_is_stored(traced_runs: dict[str, Path]) -> None:
    """Catches a balancing that is not written, on another clock, or moves that nobody saw."""
    run = SavedRun.read(traced_runs["charm"])
    moved = {entry["step"]: entry["moved"] for entry in run.record["lb"]}
    for step, count in moved.items():
        rows = run.syncs[run.syncs["step"] == step]
        assert sorted(rows["pe"]) == [0, 1] and rows["came"].sum() == count > 0
        shortest = (rows["end_s"] - rows["begin_s"]).min()
        (entry,) = (entry for entry in run.record["lb"] if entry["step"] == step)
        assert shortest == pytest.approx(entry["seconds"])
        (number,) = np.flatnonzero(run.rounds[:, 0] == step)
        for row in rows:
            here = run.rows[run.rows["pe"] == row["pe"]]
            assert here["end_s"][here["round"] < number].max() <= row["begin_s"]
            assert row["begin_s"] <= row["end_s"]
            assert row["end_s"] <= here["begin_s"][here["round"] == number].min()
    assert len(run.syncs) == 2 * len(moved) >= 4
    for driver in ("serial", "mpi"):
        assert len(SavedRun.read(traced_runs[driver]).syncs) == 0


def test_traces_are_written_where_there_are_slices(traced_runs, run_record, tmp_path):
    """Catches a trace without slices, slices nobody asked for, and an option without a file."""
    done = support.in_process("plot", traced_runs["mpi"], "--trace")
    target = traced_runs["mpi"].with_suffix(".trace.json")
    assert done.returncode == 0 and done.stdout.split() == [str(target)]
    assert json.loads(target.read_text())["displayTimeUnit"] == "ms"
    run_record("jacobi2d", "--preset", "tiny", "--output", tmp_path / "plain.h5")
    with h5py.File(tmp_path / "plain.h5") as file:
        assert "slices" not in file["timing"] and "snapshots" not in file
    assert "run with --trace" in support.refused(["plot", tmp_path / "plain.h5", "--trace"])
    for option in (["--trace"], ["--snapshot-every", 3]):
        said = support.refused(["run", "jacobi2d", "--preset", "tiny", *option])
        assert "needs --output" in said
    words = ["run", "jacobi2d", "--snapshot-every", -1, "--output", tmp_path / "x.h5"]
    assert "--snapshot-every -1: must be 0 or more" in support.refused(words)
