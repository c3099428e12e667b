"""Runs that are killed, stopped, slowed down or interrupted: ``python tests/kills.py``.

Every case of the matrix driver x moment x signal x victim is one run. It must end within 15 s, say
why in one line, and leave no process, no shared memory and no temporary file. If all its processes
are killed at once, only the shells that clean up after them remain. A run that is only slowed down
must go on, and have the right result within the same time. The result, a JSON file, has a line per
case. Exit status 1 if a case went wrong. `test_kills.py` makes some of the cases.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import support

from miniapps import drivers
from miniapps.drivers.descriptor import Driver
from miniapps.drivers.file import launch
from miniapps.workbench.run.processes import SHARED, name_of, process_state, shared_files, words_of

RESULT = Path(__file__).with_suffix(".json")
LIMIT_S = 15.0  # from the signal until nothing is left
WAIT_S = 120.0  # for the moment
PROBLEM = ("jacobi2d", "--size", "400x400", "--time-tile", "1", "--warmup", "0", "--stall", "60")
FACES = ("stencil3d", "--size", "128x128x128", *PROBLEM[3:])  # of 128 KiB: in charm's shared memory
LONG, SHORT = 1_000_000, 300  # steps of runs that are ended, and of those that end by themselves
PAUSE_S = 0.002  # a step of a run that ends by itself takes as long
SLOW_S, STOP_S, RUN_S = 2.5, 0.3, 0.2  # it is slowed down for so long, by stops and short runs

HERE, PE, LAUNCHER, LAUNCHING = "process", "PE", "launcher", "launching process"
ALL = "all processes"
START, STEPPING, BALANCING, OUTPUT = "start", "stepping", "balancing", "output"
SIGNALS = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "slow": None,
    "interrupt": signal.SIGINT,
    "terminate": signal.SIGTERM,
}
OF_VICTIM = {
    HERE: tuple(SIGNALS),
    PE: ("kill", "stop", "slow"),
    LAUNCHER: ("kill", "stop", "slow"),
    LAUNCHING: ("kill", "slow", "interrupt", "terminate"),
}
# A moment: the call, of a class's method, in which a process stays for a while.
METHODS = {
    START: ("miniapps.drivers.job", "Job", "compile", 1),
    STEPPING: ("miniapps.drivers.engine", "Runner", "begin", 30),
    OUTPUT: ("miniapps.workbench.run.output", "Hdf5Store", "write", 1),
}
MOVES = {  # of drivers whose blocks migrate
    "charm": ("miniapps.drivers.charm.chare", "BlockChare", "resumeFromSync", 1),
    "sim": ("miniapps.drivers.sim.driver", "SimEngine", "move", 3),
}
OPTIONS = {"charm": ("--odf", "2", "--balancer", "Rotate", "--lb-period", "5")}
HOOK = """
import builtins, os, pathlib, sys, time
real, calls = builtins.__import__, [0]
def hooked(name, *rest, **named):
    module = real(name, *rest, **named)
    found = getattr(sys.modules.get("{module}"), "{owner}", None)
    if found is not None and "{method}" in vars(found) and "held" not in vars(found):
        right, found.held = found.{method}, True
        def held(self, *arguments):
            calls[0] += 1
            if calls[0] == {number}:
                pathlib.Path("{folder}", f"reached-{{os.getpid()}}").touch()
                time.sleep({hold_s})
            time.sleep({pause_s})
            return right(self, *arguments)
        found.{method} = held
    return module
builtins.__import__ = hooked
"""


@dataclass(frozen=True)
class Case:
    """One run: what happens when to which of its processes."""

    driver: str
    moment: str
    signal: str
    victim: str

    def __str__(self) -> str:
        return " ".join(vars(self).values())


def cases() -> list[Case]:
    """The whole matrix."""
    return [case for driver in drivers.usable() for case in _cases(driver)]


def _cases(driver: Driver) -> Iterator[Case]:
    moments = (START, STEPPING, *((BALANCING,) if driver.name in MOVES else ()), OUTPUT)
    victims = (HERE,) if driver.one_process else (PE, LAUNCHER, LAUNCHING)
    for moment, victim in itertools.product(moments, victims):
        for number in OF_VICTIM[victim]:
            yield Case(driver.name, moment, number, victim)
    if not driver.one_process:
        yield Case(driver.name, STEPPING, "kill", ALL)


# One case -----------------------------------------------------------------------------------------


class Run:
    """A started run of a case, in a folder of its own."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder, self.slow = case, folder, case.signal == "slow"
        self.can = drivers.found()[case.driver]
        self.mark = f"{os.getpid()}-{time.time_ns()}"
        for name in ("tmp", "out"):
            (folder / name).mkdir()
        place = MOVES[case.driver] if case.moment == BALANCING else METHODS[case.moment]
        names = dict(zip(("module", "owner", "method", "number"), place, strict=True))
        stays = 1.5 if self.slow else WAIT_S
        times = {"hold_s": 0 if case.moment == STEPPING else stays, "pause_s": PAUSE_S * self.slow}
        (folder / "sitecustomize.py").write_text(HOOK.format(folder=folder, **names, **times))
        more = {"PYTHONPATH": str(folder), "TMPDIR": str(folder / "tmp"), support.MARK: self.mark}
        self.segments: set[Path] = set()  # files of shared memory that its processes have used
        self.out, self.errors = folder / "stdout", folder / "stderr"
        with self.out.open("w") as out, self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [support.BIN / "miniapps", *self.words()],
                stdout=out,
                stderr=errors,
                env=support.clean_environment(more),
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def words(self) -> list[str]:
        """The arguments."""
        short = self.slow or self.case.moment == OUTPUT
        problem = FACES if self.case.victim == ALL else PROBLEM
        words = ["run", *problem, "--driver", self.case.driver, "--steps", SHORT if short else LONG]
        words += ["--pe-grid", "2x1"] if self.can.one_pe else ["-n", "2"]
        words += OPTIONS.get(self.case.driver, ()) if self.case.moment == BALANCING else ()
        return [str(word) for word in (*words, "--json", "-", "--output", self.folder / "out/o.h5")]

    def reached(self) -> int:
        """The process that has come to the moment, once it has; that of a PE, as it starts."""
        if self.case.moment == START and not self.can.one_process:
            return support.wait_for(lambda: [p for p in self.processes() if is_a_pe(p)])[0]
        found = support.wait_for(self.arrived, WAIT_S)
        return int(found[0].name.partition("-")[2])

    def arrived(self) -> list[Path]:
        """What the processes that have come to the moment have left. Raises AssertionError."""
        assert self.process.poll() is None, f"the run has ended: {self.errors.read_text()}"
        return list(self.folder.glob("reached-*"))

    def processes(self) -> list[int]:
        """All processes of the run."""
        return [pid for pid in support.marked(self.mark) if process_state(pid) != "Z"]

    def victims(self, reached: int) -> list[int]:
        """The processes that are to be hit."""
        if self.case.victim == ALL:
            return [pid for pid in self.processes() if name_of(pid) != "sh"]  # the guard
        if self.case.victim == LAUNCHER:
            return [next(pid for pid in self.processes() if self.is_launcher(pid))]
        return [self.process.pid if self.case.victim == LAUNCHING else reached]

    def is_launcher(self, pid: int) -> bool:
        """Whether a process is the run's launcher; that of driver file is a script."""
        if self.case.driver == "file":
            return launch.__file__ in words_of(pid)
        return name_of(pid) == ("charmrun" if self.case.driver == "charm" else self.can.program)

    def left(self) -> dict[str, int]:
        """How many processes, temporary files and segments of shared memory of the run exist."""
        processes = self.processes()
        self.segments |= set().union(*map(shared_files, processes), *map(shared_folders, processes))
        files = [*(self.folder / "tmp").iterdir(), *(self.folder / "out").glob("*.part*")]
        segments = [path for path in self.segments if path.exists()]
        return {"processes": len(processes), "files": len(files), "segments": len(segments)}

    def end(self, limit_s: float) -> dict[str, int]:
        """Wait until the run has ended and nothing is left, or for some time; what is left."""
        end = time.monotonic() + limit_s
        left = self.left()
        while (self.process.poll() is None or any(left.values())) and time.monotonic() < end:
            time.sleep(0.05)
            left = self.left()
        return left


def shared_folders(pid: int) -> set[Path]:
    """The folders in shared memory that a process has opened."""
    found: set[Path] = set()
    with suppress(OSError):  # it has ended
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(entry.readlink())
    return {path for path in found if SHARED in path.parents and path.is_dir()}


def is_a_pe(pid: int) -> bool:
    """Whether a process is a PE: Python, by whatever name, has been given the program's script."""
    words = words_of(pid)
    return words[1:2] == [str(support.BIN / "miniapps")] and "--no-launch" in words


def hit(case: Case, pids: Sequence[int]) -> None:
    """Send the signal: Ctrl-C to the group of processes, as a terminal does."""
    number, pid = SIGNALS[case.signal], pids[0]
    if number == signal.SIGINT:
        os.killpg(pid, number)
    elif number is not None:
        for pid in pids:
            with suppress(ProcessLookupError):  # it has ended with one before it
                os.kill(pid, number)
    else:
        end = time.monotonic() + SLOW_S
        with suppress(ProcessLookupError):  # it has ended
            while time.monotonic() < end:
                for part, seconds in ((signal.SIGSTOP, STOP_S), (signal.SIGCONT, RUN_S)):
                    os.kill(pid, part)
                    time.sleep(seconds)


def made(case: Case, folder: Path, right_hash: Callable[[], str]) -> dict[str, Any]:
    """Make the run of a case; returns its line of the result."""
    run = Run(case, folder)
    try:
        pids = run.victims(run.reached())
        run.left()  # for the segments that it uses
        begun = time.monotonic()
        hit(case, pids)
        left = run.end(WAIT_S)
        seconds = round(time.monotonic() - begun, 1)
    finally:
        for process in support.marked(run.mark):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        run.process.wait()
    status, errors = run.process.returncode, run.errors.read_text()
    said = errors.strip().replace(str(pids[0]), "PID")
    found = {"status": status, "said": said, "seconds": seconds, "left": left}
    ok = ended_well(case, status, errors, pids[0]) and nothing_remains(found)
    if case.signal == "slow":
        ok = ok and json.loads(run.out.read_text())["state_hash"] == right_hash()
    return {**asdict(case), **found, "ok": ok}


def nothing_remains(found: dict[str, Any]) -> bool:
    """Whether a run has ended in time and has left nothing."""
    return bool(found["seconds"] <= LIMIT_S and not any(found["left"].values()))


def ended_well(case: Case, status: int, errors: str, pid: int) -> bool:
    """Whether a run has ended with the right status and lines."""
    expected = {"slow": 0, "interrupt": 130, "terminate": 128 + signal.SIGTERM}.get(case.signal, 3)
    if case.signal == "kill" and case.victim in (HERE, LAUNCHING, ALL):
        expected = -signal.SIGKILL  # the process cannot say anything
    lines = errors.splitlines()
    if expected != 3:
        return status == expected and len(lines) == (expected == 130)
    named = f"process {pid}" in errors or case.victim == LAUNCHER or case.moment == START
    failed = status == 3 and lines[:1] == [errors.strip()] and "run failed: " in errors
    return failed and named


def right_hash() -> str:
    """The state hash of a run that nothing has disturbed."""
    words = ("run", *PROBLEM, "--steps", SHORT, "--json", "-")
    return json.loads(support.miniapps(*words).stdout)["state_hash"]


def main() -> int:
    """Make the cases, and write their lines as they come; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words = 'such as "mpi start kill"; the others keep their lines'
    parser.add_argument("--only", default="", metavar="WORDS", help=words)
    parser.add_argument("--to", type=Path, default=RESULT, help="the result")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="cases; default: 1")
    options = parser.parse_args()
    wanted = [case for case in cases() if {*options.only.split()} <= {*str(case).split()}]
    found = read(options.to) if options.only and options.to.exists() else {}
    expected = right_hash()
    with ThreadPoolExecutor(options.at_once) as pool:
        for case, row in zip(wanted, pool.map(partial(alone, expected), wanted), strict=True):
            print(json.dumps(row), flush=True)
            found[case] = row
            lines = ",\n".join(json.dumps(found[one]) for one in cases() if one in found)
            options.to.write_text(f'{{"limit_s": {LIMIT_S}, "cases": [\n{lines}\n]}}\n')
    return int(not all(found[case]["ok"] for case in wanted))


def alone(expected: str, case: Case) -> dict[str, Any]:
    """The line of a case, made in a folder that is removed; also if its moment is not reached."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return made(case, Path(folder), lambda: expected)
        except AssertionError as error:
            return {**asdict(case), "said": f"moment not reached: {error}", "ok": False}


def read(path: Path) -> dict[Case, dict[str, Any]]:
    """The lines of a result, by case."""
    rows = json.loads(path.read_text())["cases"]
    return {Case(*(row[field.name] for field in fields(Case))): row for row in rows}


if __name__ == "__main__":
    raise SystemExit(main())
