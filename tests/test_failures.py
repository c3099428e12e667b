"""Runs that die, hang or raise: one line that names the culprit, status 3, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import support

from workbench.run.processes import name_of, shared_files, words_of

LONG_RUN = ["jacobi2d", "--size", "400x400", "--time-tile", "1", "--steps", "10000000"]


def restore_interrupts() -> None:
    """Let Ctrl-C work again: a shell makes what it runs in the background ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def launched():
    """Start a run, wait until its two PEs are stepping, and clean up whatever is left of it."""
    runs = []

    def launch(driver: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        mark = f"{os.getpid()}-{len(runs)}-{time.time_ns()}"
        run = subprocess.Popen(
            [support.BIN / "miniapps", "run", *LONG_RUN, "--driver", driver, "-n", "2", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {support.MARK: mark} | environment,
            preexec_fn=restore_interrupts,
        )
        run.mark = mark
        runs.append(run)
        return run

    yield launch
    for run in runs:
        for pid in support.marked(run.mark):
            os.kill(pid, signal.SIGKILL)
        run.wait()


def wait_for_pes(run: subprocess.Popen[str]) -> list[int]:
    """Wait until both PEs have made some steps; returns their processes, PE by PE."""
    found = support.wait_for(lambda: run.poll() is not None or support.stepping(run.mark, 2))
    assert run.returncode is None, "the run has ended before its two PEs made a step"
    return found


def ends(run: subprocess.Popen[str], within: float, status: int | None = 3) -> str:
    """The stderr of a run that must end with a status, or any but 0, and leave no process."""
    _, errors = run.communicate(timeout=within)
    assert run.returncode == status or (status is None and run.returncode), errors
    support.wait_for(lambda: not support.marked(run.mark), 0.5)
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


def segments() -> set[Path]:
    """The files of memory that MPICH's ranks share."""
    return set(Path("/dev/shm").glob("mpich_shm_*"))


def mapped(run: subprocess.Popen[str]) -> set[Path]:
    """Those of a run."""
    return set().union(*map(shared_files, support.marked(run.mark)))


def process_of(run: subprocess.Popen[str], wanted: Callable[[int], bool]) -> int:
    """A process of a run that satisfies a condition, as soon as there is one."""
    return support.wait_for(lambda: [p for p in support.marked(run.mark) if wanted(p)])[0]


@pytest.mark.parametrize(("driver", "launcher"), [("mpi", "mpiexec"), ("charm", "charmrun")])
def test_a_stopped_launcher_ends_the_run(launched, driver, launcher):
    """Mistake: a monitor of PEs only; the launcher that waits for them is stopped, and nobody ends.

    The run leaves no shared memory.
    """
    run = launched(driver)
    wait_for_pes(run)
    left = mapped(run)
    assert len(left) == (driver == "mpi")
    pid = process_of(run, lambda pid: name_of(pid) == launcher)
    os.kill(pid, signal.SIGSTOP)
    errors = ends(run, within=10)
    assert errors == f"miniapps: run failed: {launcher} (process {pid}) was stopped\n"
    assert not left & segments()


@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_a_pe_killed_while_it_starts_ends_the_run(launched, driver):
    """Mistake: charmrun waits a minute for a PE that was killed before it had said a word."""
    run = launched(driver)
    words = [sys.executable, str(support.BIN / "miniapps")]
    pid = process_of(run, lambda pid: words_of(pid)[:2] == words and "--no-launch" in words_of(pid))
    os.kill(pid, signal.SIGKILL)
    assert len(ends(run, within=10).splitlines()) == 1


def test_a_killed_launching_process_leaves_no_shared_memory(launched):
    """Mistake: 2 MB of memory in /dev/shm for each run that was killed, until the machine stops."""
    run = launched("mpi")
    wait_for_pes(run)
    (left,) = mapped(run)
    support.wait_for(lambda: time.sleep(0.5) or True)  # for the monitor's next look
    run.kill()
    support.wait_for(lambda: not support.marked(run.mark) and not left.exists(), 5)


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
    run = launched(driver, "--stall", "2", PYTHONPATH=path)
    first, *others = ends(run, within=30).splitlines()
    assert "no progress for" in first
    steps = ("4", "5") if driver == "charm" else ("5",)
    assert first.rpartition("furthest behind, in step ")[2].strip() in steps
    busy = {"mpi": "step 5: block (1, 0) computes", "charm": "PE 1 does not answer; it is in"}
    assert others[0].startswith(f"  {busy[driver]}")
    assert "block (0, 0) waits for phase 'halo' on edge (1, 0) from (1, 0)" in others[-1]


@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_blocks_that_wait_for_ever_are_named(launched, driver, tmp_path):
    """Mistake: "no progress", and the user is left to find the message that is missing."""
    collect = "from miniapps.contract import Collect; yield Collect('never', ((-1, 0),))"
    run = launched(driver, "--stall", "2", PYTHONPATH=sabotage(tmp_path, collect))
    errors = ends(run, within=30)
    waits = "step 5: block (1, 0) waits for phase 'never' on edge (-1, 0) from (0, 0), which is at "
    assert waits in errors


@pytest.mark.parametrize(
    ("act", "found"),
    [
        ("while True: pass", "step 5: block (1, 0) computes"),
        ("import ctypes; ctypes.PyDLL(None).sleep(60)", "PE 0 does not answer; it is in"),
    ],
)
def test_a_serial_run_without_progress_ends(launched, tmp_path, act, found):
    """Mistake: no limit where nothing is launched; or a thread that waits for a kernel's end."""
    path = sabotage(tmp_path, act)
    output = ("--output", str(tmp_path / "run.h5"))
    run = launched("serial", "--blocks", "2x1", "-n", "1", "--stall", "1", *output, PYTHONPATH=path)
    errors = ends(run, within=15)
    assert "no progress for" in errors and found in errors
    assert not list(tmp_path.glob("run.h5*"))


@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_an_exception_in_one_block_ends_the_run_with_its_message(launched, driver, tmp_path):
    """Mistake: one rank raises and exits, the others wait; or nobody says where it was raised.

    Or --output is left, unreadable or not whole.
    """
    path = sabotage(tmp_path, "raise ValueError('out of cheese')")
    run = launched(driver, "--output", str(tmp_path / "run.h5"), PYTHONPATH=path)
    raised = "PE 1, block (1, 0), step 5: ValueError: out of cheese"
    assert ends(run, within=30) == f"miniapps: run failed: {raised}\n"
    assert not list(tmp_path.glob("*run.h5*"))


HELD = """
import builtins, pathlib, os, sys, time
real = builtins.__import__
def hooked(name, *rest, **named):
    module = real(name, *rest, **named)
    found = getattr(sys.modules.get("{module}"), "{owner}", None)
    if found is not None and not hasattr(found, "held"):
        found.held = True
        def hold(self, *arguments):
            pathlib.Path("{folder}", f"held-{{os.getpid()}}").touch()
            time.sleep(60)
        found.{method} = hold
    return module
builtins.__import__ = hooked
"""


def hold(folder: Path, module: str, owner: str, method: str) -> str:
    """A PYTHONPATH that makes a method of a class sleep for a minute, see `held`."""
    text = HELD.format(module=module, owner=owner, method=method, folder=folder)
    (folder / "sitecustomize.py").write_text(text)
    return str(folder)


def held(folder: Path) -> int:
    """The first process that sleeps in the method."""
    found = support.wait_for(lambda: list(folder.glob("held-*")))
    return int(found[0].name.partition("-")[2])


SHORT_RUN = ("--steps", "10")  # overrides the steps of LONG_RUN


@pytest.mark.parametrize(
    ("driver", "number"),
    [("mpi", signal.SIGKILL), ("charm", signal.SIGKILL), ("charm", signal.SIGSTOP)],
)
def test_a_pe_that_is_lost_while_it_writes_ends_the_run(launched, tmp_path, driver, number):
    """Mistake: a PE that has made its last step is no longer watched; half a file is left."""
    path = hold(tmp_path, "workbench.run.output", "Hdf5Store", "write")
    output = ("--output", str(tmp_path / "run.h5"))
    run = launched(driver, *SHORT_RUN, *output, PYTHONPATH=path)
    os.kill(held(tmp_path), number)
    assert len(ends(run, within=10).splitlines()) == 1
    assert not list(tmp_path.glob("run.h5*"))


def test_a_pe_that_dies_in_a_load_balancing_step_ends_the_run(launched, tmp_path):
    """Mistake: blocks on their way from or to the lost PE are waited for."""
    path = hold(tmp_path, "drivers.charm.chare", "BlockChare", "resumeFromSync")
    balancing = ("--odf", "2", "--balancer", "Rotate", "--lb-period", "5")
    run = launched("charm", *balancing, PYTHONPATH=path)
    os.kill(held(tmp_path), signal.SIGKILL)
    assert " died in step " in ends(run, within=10)


@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_a_slow_pe_is_waited_for(launched, tmp_path, driver):
    """Mistake: a run that is ended because one of its PEs is slow for a moment."""
    path = sabotage(tmp_path, "import time; time.sleep(1.5)")
    run = launched(driver, *SHORT_RUN, "--stall", "4", PYTHONPATH=path)
    assert not ends(run, within=30, status=0)


def test_an_interrupted_serial_run_leaves_no_file(launched, tmp_path):
    """Mistake: a half-written file after Ctrl-C."""
    path = hold(tmp_path, "workbench.run.output", "Hdf5Store", "write")
    output = ("--output", str(tmp_path / "run.h5"))
    run = launched("serial", "-n", "1", *SHORT_RUN, *output, PYTHONPATH=path)
    os.kill(held(tmp_path), signal.SIGINT)
    ends(run, within=10, status=130)
    assert not list(tmp_path.glob("run.h5*"))


@pytest.mark.parametrize(
    ("driver", "number"),
    [
        ("mpi", signal.SIGINT),
        ("mpi", signal.SIGTERM),
        ("mpi", signal.SIGHUP),
        ("charm", signal.SIGINT),
    ],
)
def test_an_interrupted_launcher_takes_its_pes_along(launched, driver, number):
    """Mistake: Ctrl-C, a batch system or a closed terminal leaves the ranks computing."""
    run = launched(driver)
    wait_for_pes(run)
    run.send_signal(number)
    ends(run, within=10, status=None)


def test_a_serial_run_that_fails_says_why(launched, tmp_path):
    """Mistake: a status 3 without a word, where no launcher stands by to say it."""
    path = sabotage(tmp_path, "raise ValueError('out of cheese')")
    output = tmp_path / "run.h5"
    run = launched("serial", "--blocks", "2x1", "-n", "1", "--output", str(output), PYTHONPATH=path)
    raised = "miniapps: block (1, 0), step 5: ValueError: out of cheese"
    assert raised == ends(run, within=30).splitlines()[-1]
    assert not list(tmp_path.glob("run.h5*"))
