"""The progress file, which the launcher reads while PEs write to it, and the bar that shows it."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import support

from miniapps.drivers.job import RunError
from miniapps.drivers.waits import Wait
from miniapps.workbench.run import progress_bar, progress_file
from miniapps.workbench.run.progress_file import ERRORS, FINISHING, RUNNING, STARTING, ProgressFile

WRITE = """
import sys
from pathlib import Path
from miniapps.workbench.run.progress_file import ProgressFile
progress = ProgressFile(Path(sys.argv[1]), 2)
for step in range(400_000):
    progress.heartbeat(1, step)
progress.finish(1)
"""


def test_no_half_written_slot_is_read(tmp_path: Path) -> None:
    """Catches a slot that is cleared before it is written: its PE looked dead, once in 30 runs."""
    progress = ProgressFile(tmp_path / "progress", 2)
    assert [slot.phase for slot in progress.slots()] == [STARTING, STARTING]
    with subprocess.Popen([sys.executable, "-c", WRITE, progress.path], cwd=support.ROOT) as writer:
        while progress.slot(1).phase == STARTING:
            assert writer.poll() is None
        before, looks = 0, 0
        while (slot := progress.slot(1)).phase != FINISHING:
            assert slot.pid == writer.pid and slot.phase == RUNNING
            assert slot.step >= before and slot.changed > 0
            before, looks = slot.step, looks + 1
    assert looks > 1000 and writer.returncode == 0
    assert progress.slot(1).step == 399_999 and progress.slot(0).phase == STARTING


def test_a_slot_says_what_was_written(tmp_path: Path) -> None:
    """Catches fields that are mixed up, and a PE that writes into another one's slot."""
    progress = ProgressFile(tmp_path / "progress", 3)
    progress.heartbeat(2, 17)
    progress.heartbeat(0, 5)
    progress.finish(0)
    first, second, third = progress.slots()
    assert (first.pid, first.step, first.phase) == (os.getpid(), 5, FINISHING)
    assert (third.pid, third.step, third.phase) == (os.getpid(), 17, RUNNING)
    assert second == (0, 0, 0.0, STARTING) and third.changed <= first.changed


def test_blocks_of_a_finished_run_are_not_kept(tmp_path: Path) -> None:
    """Catches PEs that have the blocks of their last run while they make those of the next one."""

    class Blocks:
        def waits(self) -> list[Wait]:
            return []

    blocks, progress = Blocks(), ProgressFile(tmp_path / "progress", 1)
    kept = weakref.ref(blocks)
    progress.attend(0, blocks.waits, threaded=False)
    progress.finish(0)
    del blocks
    progress.close()
    assert kept() is None


@pytest.mark.parametrize("finished", [False, True])
def test_an_error_of_messages_after_another_pe_died(finished, tmp_path, monkeypatch):
    """Catches "PE 1: MPI cannot read" as a run's reason where PE 0 was killed."""
    progress = ProgressFile(tmp_path / "progress", 2)
    waits: list[float] = []
    monkeypatch.setattr(progress_file, "sleep", waits.append)
    with subprocess.Popen(["true"]) as other:
        progress.pid = other.pid
        progress.heartbeat(0, 3)
        if finished:
            progress.finish(0)  # such a process may be gone
    progress.pid = os.getpid()
    progress.heartbeat(1, 3)
    progress.fail(RunError("MPI cannot read"))
    assert bool(waits) is not finished  # the launching process ends it while it waits
    assert (tmp_path / ERRORS).read_text() == "PE 1, MPI cannot read\n"


def test_the_bar_shows_how_far_a_run_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a bar that stands still, counts no warm-up, comes at once, or into a file."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_bar, "REFRESH_S", 0.001)
    leader, follower = pty.openpty()
    run: Any = SimpleNamespace(app="pic", driver="mpi", warmup=3, steps=7)
    progress, bar = ProgressFile(tmp_path / "progress", 1), progress_bar.ProgressBar.of_run(run)
    with os.fdopen(leader, "rb", 0) as screen, os.fdopen(follower, "w") as terminal:
        os.set_blocking(leader, False)
        monkeypatch.setattr(sys, "stderr", terminal)
        bar.update(1)
        assert screen.read() is None
        bar.begun -= progress_bar.PATIENCE_S
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        bar.update(2)
        assert bar.bar is None
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress_bar.drawn(bar, progress):
            progress.heartbeat(0, 5)
            support.wait_for(lambda: bar.bar is not None and bar.bar.tasks[0].completed == 5)
        shown = screen.read().decode()
    assert "pic, mpi" in shown and " 50%" in shown
