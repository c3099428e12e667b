"""The monitor of launched runs: what it costs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import support

from miniapps.devices.cpu import host_memory
from miniapps.workbench.run import host_processes, monitor
from miniapps.workbench.run.host_processes import HostProcesses
from miniapps.workbench.run.processes import process_state, words_of
from miniapps.workbench.run.progress_file import ProgressFile


def test_a_run_that_steps_is_checked_seldom_and_its_end_is_seen_at_once(tmp_path, monkeypatch):
    """Catches a monitor that takes time from PEs by frequent checks, or one that sleeps too long.

    The launcher ends in half a second, and the next check would be a minute later.
    """
    monkeypatch.setattr(monitor, "CHECK_S", 60.0)
    progress = ProgressFile(tmp_path / "progress", 1)
    progress.heartbeat(0, 1)
    spec: Any = SimpleNamespace(app="jacobi2d", driver="mpi", pes=1, steps=10, warmup=0)
    begin = time.monotonic()
    with subprocess.Popen(["sleep", "0.5"]) as launcher:
        watching = monitor.Monitor(spec, ["sleep"], progress, launcher, None, lambda file: None)
        checks = []
        check = watching.check
        monkeypatch.setattr(watching, "check", lambda: checks.append(1) or check())
        assert watching.wait() is None
    assert len(checks) == 2  # the second after its end
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(("kills", "said"), [(0, ""), (1, "1 process"), (3, "3 processes")])
def test_a_pe_that_the_kernel_has_killed_for_its_memory(kills, said, tmp_path, monkeypatch):
    """Catches "died" without the likely cause, and one that is none: kills before the run."""
    counters = tmp_path / "vmstat"
    counters.write_text("nr_free_pages 5\noom_kill 7\n")
    monkeypatch.setattr(host_memory, "COUNTERS", counters)
    monkeypatch.setattr(monitor, "GRACE_S", -1.0)
    progress = ProgressFile(tmp_path / "progress", 1)
    spec: Any = SimpleNamespace(app="jacobi2d", driver="mpi", pes=1, steps=10, warmup=0)
    with subprocess.Popen(["sleep", "100"]) as launcher, subprocess.Popen(["sleep", "100"]) as pe:
        progress.pid = pe.pid
        progress.heartbeat(0, 4)
        watching = monitor.Monitor(spec, ["sleep"], progress, launcher, None, lambda file: None)
        pe.kill()
        pe.wait()
        counters.write_text(f"nr_free_pages 5\noom_kill {7 + kills}\n")
        trouble = watching.check()
        launcher.kill()
    cause = f"; meanwhile the kernel has killed {said} of this host, as memory ran out"
    assert trouble == f"PE 0 (process {pe.pid}) died in step 4{cause if kills else ''}"


@pytest.mark.parametrize("name", ["python", "python3.11", "pypy-with-a-long-name"])
def test_a_pe_that_died_between_two_looks(name, tmp_path, monkeypatch):
    """Catches a PE that is not missed, because its Python is called otherwise than expected.

    charmrun does not notice it either, for a minute.
    """
    monkeypatch.setattr(host_processes, "GRACE_S", -1.0)
    program = tmp_path / name
    program.symlink_to("/bin/true")
    dead = os.posix_spawn(program, [str(program)], os.environ)
    support.wait_for(lambda: process_state(dead) == "Z")
    progress = ProgressFile(tmp_path / "progress", 2)
    here = HostProcesses(progress, 2, [str(program), "run"], lambda: [dead], lambda file: None)
    said = here.check(time.monotonic())
    os.waitpid(dead, 0)
    assert said == f"a PE (process {dead}) died before its first step"


def test_a_pe_without_a_launcher_is_killed(tmp_path: Path) -> None:
    """Catches a rank that is left when MPICH's proxy is killed while ranks start."""
    program = [sys.executable, "-c", "import time; time.sleep(99)"]
    with subprocess.Popen(program) as pe:
        support.wait_for(lambda: words_of(pe.pid) == program)
        progress, found = ProgressFile(tmp_path / "progress", 2), [pe.pid]
        here = HostProcesses(progress, 2, program, lambda: found)
        assert here.check(time.monotonic()) is None
        found.clear()
        here.kill()
        assert pe.wait(support.ENDING_S) == -signal.SIGKILL
