"""Starts a run's launcher (mpiexec, charmrun), monitors its PEs, and leaves no process behind.

Every PE writes the step that it begins to the run's progress file. `Monitor` reads this file and
the state of the processes. The whole run is ended if a process died, was stopped, or made no
progress for too long.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import drivers
from drivers.descriptor import Start
from workbench import environment
from workbench.exit_status import FAILED
from workbench.run import output
from workbench.run.progress_bar import ProgressBar
from workbench.run.progress_file import ERRORS, FINISHING, STARTING, ProgressFile
from workbench.run.spec import RunSpec

FOLDER = "MINIAPPS_RUN_FOLDER"  # environment variable: where a launched run keeps its files
PROGRESS, LOG, RUNS = "progress", "log", "runs.pickle"
POLL_S = 0.02  # between two checks of the run
GRACE_S = 1.0  # after a PE has failed, for the launcher to end the run itself
START_LIMIT_S = 180.0  # until the first round has ended: compilation and large steps take time
FINISH_LIMIT_S = 1800.0  # to validate and write
STEP_LIMIT_S = 10.0  # least time without progress that counts as hanging,
STEP_FACTOR = 20.0  # or this many times the slowest round so far, whichever is longer


def command(spec: RunSpec, runtime: list[str], launcher: str | None) -> list[str]:
    """The command that starts the run under its launcher, which gets ``runtime`` unchanged.

    Raises InputError if the driver is not installed or its launcher is not found.
    """
    driver = drivers.get(spec.driver)
    words = [sys.executable, *_program_itself(), *spec.arguments(), "--no-launch"]
    return driver.command(Start(words, spec.pes, spec.own, runtime, launcher))


def command_for_all(specs: Sequence[RunSpec]) -> list[str]:
    """The command that starts PEs for several runs of one driver, made one after the other.

    The PEs read the runs from the folder of their launch. Raises InputError as `command` does.
    """
    spec = specs[0]
    words = [sys.executable, *_program_itself(), "batch", "--no-launch"]
    return spec.can.command(Start(words, spec.pes, spec.own))


def _program_itself() -> list[str]:
    """The arguments that make Python run this program: the installed script, else the module.

    ``-m`` would import a folder ``workbench`` of the current directory instead, if there is one.
    """
    script = Path(sys.executable).with_name("miniapps")
    return [str(script)] if script.exists() else ["-m", "workbench.cli"]


def pinning(spec: RunSpec, launcher: str | None = None) -> list[str]:
    """The launcher's options that pin each PE to its own core, the same cores under all drivers.

    Empty if there are too few cores, or if another launcher with unknown options is used.
    """
    if spec.pes > environment.cores() or (launcher and spec.can.program):
        return []
    return spec.can.pin(environment.core_numbers()[: spec.pes])


def launch(spec: RunSpec, command: list[str], limit_s: float | None) -> dict[str, Any] | int:
    """Run a command and monitor it; returns the record, or the exit status of a failed run."""
    (result,) = launch_all([spec], command, limit_s)
    if isinstance(result, str):
        print(f"miniapps: run failed: {result}", file=sys.stderr)
        return FAILED
    return result


def launch_all(
    specs: Sequence[RunSpec], command: list[str], limit_s: float | None
) -> list[dict[str, Any] | str]:
    """Run and monitor a command that makes several runs one after the other.

    Returns the records of the completed runs, in order, followed by the reason why the next run
    failed if not all completed.
    """
    spec = specs[0]
    with tempfile.TemporaryDirectory(prefix="miniapps-") as name:
        folder = Path(name)
        progress = ProgressFile(folder / PROGRESS, spec.pes)
        variables = os.environ | {FOLDER: name, **_cores()}
        (folder / RUNS).write_bytes(pickle.dumps(specs))
        with (folder / LOG).open("wb") as log:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda number, _: sys.exit(128 + number))
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=variables,
                start_new_session=True,
            )
            monitor = Monitor(spec, folder, progress, process, limit_s)
            try:
                with _guard(process):
                    trouble = monitor.wait()
            finally:
                monitor.end_all()
        files = [folder / record_name(number) for number in range(len(specs))]
        results: list[dict[str, Any] | str] = [
            json.loads(file.read_text()) for file in takewhile(Path.exists, files)
        ]
        if len(results) < len(specs):
            failed = specs[len(results)]
            results.append(_failed(failed, folder, trouble, process.returncode))
        return results


def record_name(number: int) -> str:
    """The name of a run's record file in the folder of its launch."""
    return f"record-{number}.json"


def _cores() -> dict[str, str]:
    """The number of cores, which a pinned PE cannot find out itself."""
    return {environment.CORES_VARIABLE: str(environment.cores_of_run())}


@contextmanager
def _guard(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the run if this process is killed, even by SIGKILL.

    A guard process reads its standard input, a pipe from this process, which closes when this
    process ends. The guard then sends SIGTERM to the launcher, so that it ends its ranks, and
    SIGKILL to all that remain.
    """
    group = f"-{process.pid}"
    wait = f"read nothing; kill -TERM {group}; sleep 1; kill -KILL {group}"
    shell = ["/bin/sh", "-c", wait]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, start_new_session=True) as guard:
        try:
            yield
        finally:
            guard.kill()


def _failed(spec: RunSpec, folder: Path, trouble: str | None, status: int | None) -> str:
    """The reason why a run has no record: a PE's own message, else what the monitor found."""
    errors = folder / ERRORS
    log = (folder / LOG).read_text(errors="replace").strip()
    if errors.exists():
        trouble = errors.read_text().splitlines()[0]
    if trouble is None:
        printed = [line for line in log.splitlines() if any(map(str.isalnum, line))]
        last = printed[-1] if printed else "it printed nothing"
        trouble = f"the launcher ended with status {status}: {last}"
    if os.environ.get("MINIAPPS_LOG"):
        print(log, file=sys.stderr)
    if spec.output is not None:
        output.aside(spec.output).unlink(missing_ok=True)
    return trouble


class Monitor:
    """Monitors a launched run until it ends or must be killed."""

    def __init__(
        self,
        spec: RunSpec,
        folder: Path,
        progress: ProgressFile,
        process: subprocess.Popen[bytes],
        limit_s: float | None,
    ) -> None:
        self.log, self.errors = folder / LOG, folder / ERRORS
        self.progress, self.process, self.limit_s = progress, process, limit_s
        self.bar = ProgressBar(f"{spec.app}, {spec.driver}", spec.warmup + spec.steps)
        self.slowest = 0.0
        self.last_change = time.time()
        self.lost: dict[int, float] = {}  # PEs whose process is gone, and when that was seen

    def wait(self) -> str | None:
        """Wait for the end of the run; returns the failure that was found, if any."""
        while self.process.poll() is None:
            trouble = self.check()
            if trouble is not None:
                return trouble
            time.sleep(POLL_S)
        if self.process.returncode:
            self.check()
            return self._first_lost()
        return None

    def check(self) -> str | None:
        """Check every PE once; returns a description of the failure, if any."""
        now = time.time()
        slots = self.progress.slots()
        self.bar.update(max(slot.step for slot in slots))
        gone = []
        for pe, slot in enumerate(slots):
            state = process_state(slot.pid) if slot.phase != STARTING else "R"
            if state == "T":
                return f"PE {pe} (process {slot.pid}) was stopped in step {slot.step}"
            if state in "XZ" and slot.phase != FINISHING:
                gone.append(pe)
        self.lost = {pe: self.lost.get(pe, now) for pe in gone}
        if self.lost and now - min(self.lost.values()) > GRACE_S:
            return self._first_lost()
        if self.errors.exists() and now - self.errors.stat().st_mtime > GRACE_S:
            return self.errors.read_text().splitlines()[0]
        return self._hanging(now, slots)

    def _first_lost(self) -> str | None:
        """Name the PE whose process ended first.

        Launchers kill the other PEs at once, so one check may find several ended. The launcher's
        log names the first one.
        """
        if not self.lost:
            return None
        log = self.log.read_text(errors="replace")
        named = [
            pe
            for pe in self.lost
            if f"PID {self.progress.slot(pe).pid} " in log or f"request socket to node {pe} " in log
        ]
        pe = min(named or self.lost, key=lambda pe: (self.lost[pe], pe))
        slot = self.progress.slot(pe)
        return f"PE {pe} (process {slot.pid}) died in step {slot.step}"

    def _hanging(self, now: float, slots: list[Any]) -> str | None:
        """If no PE has made progress for too long, name the PE that is furthest behind."""
        change = max(slot.changed for slot in slots)
        if change > self.last_change:
            if all(slot.phase != STARTING for slot in slots):
                self.slowest = max(self.slowest, change - self.last_change)
            self.last_change = change
        quiet = now - self.last_change
        if quiet <= self._limit(slots):
            return None
        pe = min(range(len(slots)), key=lambda pe: (slots[pe].phase, slots[pe].step))
        where = f"in step {slots[pe].step}" if slots[pe].phase else "before its first step"
        return f"no progress for {quiet:.0f} s; PE {pe} is furthest behind, {where}"

    def _limit(self, slots: list[Any]) -> float:
        """The longest time without progress, s."""
        if any(slot.phase == STARTING for slot in slots):
            return max(START_LIMIT_S, self.limit_s or 0.0)
        if self.limit_s is not None:
            return self.limit_s
        if any(slot.phase == FINISHING for slot in slots):
            return FINISH_LIMIT_S
        if not self.slowest:
            return START_LIMIT_S
        return max(STEP_LIMIT_S, STEP_FACTOR * self.slowest)

    def end_all(self) -> None:
        """Kill the remaining processes of the run on this host."""
        self.bar.close()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for slot in self.progress.slots():
            if slot.pid and process_state(slot.pid) not in "XZ":
                with suppress(ProcessLookupError):
                    os.kill(slot.pid, signal.SIGKILL)
        self.process.wait()


def process_state(pid: int) -> str:
    """The kernel's state letter of a process; X if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"
