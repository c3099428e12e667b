"""Runs that lose PEs and go on by themselves: the same bits, and a record of what was lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from random import Random

import pytest
import support
from test_checkpoints import record

from drivers import agreements
from workbench.exit_status import STOPPED
from workbench.run import checkpoint, monitor, processes
from workbench.run.monitor import Monitor
from workbench.run.progress_file import STARTING

KILLS = int(os.environ.get("MINIAPPS_KILLS", "5"))  # in each run; 50 by hand
ENDLESS = "jacobi2d", "--size", "24x20", "--time-tile", 1, "--warmup", 0, "--steps", 10**7
CASES = {
    "serial": ["--driver", "serial", "--pe-grid", "2x1"],
    "mpi": ["--driver", "mpi", "-n", 3, "--restart-pes", 2],
    "charm": ["--driver", "charm", "-n", 3, "--odf", 2, "--restart-pes", 2],
    "file": ["--driver", "file", "-n", 3, "--restart-pes", 2],
}


class Disturber:
    """Kills or stops PEs at random moments, and at last asks the run to stop.

    It takes the place of `Monitor.check`, which it calls.
    """

    def __init__(self, seed: str, kills: int, patch: pytest.MonkeyPatch) -> None:
        self.random, self.kills, self.usual = Random(seed), kills, Monitor.check
        self.steps: list[int] = []  # of the furthest PE, when each was killed
        self.monitor: Monitor | None = None
        self.hit = False
        patch.setattr(Monitor, "check", lambda monitor: self.check(monitor))
        for name in ("GRACE_S", "STARTING_CHECK_S", "CHECK_S"):
            patch.setattr(monitor, name, 0.01)
        patch.setattr(processes, "STOPPED_S", 0.02)
        patch.setattr(agreements, "APART_S", 0.05)

    def check(self, watched: Monitor) -> str | None:
        """Disturb the run, if it is time, and check it."""
        if watched is not self.monitor:
            self.monitor, self.hit = watched, False
            self.starting = self.random.random() < 0.2  # whether it is killed before it steps
            self.looks = self.random.randrange(40)  # else, that many looks later
        if not self.hit:
            self.disturb(watched)
        return self.usual(watched)

    def disturb(self, watched: Monitor) -> None:
        """Kill or stop a PE, or end the run."""
        slots = watched.progress.slots()
        if len(self.steps) == self.kills:
            if min(slot.step for slot in slots) > 0:
                self.hit = True
                os.kill(os.getpid(), signal.SIGTERM)
            return
        stepping = [slot.pid for slot in slots if slot.phase != STARTING]
        pids = watched.progress.forked() if self.starting else stepping
        if not pids or (not self.starting and len(stepping) < len(slots)):
            return
        self.looks -= 1
        if self.looks < 0 or self.starting:
            self.hit = True
            self.steps.append(max(slot.step for slot in slots))
            number = signal.SIGSTOP if self.random.random() < 0.2 else signal.SIGKILL
            os.kill(self.random.choice(pids), number)


@pytest.mark.launch
@pytest.mark.parametrize("driver", CASES)
def test_killed_at_random_moments(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: None
) -> None:
    """Catches a run that ends with a PE, takes up a state that is not its own, or counts wrong."""
    disturber, file = Disturber(driver, KILLS, monkeypatch), tmp_path / "c.h5"
    kept = "--checkpoint", file, "--checkpoint-every", 20, "--restart-on-failure", KILLS
    done = support.in_process("run", *ENDLESS, *CASES[driver], *kept, "--json", "-")
    assert done.returncode == STOPPED, done
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["valid"] and len(found["restarts"]) == KILLS == len(disturber.steps)
    assert done.stderr.count("; restart ") == KILLS
    for failure, step in zip(found["restarts"], disturber.steps, strict=True):
        assert failure["from"] <= failure["step"] >= step
        assert failure["lost_s"] >= 0 and (failure["recovery_s"] or 1) > 0
        assert failure["from"] % 20 == 0
    assert found["pes"] == (1 if driver == "serial" else 2)
    end = found["stopped"]["step"]
    assert found["state_hash"] == record("run", *ENDLESS, "--steps", end)["state_hash"]
    assert {*tmp_path.iterdir()} == {file, checkpoint.kept(file, 1)}
