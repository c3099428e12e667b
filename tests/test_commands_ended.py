"""Commands other than `run`, ended by a signal: at once, with its status, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import kills
import pytest
import support

from miniapps.workbench.run import stub
from miniapps.workbench.run.processes import process_state, words_of

LONG = "--size 400x400 --time-tile 1 --steps 10000000"
COMMANDS = {
    "selftest, launched": "selftest echo --driver mpi",
    "selftest, in processes": "selftest jacobi2d --driver serial --json trials",
    "adversary": "adversary pic --schedules 1000000 --seconds 1000 --json found --jobs 2",
    "study": f"study strong jacobi2d {LONG} --pes 2 --drivers mpi --campaign c.jsonl",
    "comm": "comm latency -n 2 -i 100000000 --json o.json --csv o.csv --figure o.png",
    "comm, anatomy": "comm anatomy -i 100000000 --json o.json --csv o.csv",
    "lesson check": "lesson check ring.py",
    "lesson mark": "lesson mark class --salt x --output marks.csv",
}
KEPT = {"c.jsonl", "marks.csv"}  # which hold what was finished
CASES = """
selftest, launched: INT
selftest, launched: KILL
selftest, in processes: HUP
adversary: TERM
study: HUP
comm: TERM
comm: launcher
comm, anatomy: KILL
lesson check: INT
lesson check: KILL
lesson mark: TERM
"""
WAITS = "import time\ntime.sleep(1000)\n"  # the program of a student
# In every process: else a program that waits is ended after 4 s, which on a busy machine may be
# before the signal. Marking ends it after 120 s, when the test has waited too long.
PATIENT = """
import sys
if "lesson" in " ".join(sys.orig_argv):
    from miniapps.lessons.checking import running
    running.STALL_S = 1000.0
"""
STATUS = {"INT": 130, "TERM": 143, "HUP": 129, "KILL": -9, "launcher": 3}


@dataclass
class Command:
    """A command that has begun to do what takes long."""

    name: str
    folder: Path
    mark: str = field(default_factory=lambda: str(time.time_ns()))

    def __post_init__(self) -> None:
        (self.folder / "tmp").mkdir()
        ring = (support.ROOT / "lessons/ring/for_mpi4py.py").read_text() + WAITS
        (self.folder / "class/anna").mkdir(parents=True)
        for file in ("ring.py", "class/anna/ring.py"):
            (self.folder / file).write_text(ring)
        (self.folder / "patient").mkdir()
        more = support.in_every_process(self.folder / "patient", PATIENT)
        more |= {support.MARK: self.mark, "TMPDIR": str(self.folder / "tmp")}
        self.before = {*self.folder.iterdir()}
        with (self.folder / "errors").open("w") as errors:
            self.process = subprocess.Popen(
                [support.BIN / "miniapps", *COMMANDS[self.name].split()],
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=support.clean_environment(more),
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def processes(self) -> list[int]:
        """Its processes."""
        return [pid for pid in support.marked(self.mark) if process_state(pid) != "Z"]

    def at_work(self) -> bool:
        """Whether those that do the work have begun with it."""
        assert self.process.poll() is None, (self.folder / "errors").read_text()
        others = [words_of(pid) for pid in self.processes() if pid != self.process.pid]
        if self.name == "selftest, launched":
            return any(str(stub.__file__) in words for words in others)
        if self.name == "adversary":
            return len(others) == 2
        if self.name == "selftest, in processes":
            return (
                len([*(self.folder / "tmp").glob("*/*")]) > 1 and (self.folder / "trials").exists()
            )
        ranks = 1 if self.name.startswith("lesson") else 2
        return sum("--no-launch" in words for words in others) > ranks  # and the launcher

    def end(self, how: str) -> None:
        """End it, or its launcher."""
        if how == "INT":
            os.killpg(self.process.pid, signal.SIGINT)
        elif how == "launcher":
            os.kill(next(p for p in self.processes() if kills.name_of(p) == "mpiexec"), 9)
        else:
            self.process.send_signal(getattr(signal, f"SIG{how}"))

    def left(self) -> list[object]:
        """Its processes, temporary files, and new files that do not hold what was finished."""
        files = {*self.folder.iterdir()} - self.before - {self.folder / "errors"}
        files = {file for file in files if file.name not in KEPT | {"trials"}}
        processes = [(pid, process_state(pid), words_of(pid)) for pid in self.processes()]
        return [*processes, *(self.folder / "tmp").iterdir(), *files]


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_a_command_that_is_ended_leaves_nothing(case: str, tmp_path: Path) -> None:
    """Catches another status, several lines, and processes, memory and files that stay."""
    name, _, how = case.partition(": ")
    with support.no_shared_memory_left():
        command = Command(name, tmp_path)
        try:
            support.wait_for(command.at_work, shown=command.left)
            command.end(how)
            status = command.process.wait(support.ENDING_S)
            support.wait_for(lambda: not command.left(), support.ENDING_S, command.left)
        finally:
            for pid in command.processes():
                os.kill(pid, signal.SIGKILL)
    said = (tmp_path / "errors").read_text().splitlines()
    assert status == STATUS[how]
    if name != "lesson mark" and how != "KILL":
        assert len(said) == (how in ("INT", "launcher")), said
