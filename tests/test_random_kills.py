"""Runs with checkpoints that are killed at any moment, also while they write: nothing is lost.

Each trial is one run of which a process, or all of them, get SIGKILL at a random moment. Then the
run leaves nothing, and its last checkpoint is whole and leads to the right end.
`MINIAPPS_KILLS=100 pytest -s tests/test_random_kills.py` makes 100 trials of each driver.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
import support
from kills import shared_folders
from test_checkpoints import record

from miniapps.workbench.cli import main, spec_of
from miniapps.workbench.run import checkpoint, launch, restarts
from miniapps.workbench.run.checkpoint import read_checkpoint
from miniapps.workbench.run.processes import (
    SEGMENTS,
    SHARED,
    TOPOLOGIES,
    family,
    name_of,
    process_state,
    shared_files,
)
from miniapps.workbench.run.progress_file import FORKED
from miniapps.workbench.run.spec import RunSpec

KILLS = int(os.environ.get("MINIAPPS_KILLS", "5"))  # of each driver
LIMIT_S = support.ENDING_S  # until nothing is left
LASTS_S = 2.5  # a run, about
EVERY, STEPS = 4, 400
WORDS = f"run jacobi2d --size 24x20 --time-tile 1 --warmup 0 --steps {STEPS}".split()
CASES = {
    "serial": "--driver serial --pe-grid 2x1",
    "mpi": "--driver mpi -n 2",
    "charm": "--driver charm -n 2 --odf 2",
    "file": "--driver file -n 2",
}
PE, ALL, LAUNCHER, LAUNCHING = "PE", "all", "launcher", "launching process"
TASKS = "create", "write", "flush", "finish"
# The stop in the middle of writing, before or after a task.
HOOK = """
import os, time
from miniapps.workbench.run.checkpoint import Hdf5Checkpoints
usual, calls = Hdf5Checkpoints.{task}, [0]
def stops(self, *given):
    calls[0] += 1
    if {after}:
        usual(self, *given)
    if calls[0] == {number}:
        open({mark!r}, "a").close()
        time.sleep({seconds})
    if not {after}:
        usual(self, *given)
Hdf5Checkpoints.{task} = stops
"""


class Stopping(RunSpec):
    """A run whose PEs, where they read what to do, learn where to stop."""

    hook: ClassVar[str] = ""

    def __reduce_ex__(self, _: Any) -> Any:
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return eval, ("[exec(hook, {}), spec][1]", {"spec": RunSpec(**own), "hook": self.hook})


class Trial:
    """One run: whom the signal hits, and when, in a folder of its own."""

    def __init__(self, driver: str, number: int, folder: Path) -> None:
        self.random = random = Random(f"{driver} {number}")
        self.driver, self.folder, self.mark = driver, folder, folder / "mark"
        self.file, self.tmp = folder / "out" / "c.h5", folder / "tmp"
        for path in (self.tmp, self.file.parent):
            path.mkdir()
        self.victim = PE if driver == "serial" else random.choice((PE, ALL, LAUNCHER, LAUNCHING))
        self.stops = random.random() < 0.5  # in the middle of writing
        self.delay_s = random.uniform(0.0, 0.2 if self.stops else LASTS_S)
        self.task, self.after = random.choice(TASKS), random.random() < 0.5
        kept = f"--checkpoint {self.file} --checkpoint-every {EVERY}".split()
        behind = ["--checkpoint-async"] * random.randrange(2)
        self.words = [*WORDS, *CASES[driver].split(), *kept, *behind]
        self.hook = HOOK.format(
            task=self.task,
            number=random.randint(1, 40),
            after=self.after,
            mark=str(self.mark),
            seconds=0.3,
        )
        self.used: set[Path] = set()  # shared memory

    def made(self) -> str:
        """Make the run; returns what has happened, in words."""
        child = os.fork()
        if not child:
            self._run()
        try:
            ended = self._until_it_writes(child)
            end = time.monotonic() + self.delay_s
            while not ended and time.monotonic() < end:
                time.sleep(0.002)
                self._look(child)
                ended = ended_in(child)
            victims = [] if ended else self._victims(child)
            for pid in victims:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child, 0)
        when = f"{'after' if self.after else 'before'} {self.task}" if self.stops else "any moment"
        return f"{self.victim}, {when}" if victims else "ended before"

    def _run(self) -> None:
        """Be the launching process."""
        try:
            with (self.folder / "said").open("wb") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            os.setsid()
            os.environ["TMPDIR"] = str(self.tmp)
            tempfile.tempdir = None
            if self.driver == "serial":
                exec(self.hook if self.stops else "", {})
                os._exit(main(self.words))
            plain = spec_of(self.words)
            spec = Stopping(**{field.name: getattr(plain, field.name) for field in fields(RunSpec)})
            Stopping.hook = self.hook if self.stops else ""
            with launch.pes_started_by(support.warm_program()):
                found = restarts.launch_until_done(
                    spec, lambda run: launch.command_for_all([run]), None
                )
            os._exit(0 if isinstance(found, dict) else 3)
        finally:
            os._exit(70)

    def _until_it_writes(self, child: int) -> bool:
        """Wait for the stop, if there is one; returns whether the run has ended before."""
        while self.stops and not self.mark.exists():
            if ended_in(child):
                return True
            time.sleep(0.002)
            self._look(child)
        return False

    def _look(self, child: int) -> None:
        """Get to know the shared memory that the run uses."""
        if self.random.random() < 0.05 or self.stops:
            for pid in (child, *self._pes()):
                self.used |= shared_files(pid) | shared_folders(pid)
            for pid in family(child):
                topology = support.environment_of(pid).get("HWLOC_XMLFILE")  # of MPICH's proxy
                self.used |= {Path(topology)} if topology else set()

    def _pes(self) -> list[int]:
        """The processes of PEs."""
        names = [path.name for path in self.tmp.glob(f"miniapps-*/{FORKED}.*")]
        found = [int(name.rpartition(".")[2]) for name in names]
        return [pid for pid in found if process_state(pid) not in "XZ"]

    def _victims(self, child: int) -> list[int]:
        """The processes that the signal hits, which this process, or the warm one, has started."""
        mine = family(os.getpid())
        return [pid for pid in self._chosen(child) if pid in mine]

    def _chosen(self, child: int) -> list[int]:
        pes, others = self._pes(), [pid for pid in family(child) if name_of(pid) != "sh"]
        if self.victim == PE and pes:
            return [self.random.choice(pes)]
        if self.victim == LAUNCHER and len(others) > 1:
            return [others[1]]
        if self.victim == ALL:
            return [*others, *pes]
        return [child]

    def checked(self, happened: str, expected: dict[int, str]) -> int:
        """Check what there is after the run; returns the step of its checkpoint, 0 without one."""
        support.wait_for(lambda: not self.left(), LIMIT_S, lambda: f"{happened}: {self.left()}")
        if not self.file.exists():
            return 0
        found = read_checkpoint("", self.file)
        found.verify()
        step = found.state.step
        assert found.state.state_hash == expected[step], happened
        if step < STEPS:
            words = "resume", self.file, "--driver", "serial", "--checkpoint-every", STEPS
            assert record(*words)["state_hash"] == expected[STEPS], happened
        return step

    def left(self) -> list[Path]:
        """What the run has left: temporary files, shared memory, parts of files."""
        files = [*self.tmp.iterdir(), *(path for path in self.used if path.exists())]
        return files + [path for path in self.file.parent.iterdir() if path not in self._kept()]

    def _kept(self) -> Sequence[Path]:
        return self.file, checkpoint.kept(self.file, 1)


def ended_in(child: int) -> bool:
    """Whether a process has ended."""
    return process_state(child) in "XZ"


def of_all_runs() -> set[Path]:
    """What runs have in shared memory and for temporary files, all those of this machine."""
    usual = Path(tempfile.gettempdir()) / "miniapps-*"
    patterns = [*(SHARED / name for name in SEGMENTS), SHARED / "miniapps-*", TOPOLOGIES, usual]
    return {path for pattern in patterns for path in pattern.parent.glob(pattern.name)}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The state hash after each step with a checkpoint, and after the last one."""
    file = tmp_path_factory.mktemp("right") / "c.h5"
    kept = "--checkpoint", file, "--checkpoint-every", EVERY, "--checkpoint-keep", 1000
    last = record(*WORDS, *kept)
    read = (read_checkpoint("", path).state for path in file.parent.iterdir())
    return {state.step: state.state_hash for state in read} | {STEPS: last["state_hash"]}


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.timeout(200 + 20 * KILLS)
@pytest.mark.parametrize("driver", CASES)
def test_killed_at_random_moments(driver: str, tmp_path: Path, expected: dict[int, str]) -> None:
    """Catches a checkpoint that is lost, half written or wrong, and files that are left."""
    support.warm_program()
    before, made = of_all_runs(), list[tuple[Trial, str]]()
    for number in range(KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        trial = Trial(driver, number, folder)
        made.append((trial, trial.made()))
    steps = sorted(trial.checked(happened, expected) for trial, happened in made)
    seen = Counter(happened for _, happened in made)
    said = f"{KILLS} kills, steps of the last checkpoints: {steps}, {dict(seen)}"
    print(f"\n{driver}: {said}", file=sys.stderr)
    assert KILLS > seen["ended before"]
    if KILLS > 5:  # else other tests may make runs meanwhile
        assert of_all_runs() <= before
