"""Monitors a launched run: its progress file, its processes, and the errors that its PEs report."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from devices import system
from devices.cpu import host_memory
from workbench.plural import counted
from workbench.run.launched import Launched
from workbench.run.processes import (
    Stopped,
    family,
    name_of,
    orphans,
    parent_of,
    process_state,
    shared_files,
    words_of,
)
from workbench.run.progress_bar import ProgressBar
from workbench.run.progress_file import ERRORS, FINISHING, STARTING, ProgressFile, first_error
from workbench.run.stall import Stall

LOG = "log"  # file beside the progress file: what the launcher and the PEs print
PYTHON = Path(sys.executable).resolve().name  # of the processes of PEs
# Between two checks of the run, and between two looks at all of its processes: more often while PEs
# start. Where PEs use all cores, they wait for this process: 20 ms between checks cost them 2 %.
CHECK_S, LOOK_S = 0.25, 1.0
STARTING_CHECK_S, STARTING_LOOK_S = 0.02, 0.25
GRACE_S = 1.0  # after a PE has failed, for the launcher to end the run itself


def printed(log: Path) -> str:
    """What the launcher and the PEs have printed; empty if the file was removed."""
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


class Monitor:
    """Monitors a launched run until it ends or must be killed.

    ``program``: the first words of a PE's command line; ``remember``: called with each file that
    must be removed if this process is killed.
    """

    def __init__(
        self,
        spec: Launched,
        program: Sequence[str],
        progress: ProgressFile,
        process: subprocess.Popen[bytes],
        limit_s: float | None,
        remember: Callable[[Path], None],
    ) -> None:
        self.log, self.errors = (progress.path.with_name(name) for name in (LOG, ERRORS))
        self.progress, self.process = progress, process
        self.program, self.remember = list(program), remember
        self.bar = ProgressBar(f"{spec.app}, {spec.driver}", spec.warmup + spec.steps)
        self.stall = Stall(progress, limit_s)
        self.killed = host_memory.out_of_memory_kills()  # before the run
        self.lost: dict[int, float] = {}  # PEs whose process is gone, and when that was seen
        self.failed: float | None = None  # when an error that a PE reports was first seen
        self.stopped = Stopped()
        self.looked = 0.0  # when all processes of the run were last looked at
        self.born: dict[int, float] = {}  # processes of PEs, and when each was last seen
        self.shared: set[Path] = set()  # files of the PEs' shared memory
        self.began_s: float | None = None  # when all PEs were seen to have begun their first step
        self.settled = False  # all of these are known, since all PEs have begun to step

    def wait(self) -> str | None:
        """Wait for the end of the run; returns the failure that was found, if any."""
        with system.waited_for(self.process.pid) as wait:
            while self.process.poll() is None:
                trouble = self.check()
                if trouble is not None:
                    return trouble
                wait(CHECK_S if self.settled else STARTING_CHECK_S)
        self.check()  # even after status 0, which a PE that called exit(0) gives mpiexec
        return self._first_lost() or (self.process.returncode and self._lost_of_launcher()) or None

    def check(self) -> str | None:
        """Check every PE once; returns a description of the failure, if any."""
        now = time.monotonic()
        slots = self.progress.slots()
        self.bar.update(max(slot.step for slot in slots))
        gone = []
        for pe, slot in enumerate(slots):
            state = process_state(slot.pid) if slot.phase != STARTING else "R"
            if state in "XZ" and slot.phase != FINISHING:
                gone.append(pe)
        self.lost = {pe: self.lost.get(pe, now) for pe in gone}
        if self.lost and now - min(self.lost.values()) > GRACE_S:
            return self._first_lost()
        if self.failed is None and self.errors.exists():
            self.failed = now
        if self.failed is not None and now - self.failed > GRACE_S:
            return first_error(self.errors) or "a PE failed, and could not write why"
        stopped = self.stopped.check(now, [slot.pid for slot in slots if slot.phase != STARTING])
        if stopped:
            return self._of_process(stopped[0], "was stopped")
        starting = any(slot.phase == STARTING for slot in slots)
        if self.began_s is None and not starting:
            self.began_s = now
        due = now - self.looked > (LOOK_S if self.settled else STARTING_LOOK_S)
        if due or not (starting or self.settled):
            self.looked = now
            trouble = self._look(now, starting)
            if trouble is not None:
                return trouble
        return self.stall.check(now, slots)

    def _look(self, now: float, starting: bool) -> str | None:
        """Look at the launcher and its descendants; returns a description of a failure, if any.

        A PE that has not begun to step has no slot, so its process is found by its command line, or
        by its name if it has died and the launcher has not noticed. A process that a PE starts has
        the PE's command line until it executes another program, and may end at any time.
        """
        states = {pid: process_state(pid) for pid in self._processes()}
        self.stopped.check(now, states)
        words = self.program
        alike = [pid for pid in states if words_of(pid)[: len(words)] == words]
        mine = [pid for pid in alike if parent_of(pid) not in (0, *alike)]
        self.born |= dict.fromkeys(mine, now)
        for pid, state in states.items():
            if state == "Z" and name_of(pid) == PYTHON and parent_of(pid) not in alike:
                self.born.setdefault(pid, now)
        if not self.settled:
            self._find_shared([*mine, *self.progress.forked()])
            self.settled = not starting
        died = [pid for pid, seen in self.born.items() if now - seen > GRACE_S]
        if starting and died:
            return f"a PE (process {died[0]}) died before its first step{self._out_of_memory()}"
        return None

    def _processes(self) -> list[int]:
        """The launcher, its descendants, and PEs that it has not started itself."""
        return [*family(self.process.pid), *self.progress.forked()]

    def _of_process(self, pid: int, happened: str) -> str:
        """What happened to a process: a PE that has begun to step, another one, or a lost PE."""
        for pe, slot in enumerate(self.progress.slots()):
            if slot.pid == pid and slot.phase == FINISHING:
                return f"PE {pe} (process {pid}) {happened} after its last step"
            if slot.pid == pid:
                return f"PE {pe} (process {pid}) {happened} in step {slot.step}"
        name = name_of(pid)
        if name:
            return f"{name} (process {pid}) {happened}"
        return f"a PE (process {pid}) {happened} before its first step"

    def _find_shared(self, pids: Sequence[int]) -> None:
        """Find the files of shared memory of these processes, to remove them after a failure."""
        for file in set().union(*map(shared_files, pids)) - self.shared:
            self.shared.add(file)
            self.remember(file)

    def _first_lost(self) -> str | None:
        """Name the PE whose process ended first.

        Launchers kill the other PEs at once, so one check may find several ended. The launcher's
        log names the first one.
        """
        if not self.lost:
            return None
        log = printed(self.log)
        named = [
            pe
            for pe in self.lost
            if f"PID {self.progress.slot(pe).pid} " in log or f"request socket to node {pe} " in log
        ]
        pe = min(named or self.lost, key=lambda pe: (self.lost[pe], pe))
        return self._of_process(self.progress.slot(pe).pid, "died") + self._out_of_memory()

    def _lost_of_launcher(self) -> str | None:
        """Name the PE that the launcher has seen die before its first or after its last step."""
        died = re.search(r"\bPID (\d+) ", printed(self.log))
        if died is None:
            return None
        return self._of_process(int(died[1]), "died") + self._out_of_memory()

    def _out_of_memory(self) -> str:
        """That the kernel has killed processes meanwhile, the likely cause if one has died."""
        killed = host_memory.out_of_memory_kills() - self.killed
        if killed <= 0:
            return ""
        many = counted(killed, "process")
        return f"; meanwhile the kernel has killed {many} of this host, as memory ran out"

    def end_all(self) -> None:
        """Kill the remaining processes of the run on this host, and remove what they share."""
        self.bar.close()
        if self.process.poll() is None:
            self._find_shared(self._processes())
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for slot in self.progress.slots():
            if slot.pid and process_state(slot.pid) not in "XZ":
                with suppress(ProcessLookupError):
                    os.kill(slot.pid, signal.SIGKILL)
        ended = all(slot.phase == FINISHING for slot in self.progress.slots())
        if self.process.wait() or not ended:  # a PE that calls exit(0) gives mpiexec status 0
            for file in self.shared | orphans(self.progress.opened):
                file.unlink(missing_ok=True)
