"""Runs that lose PEs and go on by themselves: the same bits, and a record of what was lost."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import h5py
import pytest
import support
from test_checkpoints import RUNS, damaged, record

from miniapps.drivers import agreements
from miniapps.workbench.cli import spec_of
from miniapps.workbench.exit_status import FAILED
from miniapps.workbench.run import checkpoint, launch, monitor, processes, restarts
from miniapps.workbench.run.checkpoint import read_checkpoint
from miniapps.workbench.run.launch import Ended
from miniapps.workbench.run.revalidation import contradiction
from miniapps.workbench.run.spec import RunSpec

DEATHS = int(os.environ.get("MINIAPPS_KILLS", "5"))  # in each run; 50 by hand
EVERY = 10  # steps between checkpoints
CASES = {
    "serial": "--driver serial --pe-grid 2x1",
    "mpi": "--driver mpi -n 3",
    "charm": "--driver charm -n 3 --odf 2",
    "file": "--driver file -n 3",
}
# What the first PE does that comes to it: after some CPU time a signal ends it, or it stops.
HOOK = """
import os, signal
from miniapps.workbench.run.progress_file import ProgressFile
def dies():
    try:
        os.close(os.open({mark!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    {act}
usual = ProgressFile.heartbeat
def heartbeat(self, pe, step):
    usual(self, pe, step)
    if step >= {step} and pe == {pe} % self.pes:
        dies()
ProgressFile.heartbeat = heartbeat
if {step} < 0:
    dies()
"""
STOPS = "os.kill(os.getpid(), signal.SIGSTOP)"


class Mortal(RunSpec):
    """A run whose PEs, where they read what to do, learn how one of them is to die next."""

    next: ClassVar[list[str]] = []

    def __reduce_ex__(self, _: Any) -> Any:
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        found = {"spec": RunSpec(**own), "hook": self.next.pop(0) if self.next else ""}
        return eval, ("[exec(hook, {}), spec][1]", found)


def hooks(random: Random, folder: Path, steps: int, pes: int) -> list[str]:
    """How PEs die one after the other: some before they step, some stop, others at any moment.

    ``pes``: how many of them read what they are to do.
    """
    found = []
    for number in range(DEATHS):
        step = random.randrange(steps // DEATHS * number, steps // DEATHS * (number + 1))
        ring = f"signal.setitimer(signal.ITIMER_PROF, {random.uniform(1e-4, 4e-3)})"
        where = {"mark": str(folder / str(number)), "pe": random.randrange(pes)}
        act, step = random.choice([(ring, step)] * 7 + [(STOPS, step), (ring, -1)])
        found.append(HOOK.format(act=act, step=step, **where))
    return found


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("driver", CASES)
def test_pes_die_at_random_moments(driver, tmp_path, monkeypatch, forked):
    """Catches a run that ends with a PE, takes up a state that is not its own, or counts wrong."""
    for name, seconds in {"GRACE_S": 0.2, "CHECK_S": 0.01}.items():
        monkeypatch.setattr(monitor, name, seconds)
    monkeypatch.setattr(processes, "STOPPED_S", 0.05)
    file, marks, steps = tmp_path / "c.h5", tmp_path / "marks", 40 * DEATHS
    marks.mkdir()
    pes = 1 if driver == "charm" else 3
    monkeypatch.setattr(Mortal, "next", hooks(Random(driver), marks, steps, pes))
    words = f"run jacobi2d --size 24x20 --time-tile 1 --warmup 0 --steps {steps + 200}"
    kept = f"--checkpoint {file} --checkpoint-every {EVERY}"
    again = {"restart_on_failure": DEATHS, "restart_pes": None if driver == "serial" else 2}
    plain = vars(spec_of(f"{words} {CASES[driver]} {kept}".split()))
    spec = Mortal(**{field.name: plain[field.name] for field in fields(RunSpec)} | again)

    found = restarts.launch_until_done(spec, lambda run: launch.command_for_all([run]), None)

    assert isinstance(found, dict) and found["valid"], found
    assert len(found["restarts"]) == DEATHS == len([*marks.iterdir()])
    assert contradiction(found) is None
    made = 0
    for failure in found["restarts"]:
        assert failure["from"] % EVERY == 0 and made <= failure["from"] <= failure["step"]
        assert failure["lost_s"] >= 0 and (failure["recovery_s"] or 1) > 0
        made = failure["from"]
    assert [past["step"] for past in found["resumed"]][-1:] == [made][: made > 0]
    assert found["pes"] == (1 if driver == "serial" else 2)
    assert found["state_hash"] == record(*words.split())["state_hash"]
    assert {*tmp_path.iterdir()} == {file, checkpoint.kept(file, 1), marks}


class Launches:
    """Takes the place of `launch.launch_to_end`: a launch makes steps in this process, and fails.

    ``ends``: how many each has made, which may be none; the one after these makes all steps.
    """

    def __init__(self, ends: list[int], patch: pytest.MonkeyPatch) -> None:
        self.ends, self.runs = ends, list[RunSpec]()
        patch.setattr(launch, "launch_to_end", self)

    def __call__(self, specs: Any, *_: Any) -> Any:
        """Make one launch."""
        (spec,) = specs
        self.runs.append(spec)
        alone = replace(spec, restart_on_failure=0, restart_pes=None)
        if not self.ends:
            return [record(*alone.arguments())], Ended(None, 0, 9, 1e9)
        end = self.ends.pop(0)
        if end > spec.start:
            record(*replace(alone, steps=end).arguments())
        return [f"PE 0 died in step {end}\n  and more"], Ended("died", 3, end, 1e9)


def again(file: Path, ends: list[int], patch: pytest.MonkeyPatch, *more: object) -> Any:
    """The launches of a run that fails after these steps, its record, and what it says."""
    launches = Launches(ends, patch)
    words = *RUNS["echo"].split(), "--warmup", 0, "--checkpoint", file, "--checkpoint-every", 2
    how = "--restart-on-failure", 3, "--json", "-", *more
    done = support.in_process("run", *words, *how, check=True)
    return launches.runs, json.loads(done.stdout), done.stderr


def test_from_where_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches steps that are made again without need, and wrong numbers of those that are."""
    runs, found, said = again(tmp_path / "c.h5", [5, 0, 7], monkeypatch)
    assert [run.start for run in runs] == [0, 4, 4, 6]
    of = [(one["from"], one["step"], one["reason"]) for one in found["restarts"]]
    assert of == [(4, 5, "PE 0 died in step 5"), (4, 4, "PE 0 died in step 0"), of[2]]
    assert of[2] == (6, 7, "PE 0 died in step 7") and contradiction(found) is None
    assert said.splitlines()[2].endswith("step 7; restart 3 of 3, from step 6 on 1 PE")
    assert found["state_hash"] == record("run", *RUNS["echo"].split(), "--warmup", 0)["state_hash"]


@pytest.mark.long
def test_checkpoints_that_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a checkpoint of another run, one that is damaged, and one with nothing to do."""
    file = tmp_path / "c.h5"
    words = *RUNS["echo"].split(), "--warmup", "0", "--checkpoint", str(file)
    spec = spec_of(["run", *words, "--checkpoint-every", "2"])
    record(*spec.arguments())
    runs, *_ = again(file, [0, 3], monkeypatch)  # where there are those of the run before
    assert [run.start for run in runs] == [0, 0, 2]
    of_all, first = {*restarts._files(spec)}, checkpoint.kept(file, 1)
    assert len(of_all) == 2 and restarts._continued(spec, set(), 0.0).start == 8
    assert restarts._continued(replace(spec, steps=8), set(), 0.0).start == 6
    with h5py.File(file) as opened:
        where = next(iter(opened["state"].values())).id.get_offset()
    os.replace(damaged(file, tmp_path, where), file)
    assert restarts._continued(spec, set(), 0.0).start == 6
    assert restarts._continued(spec, {restarts._identity(first)}, 0.0).start == 0
    assert restarts._continued(replace(spec, resume=first), of_all, 0.0).start == 6
    os.utime(first, (1, 1))  # as a new file that got the number of one that was removed
    assert restarts._continued(spec, of_all, 0.0).start == 6


def test_the_last_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a run that goes on for ever, and one that ends without its reason."""
    launches = Launches([3, 5, 7], monkeypatch)
    words = *RUNS["echo"].split(), "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 2
    done = support.in_process("run", *words, "--warmup", 0, "--restart-on-failure", 2)
    assert done.returncode == FAILED and len(launches.runs) == 3
    assert done.stderr.splitlines()[2:] == [
        "miniapps: run failed: PE 0 died in step 7",
        "  and more",
    ]


def test_the_time_limit_is_that_of_all_launches(tmp_path, monkeypatch):
    """Catches PEs that begin a new limit, and a checkpoint that keeps what was left of one."""
    clock = iter([0.0, 0.0, 70.0, 70.0, 99.0, 99.0])
    monkeypatch.setattr(restarts, "monotonic", lambda: next(clock))
    monkeypatch.setattr(agreements.system, "age_s", lambda: 0.0)
    file = tmp_path / "c.h5"
    runs, *_ = again(file, [3, 5], monkeypatch, "--time-limit", "90s")
    assert [run._time_left_s for run in runs] == [90.0, 20.0, pytest.approx(1e-3)]
    assert read_checkpoint("", file).head["case"]["--time-limit"] == "90s"


def test_what_failures_have_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches work lost since another moment than the checkpoint, and PEs and times of others."""
    file, runs, now = tmp_path / "c.h5", list[RunSpec](), [100.0]
    words = *RUNS["echo"].split(), "--warmup", "0", "--checkpoint", str(file)
    words = *words, "--checkpoint-every", "2"
    # A launch whose PEs step after 3 s, and that ends 3 s after its checkpoint; one without that.
    ends = iter([(103.0, 107.0, 110.0), (114.0, None, 120.0), (125.0, None, 130.0)])

    def launch_to_end(specs: Any, *_: Any) -> Any:
        runs.extend(specs)
        began, written, now[0] = next(ends)
        if written:
            record("run", *words, "--steps", "5")
            os.utime(file, (written, written))
        result = "died" if len(runs) < 3 else {"valid": True}
        return [result], Ended(None, 3, 5, began)

    monkeypatch.setattr(launch, "launch_to_end", launch_to_end)
    for name in ("monotonic", "time"):
        monkeypatch.setattr(restarts, name, lambda: now[0])
    spec = spec_of(["run", *words, "--driver", "file", "-n", "3"])
    spec = replace(spec, restart_on_failure=2, restart_pes=2)
    found = restarts.launch_until_done(spec, lambda _: [], None)
    assert isinstance(found, dict)
    one = {"reason": "died", "step": 5, "from": 4}
    assert found["restarts"] == [
        one | {"pes": 3, "lost_s": 3.0, "recovery_s": 4.0},
        one | {"pes": 2, "lost_s": 10.0, "recovery_s": 5.0},
    ]
    assert [(run.pes, run.time_used) for run in runs] == [(3, 0.0), (2, 10.0), (2, 20.0)]


def test_restarts_that_are_refused(tmp_path: Path) -> None:
    """Catches options that would have no effect, or that fail only after a PE has died."""
    words, new = ("run", *RUNS["echo"].split()), ("--checkpoint", tmp_path / "c.h5")
    kept = *new, "--checkpoint-every", 2
    more = "--restart-on-failure", 2
    for given, why in (
        (more, "needs --checkpoint FILE.h5"),
        ((*kept, "--restart-pes", 2), "--restart-pes 2: needs --restart-on-failure N"),
        ((*kept, "--restart-on-failure", -1), "must be 0 or more"),
        ((*kept, *more, "--restart-pes", 2), "--restart-pes 2: --driver serial has one PE"),
        (
            (*kept, *more, "--driver", "file", "-n", 2, "--restart-pes", 0),
            "-n 0: must be 1 or more",
        ),
        ((*kept, *more, "--hash-every", 1, "--output", tmp_path / "o.h5"), "would be lost"),
        ((*kept, *more, "--no-launch"), "only where this process launches the PEs"),
    ):
        assert why in support.refused((*words, *given)), given
