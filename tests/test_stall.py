"""When a run counts as making no progress, on made-up times."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.drivers.waits import Wait
from miniapps.workbench.run.progress_file import ProgressFile
from miniapps.workbench.run.stall import Stall

STEP_S = 3.0  # of a slow run
PLACE = ("block", (0, 0))


@pytest.fixture
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProgressFile:
    """The progress file of a run of one PE, whose steps are made by `make_step`."""
    monkeypatch.setattr("miniapps.workbench.run.stall.ANSWER_S", 0.0)
    monkeypatch.setattr("miniapps.workbench.run.stall.STACK_S", 0.0)
    return ProgressFile(tmp_path / "progress", 1)


def checked(stall: Stall, begin: float, seconds: float) -> float | None:
    """Check ten times a second; after how many seconds the run was found to make no progress."""
    for tenths in range(int(10 * seconds)):
        now = begin + tenths / 10
        if stall.check(now, stall.progress.slots()) is not None:
            return now - begin
    return None


def steps_until(stall: Stall, monkeypatch: pytest.MonkeyPatch, steps: int) -> float:
    """Make slow steps; returns the time of the last one."""
    begin = stall.last_change
    for step in range(steps):
        now = begin + step * STEP_S
        monkeypatch.setattr("miniapps.workbench.run.progress_file.monotonic", lambda now=now: now)
        stall.progress.heartbeat(0, step)
        assert checked(stall, now, STEP_S) is None
    return begin + (steps - 1) * STEP_S


def test_a_slow_run_is_no_hanging_one(progress, monkeypatch):
    """Mistake: a fixed limit that ends runs of long steps; or one that never comes."""
    stall = Stall(progress, None)
    last = steps_until(stall, monkeypatch, 5)
    assert checked(stall, last + STEP_S, 100 * STEP_S) == pytest.approx(19 * STEP_S, abs=0.3)


def test_the_users_limit_counts(progress, monkeypatch):
    """Mistake: an option that is read and forgotten, or that also counts while a run starts."""
    stall = Stall(progress, 5.0)
    assert checked(stall, stall.last_change, 100) is None
    last = steps_until(Stall(progress, 5.0), monkeypatch, 3)
    stall = Stall(progress, 5.0)
    assert checked(stall, last, 20) == pytest.approx(5.0, abs=0.3)


@pytest.mark.parametrize(
    ("does", "answered", "phase", "deadlock"),
    [
        ("waits for phase 'halo'", True, "stepping", True),
        ("has yielded Post and may continue", True, "stepping", True),
        ("computes", True, "stepping", False),
        ("waits for phase 'halo'", False, "stepping", False),
        ("has ended its round", True, "finishing", False),
        ("waits for phase 'halo'", True, "going on", False),
    ],
)
def test_a_deadlock_is_no_slow_run(progress, monkeypatch, does, answered, phase, deadlock):
    """Mistake: a run that only needs more time is reported as one that could never end."""

    def answers() -> list[Wait]:
        if phase == "going on":
            progress.heartbeat(0, 1)
        return [Wait(PLACE, 0, does, [])]

    stall = Stall(progress, 5.0)
    progress.heartbeat(0, 0)
    if phase == "finishing":
        progress.finish(0)
    monkeypatch.setattr(progress, "silent", lambda: [] if answered else [0])
    monkeypatch.setattr(progress, "answers", answers if answered else list)
    stall.last_change = progress.slot(0).changed
    stall.checked = stall.last_change + 6.0
    said = stall.check(stall.last_change + 6.0, progress.slots())
    assert said is not None and said.startswith("no progress for 6 s")
    assert (", and no block computes; PE 0 is furthest behind" in said) == deadlock


@pytest.mark.parametrize(("does", "stuck"), [("waits for all ranks", True), ("computes", False)])
def test_ranks_of_a_benchmark_have_no_blocks(progress, monkeypatch, does, stuck):
    """Mistake: steps and blocks that a benchmark does not have."""
    waits = [Wait(("rank", 1), 3, "waits for all ranks", [], "bw, 8 B in trial 2")]
    waits.append(Wait(("rank", 0), 3, does, [], "bw, 8 B in trial 2"))
    stall = Stall(progress, 5.0)
    progress.heartbeat(0, 0)
    monkeypatch.setattr(progress, "silent", list)
    monkeypatch.setattr(progress, "answers", lambda: waits)
    stall.last_change = progress.slot(0).changed
    stall.checked = stall.last_change + 6.0
    said = stall.check(stall.last_change + 6.0, progress.slots())
    assert said is not None and said.splitlines() == [
        "no progress for 6 s" + ", and no rank computes" * stuck,
        f"  bw, 8 B in trial 2: rank 0 {does}",
        "  bw, 8 B in trial 2: rank 1 waits for all ranks",
    ]


def test_a_suspended_run_goes_on(progress, monkeypatch):
    """Mistake: Ctrl-Z and `fg` end a run, as if it had hung in between."""
    stall = Stall(progress, 5.0)
    last = steps_until(stall, monkeypatch, 3)
    assert checked(stall, last, 2) is None
    assert checked(stall, last + 3600, 2) is None
