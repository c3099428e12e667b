"""Runs that are killed, stopped, slowed down or interrupted: some of the cases of `kills.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kills
import pytest
import support
from kills import Case

from miniapps.drivers.charm import CharmOptions

# One for each way to notice a loss: by its process's state, its parent, or a broken pipe.
CASES = """
mpi start kill PE
mpi stepping kill PE
mpi stepping stop PE
mpi stepping slow PE
mpi stepping stop launcher
mpi stepping kill launching process
mpi stepping interrupt launching process
mpi stepping terminate launching process
mpi stepping kill all processes
mpi output kill PE
file stepping kill launcher
file stepping kill launching process
charm start kill PE
charm stepping kill PE
charm stepping kill all processes
charm balancing kill PE
charm balancing slow PE
charm output stop PE
serial start stop process
serial output interrupt process
serial output kill process
"""


@pytest.fixture(scope="module")
def right_hash() -> str:
    """The state of a run that nothing has disturbed."""
    return kills.right_hash()


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("words", CASES.strip().splitlines())
def test_a_run_that_is_hit_ends_in_time(words: str, tmp_path: Path, right_hash: str) -> None:
    """Catches a run that hangs, blames another PE, leaves something, or ends for a short stop."""
    found = kills.made(Case(*words.split(maxsplit=3)), tmp_path, lambda: right_hash)
    assert found["ok"], found


@pytest.mark.launch
def test_faces_in_shared_memory_have_no_name_that_could_be_left(tmp_path: Path) -> None:
    """Catches messages in files that stay in /dev/shm if the run is killed with its guard."""
    run = kills.Run(Case("charm", "stepping", "kill", kills.ALL), tmp_path)
    try:
        run.reached()
        pids = run.processes()
        pools = [file for pid in filter(kills.is_a_pe, pids) for file in pools_of(pid)]
        assert len({file.st_ino for file in pools}) == 2
        assert min(file.st_blocks for file in pools) * 512 > CharmOptions.shared_from
        run.left()  # for the files that it uses
        kills.hit(run.case, pids)
        support.wait_for(lambda: not run.processes())
        assert run.left()["segments"] == 0 and run.segments == set()
    finally:
        for pid in run.processes():
            os.kill(pid, signal.SIGKILL)
        run.process.wait()


def pools_of(pid: int) -> list[os.stat_result]:
    """The memory of messages that a PE has opened, its own and others'."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    return [file.stat() for file in files if "memfd:miniapps-" in os.readlink(file)]


ENDS_AT_ITS_LAUNCH = """
import os, signal, subprocess, sys
from pathlib import Path
from miniapps.workbench.run import launch

class Popen(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__(command, **options)
        if "sleep" in command:
            os.kill(os.getpid(), signal.SIGKILL)

subprocess.Popen = Popen
with launch.guarded(["sleep", "1000"], Path(sys.argv[1])):
    sys.exit("still there")
"""


def test_a_process_killed_as_it_launches_leaves_no_launcher(tmp_path: Path) -> None:
    """Catches a launcher that runs before anything ends it together with its parent."""
    mark = str(time.time_ns())
    command = [sys.executable, "-c", ENDS_AT_ITS_LAUNCH, tmp_path]
    ended = subprocess.run(command, env=support.clean_environment({support.MARK: mark}))
    assert ended.returncode == -signal.SIGKILL
    support.wait_for(lambda: not support.marked(mark))


def test_the_whole_matrix_has_been_made() -> None:
    """Catches cases that are new, left out or wrong in the committed result."""
    made = kills.read(kills.RESULT)
    assert {*made} == {*kills.cases()}
    assert [str(case) for case, row in made.items() if not row["ok"]] == []
    assert {*CASES.strip().splitlines()} <= {*map(str, kills.cases())}


def test_a_run_that_ends_otherwise_is_not_ok() -> None:
    """Catches a validation that passes whatever was found."""
    found = [
        (Case("mpi", "stepping", "kill", "PE"), 3, "miniapps: run failed: it is gone\n"),
        (Case("mpi", "stepping", "kill", "PE"), 1, "miniapps: run failed: process 7 died\n"),
        (Case("mpi", "stepping", "kill", "PE"), 3, "Traceback\nrun failed: process 7 died\n"),
        (Case("serial", "start", "interrupt", "process"), 130, ""),
        (Case("serial", "start", "slow", "process"), 3, ""),
    ]
    assert not any(kills.ended_well(*one, pid=7) for one in found)
    assert kills.ended_well(found[0][0], 3, "miniapps: run failed: process 7 died\n", 7)


def test_a_run_that_takes_longer_or_leaves_something_is_not_ok() -> None:
    """Catches a result that is good however long a run, also one slowed down, has taken."""
    found = {"seconds": kills.LIMIT_S, "left": {"processes": 0, "files": 0, "segments": 0}}
    assert kills.nothing_remains(found)
    assert not kills.nothing_remains(found | {"seconds": kills.LIMIT_S + 0.1})
    assert not kills.nothing_remains(found | {"left": {"processes": 0, "files": 1}})
    every = kills.read(kills.RESULT).values()
    assert all(map(kills.nothing_remains, every))
