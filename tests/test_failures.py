"""Runs that die, hang or raise: one line that names the culprit, status 3, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from workbench.run.progress_file import ProgressFile

MINIAPPS = str(Path(sys.executable).with_name("miniapps"))
TAG = "MINIAPPS_TEST"
LONG_RUN = ["jacobi2d", "--size", "400x400", "--time-tile", "1", "--steps", "10000000"]


def processes_of(run: subprocess.Popen[str]) -> list[int]:
    """The PEs of a run: the Python processes in its environment that were told not to launch."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and environment_of(int(entry.name)).get(TAG) == run.tag:
            with suppress(OSError):
                words = (entry / "cmdline").read_text().split("\0")
                if "--no-launch" in words and words[1].endswith("miniapps"):
                    found.append(int(entry.name))
    return sorted(found)


def restore_interrupts() -> None:
    """Let Ctrl-C work again: a shell makes what it runs in the background ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def launched():
    """Start a run, wait until its two PEs are stepping, and clean up whatever is left of it."""
    runs = []

    def launch(driver: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        tag = f"{os.getpid()}-{len(runs)}-{time.time_ns()}"
        run = subprocess.Popen(
            [MINIAPPS, "run", *LONG_RUN, "--driver", driver, "-n", "2", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {TAG: tag} | environment,
            preexec_fn=restore_interrupts,
        )
        run.tag = tag
        runs.append(run)
        return run

    yield launch
    for run in runs:
        for pid in processes_of(run):
            os.kill(pid, signal.SIGKILL)
        run.kill()


def wait_for_pes(run: subprocess.Popen[str], seconds: float = 60) -> list[int]:
    """Wait until both PEs have made some steps; returns their processes, PE by PE."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and run.poll() is None:
        for pid in processes_of(run):
            folder = environment_of(pid).get("MINIAPPS_RUN_FOLDER", "")
            slots = ProgressFile(Path(folder) / "progress", 2).slots()
            if all(slot.step > 20 for slot in slots):
                return [slot.pid for slot in slots]
        time.sleep(0.1)
    raise AssertionError(f"two PEs did not start: {run.poll()}")


def environment_of(pid: int) -> dict[str, str]:
    """The environment of a process; empty where it is gone."""
    try:
        words = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def ends(run: subprocess.Popen[str], within: float) -> str:
    """The stderr of a run that must end with status 3 and leave no process."""
    _, errors = run.communicate(timeout=within)
    assert run.returncode == 3, errors
    time.sleep(0.5)
    assert processes_of(run) == []
    return errors


@pytest.mark.parametrize("driver", ["mpi", "charm"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_pe_ends_the_run_and_is_named(launched, driver, victim):
    """Mistake: waiting for ever on a rank that is gone, or blaming the one that mpiexec killed."""
    run = launched(driver)
    pids = wait_for_pes(run)
    os.kill(pids[victim], signal.SIGKILL)
    errors = ends(run, within=10)
    assert f"(process {pids[victim]}) died in step " in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_a_stopped_pe_ends_the_run(launched, driver):
    """Mistake: a rank that hangs without dying holds the others for ever."""
    run = launched(driver)
    pids = wait_for_pes(run)
    os.kill(pids[1], signal.SIGSTOP)
    errors = ends(run, within=10)
    assert f"(process {pids[1]}) was stopped in step " in errors


SABOTAGE = """
import builtins, sys
real = builtins.__import__
def hooked(name, *rest, **named):
    module = real(name, *rest, **named)
    found = sys.modules.get("miniapps.jacobi2d.block")
    if found is not None and hasattr(found, "JacobiBlock") and not hasattr(found, "spoilt"):
        found.spoilt = True
        step = found.JacobiBlock.step
        def wrong(self, count):
            if self.index == (1, 0) and self.time == 5:
                {act}
            return (yield from step(self, count))
        found.JacobiBlock.step = wrong
    return module
builtins.__import__ = hooked
"""


def sabotage(folder: Path, act: str) -> str:
    """A PYTHONPATH that makes block (1, 0) do something at step 5."""
    (folder / "sitecustomize.py").write_text(SABOTAGE.format(act=act))
    return str(folder)


@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_an_endless_loop_in_one_block_is_noticed(launched, driver, tmp_path):
    """Mistake: a watch that looks only for dead processes; this one is busy for ever.

    Under charm it may still hold messages of step 4: what is posted may leave only when the block
    has returned to the runtime. Then the other PE is furthest behind, and in that step.
    """
    path = sabotage(tmp_path, "while True: pass")
    run = launched(driver, "--timeout", "4", PYTHONPATH=path)
    errors = ends(run, within=30)
    assert "no progress for" in errors
    steps = ("4", "5") if driver == "charm" else ("5",)
    assert errors.rpartition("furthest behind, in step ")[2].strip() in steps


@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_an_exception_in_one_block_ends_the_run_with_its_message(launched, driver, tmp_path):
    """Mistake: one rank raises and exits, the others wait for its messages."""
    path = sabotage(tmp_path, "raise ValueError('out of cheese')")
    errors = ends(launched(driver, PYTHONPATH=path), within=30)
    assert "ValueError: out of cheese" in errors


def test_a_failed_run_leaves_no_half_written_file(launched, tmp_path):
    """Mistake: --output that is there, unreadable or not whole, after a crash."""
    path = sabotage(tmp_path, "raise ValueError('out of cheese')")
    output = tmp_path / "run.h5"
    ends(launched("mpi", "--output", str(output), PYTHONPATH=path), within=30)
    assert sorted(p.name for p in tmp_path.iterdir() if "run.h5" in p.name) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_launcher_takes_its_pes_along(launched, number):
    """Mistake: Ctrl-C, a batch system or a closed terminal leaves the ranks computing."""
    run = launched("mpi")
    wait_for_pes(run)
    run.send_signal(number)
    run.communicate(timeout=10)
    assert run.returncode != 0
    time.sleep(0.5)
    assert processes_of(run) == []


def test_a_serial_run_that_fails_says_why(launched, tmp_path):
    """Mistake: a status 3 without a word, where no launcher stands by to say it."""
    path = sabotage(tmp_path, "raise ValueError('out of cheese')")
    output = tmp_path / "run.h5"
    run = launched("serial", "--blocks", "2x1", "-n", "1", "--output", str(output), PYTHONPATH=path)
    assert "ValueError: out of cheese" in ends(run, within=30)
    assert not list(tmp_path.glob("run.h5*"))
