"""Runs that hang or raise: a line that names the culprit, status 3, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import support

from miniapps import apps
from miniapps.drivers.exits import Interrupted, Terminated, end_at_once, error_of, exits_are_errors

TWO_BLOCKS = ("--pe-grid", "2x1", "-n", "1")  # of one process
LONG_RUN = ["jacobi2d", "--size", "400x400", "--time-tile", "1", "--steps", "10000000"]


@pytest.fixture
def launched():
    """Start a run on two PEs, and clean up whatever is left of it."""
    runs = []

    def launch(driver: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        mark = f"{os.getpid()}-{len(runs)}-{time.time_ns()}"
        run = subprocess.Popen(
            [support.BIN / "miniapps", "run", *LONG_RUN, "--driver", driver, "-n", "2", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {support.MARK: mark} | environment,
        )
        run.mark = mark
        runs.append(run)
        return run

    yield launch
    for run in runs:
        for pid in support.marked(run.mark):
            os.kill(pid, signal.SIGKILL)
        run.wait()


def ends(run: subprocess.Popen[str]) -> str:
    """The stderr of a run that must fail and leave no process."""
    _, errors = run.communicate(timeout=support.PATIENCE_S)
    assert run.returncode == 3, errors
    support.wait_for(lambda: not support.marked(run.mark), support.ENDING_S)
    return errors


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


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_an_endless_loop_in_one_block_is_noticed(launched, driver, tmp_path):
    """Mistake: a watch that looks only for dead processes; this one is busy for ever.

    Or "no progress", and the user is left to find the message that is missing.

    Under charm it may still hold messages of step 4: what is posted may leave only when the block
    has returned to the runtime. Then the other PE is furthest behind, and in that step.
    """
    path = sabotage(tmp_path, "while True: pass")
    run = launched(driver, "--stall", "2", PYTHONPATH=path)
    first, *others = ends(run).splitlines()
    assert "no progress for" in first
    steps = ("4", "5") if driver == "charm" else ("5",)
    assert first.rpartition("furthest behind, in step ")[2].strip() in steps
    busy = {"mpi": "step 5: block (1, 0) computes", "charm": "PE 1 does not answer; it is in"}
    assert others[0].startswith(f"  {busy[driver]}")
    known = ", which is at step 5" if driver == "mpi" else ""  # a PE of charm does not answer
    waits = f"block (0, 0) waits for phase 'halo' on edge (1, 0) from (1, 0){known}"
    assert waits in others[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "found"),
    [
        ("while True: pass", "step 5: block (1, 0) computes"),
        ("import ctypes; ctypes.PyDLL(None).sleep(1000)", "PE 0 does not answer; it is in"),
    ],
)
def test_a_serial_run_without_progress_ends(launched, tmp_path, act, found):
    """Mistake: no limit where nothing is launched; or a thread that waits for a kernel's end."""
    path = sabotage(tmp_path, act)
    output = ("--output", str(tmp_path / "run.h5"))
    run = launched("serial", *TWO_BLOCKS, "--stall", "1", *output, PYTHONPATH=path)
    errors = ends(run)
    assert "no progress for" in errors and found in errors
    assert not list(tmp_path.glob("run.h5*"))


RAISE = "raise ValueError('out of cheese')"
RAISED = (
    "block (1, 0), step 5: ValueError: out of cheese "
    "(sitecustomize.py:12; MINIAPPS_LOG=1 shows the traceback)\n"
)


@pytest.mark.slow
@pytest.mark.launch
def test_a_serial_run_without_progress_does_not_end_a_batch(tmp_path):
    """Mistake: one endless loop costs the results of all other runs of the batch."""
    path = sabotage(tmp_path, "while True: pass")
    run = "run jacobi2d --size 40x40 --time-tile 1 --warmup 0 --pe-grid 2x1 --steps"
    command = [support.BIN / "miniapps", "batch", "-", "--stall", 1]
    done = support.execute(command, env={"PYTHONPATH": path}, given=f"{run} 9\n{run} 3\n")
    endless, right = map(json.loads, done.stdout.splitlines())
    assert endless["failed"].startswith("no progress for 1 s; PE 0 is furthest behind, in step 5\n")
    assert right["valid"] and (done.returncode, done.stderr) == (3, "")


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["serial", "mpi", "charm"])
def test_an_exception_in_one_block_ends_the_run_with_its_message(launched, driver, tmp_path):
    """Mistake: one rank raises and exits, the others wait; or nobody says where it was raised.

    Or --output is left, unreadable or not whole; or status 3 comes without a word.
    """
    output = ("--output", str(tmp_path / "run.h5"))
    pes = TWO_BLOCKS if driver == "serial" else ()
    errors = ends(launched(driver, *pes, *output, PYTHONPATH=sabotage(tmp_path, RAISE)))
    assert errors == f"miniapps: run failed: {'' if pes else 'PE 1, '}{RAISED}"
    assert not list(tmp_path.glob("run.h5*"))


EXITS = {
    "serial": "raise SystemExit(0)",
    "sim": "import os; os._exit(0)",
    "mpi": "raise SystemExit(0)",
    "file": "import os; os._exit(0)",
    "charm": "raise KeyboardInterrupt",
}


@pytest.mark.slow
@pytest.mark.parametrize("driver", EXITS)
def test_a_block_that_ends_its_process_is_an_error(launched, driver, tmp_path):
    """Mistake: the status of sys.exit is that of the run, without a word, or other ranks hang."""
    path = sabotage(tmp_path, EXITS[driver])
    pes = TWO_BLOCKS if driver in ("serial", "sim") else ()
    errors = ends(launched(driver, *pes, PYTHONPATH=path))
    what = "KeyboardInterrupt" if "Key" in EXITS[driver] else "SystemExit: 0"
    where = f"{'' if pes else 'PE 1, '}block (1, 0), step 5: {what} (sitecustomize.py:12; "
    assert errors == f"miniapps: run failed: {where}MINIAPPS_LOG=1 shows the traceback)\n"


@pytest.mark.slow
@pytest.mark.parametrize(("method", "of"), [("state", "PE 0, "), ("__init__", "")])
def test_other_code_of_an_app_that_ends_its_process_is_an_error(launched, method, of, tmp_path):
    """Mistake: only steps are guarded, and charm ends with a status of its own."""
    act = f"found.JacobiBlock.{method} = lambda *_: sys.exit(0)"
    text = SABOTAGE.replace("found.JacobiBlock.step = wrong", act).replace("{act}", "pass")
    (tmp_path / "sitecustomize.py").write_text(text)
    run = launched("charm", "--steps", "5", PYTHONPATH=str(tmp_path))
    assert f"run failed: {of}SystemExit: 0 (sitecustomize.py:" in ends(run)


def test_an_app_that_ends_the_launching_process_is_an_error(monkeypatch):
    """Mistake: a problem that calls sys.exit(0) makes a run that was not made end with status 0."""
    problem = apps.load("jacobi2d").Problem
    monkeypatch.setattr(problem, "cut", lambda *_: sys.exit(0))
    done = support.in_process("run", "jacobi2d")
    assert done.returncode == 3 and done.stderr.startswith("miniapps: SystemExit: 0 (")


def test_who_ends_a_process():
    """Mistake: Ctrl-C in a step is reported as an error of the block.

    Or a process that an app forks, as multiprocessing does, cannot end.
    """
    for by_signal in (Interrupted(), Terminated(143)):
        with pytest.raises(type(by_signal)):
            error_of(by_signal)
    with pytest.raises(KeyboardInterrupt):
        error_of(KeyboardInterrupt())  # nothing tells it from Python's own
    with exits_are_errors():
        assert str(error_of(KeyboardInterrupt("mine"))) == "mine"
        with pytest.raises(SystemExit):
            os._exit(5)
        child = os.fork()
        if not child:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
    assert os._exit is end_at_once
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
