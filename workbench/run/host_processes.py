"""The processes of a run's PEs on one host: notices those that die or stop, and ends them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from miniapps.devices.cpu import host_memory
from miniapps.workbench.plural import counted
from miniapps.workbench.run.processes import (
    Stopped,
    name_of,
    orphans,
    parent_of,
    process_state,
    remove,
    shared_files,
    words_of,
)
from miniapps.workbench.run.progress_file import FINISHING, STARTING, ProgressFile, Slot

NAMED = 15  # characters of a program's name that Linux keeps for its processes
# Between two looks at all processes: more often while PEs start.
LOOK_S, STARTING_LOOK_S = 1.0, 0.25
GRACE_S = 1.0  # after a PE has failed, for the launcher to end the run itself


class Lost(NamedTuple):
    """A PE whose process is gone: when that was seen, and what happened, in words."""

    seen_s: float
    pid: int
    words: str


class HostProcesses:
    """Watches the processes of a launched run on this host.

    ``pes``: how many of the run's PEs are on this host; ``program``: the first words of their
    command lines; ``processes``: finds the processes of the run; ``remember``: called with each
    file that another process must remove if this one is killed; ``host``: the name of this host,
    where PEs are on several.
    """

    def __init__(
        self,
        progress: ProgressFile,
        pes: int,
        program: Sequence[str],
        processes: Callable[[], list[int]],
        remember: Callable[[Path], None] = lambda file: None,
        host: str = "",
    ) -> None:
        self.progress, self.pes, self.program = progress, pes, list(program)
        self.processes, self.remember = processes, remember
        self.where = f" on {host}" if host else ""
        self.killed = host_memory.out_of_memory_kills()  # before the run
        self.lost: dict[int, Lost] = {}  # by the number of the PE
        self.stopped = Stopped()
        self.looked = 0.0  # when all processes of the run were last looked at
        self.born: dict[int, float] = {}  # processes of PEs, and when each was last seen
        self.shared: set[Path] = set()  # files of the PEs' shared memory
        self.all_known = False  # all of these are known, since all PEs have begun to step

    def find_lost(self, now: float) -> None:
        """Find the PEs whose processes are gone, into ``lost``."""
        self.lost = {
            pe: self.lost.get(pe) or Lost(now, slot.pid, self.happened(slot.pid, "died"))
            for pe, slot in self._begun().items()
            if slot.phase != FINISHING and process_state(slot.pid) in "XZ"
        }

    def check(self, now: float) -> str | None:
        """Look for stopped processes, and for PEs that died at their start; says what it found."""
        begun = self._begun()
        stopped = self.stopped.check(now, [slot.pid for slot in begun.values()])
        if stopped:
            return self.happened(stopped[0], "was stopped")
        starting = len(begun) < self.pes
        due = now - self.looked > (LOOK_S if self.all_known else STARTING_LOOK_S)
        if due or not (starting or self.all_known):
            self.looked = now
            return self._look(now, starting)
        return None

    def _begun(self) -> dict[int, Slot]:
        """The slots of the PEs of this host that have begun to step."""
        slots = enumerate(self.progress.slots())
        return {pe: slot for pe, slot in slots if slot.phase != STARTING and slot.pid}

    def _look(self, now: float, starting: bool) -> str | None:
        """Look at the launcher and its descendants; returns a description of a failure, if any.

        A PE that has not begun to step has no slot, so its process is found by its command line, or
        by the program's name if it has died and the launcher has not noticed. A process that a PE
        starts has the PE's command line until it executes another program, and may end at any time.
        """
        states = {pid: process_state(pid) for pid in self.processes()}
        self.stopped.check(now, states)
        name = Path(self.program[0]).name[:NAMED]
        alike = [pid for pid in states if self._is_of_pe(pid)]
        mine = [pid for pid in alike if parent_of(pid) not in (0, *alike)]
        self.born |= dict.fromkeys(mine, now)
        for pid, state in states.items():
            if state == "Z" and name_of(pid) == name and parent_of(pid) not in alike:
                self.born.setdefault(pid, now)
        if not self.all_known:
            self.find_shared([*mine, *self.progress.forked()])
            self.all_known = not starting
        died = [pid for pid, seen in self.born.items() if now - seen > GRACE_S]
        if starting and died:
            return self._before_first_step(died[0], "died") + self.out_of_memory()
        return None

    def _is_of_pe(self, pid: int) -> bool:
        """Whether a process has the command line of a PE."""
        return words_of(pid)[: len(self.program)] == self.program

    def happened(self, pid: int, what: str) -> str:
        """What happened to a process: a PE that has begun to step, another one, or a lost PE."""
        process = f"(process {pid}{self.where}) {what}"
        for pe, slot in self._begun().items():
            if slot.pid == pid and slot.phase == FINISHING:
                return f"PE {pe} {process} after its last step"
            if slot.pid == pid:
                return f"PE {pe} {process} in step {slot.step}"
        name = name_of(pid)
        return f"{name} {process}" if name else self._before_first_step(pid, what)

    def _before_first_step(self, pid: int, what: str) -> str:
        return f"a PE (process {pid}{self.where}) {what} before its first step"

    def out_of_memory(self) -> str:
        """That the kernel has killed processes meanwhile, the likely cause if one has died."""
        killed = host_memory.out_of_memory_kills() - self.killed
        if killed <= 0:
            return ""
        many = counted(killed, "process")
        host = self.where.removeprefix(" on ") or "this host"
        return f"; meanwhile the kernel has killed {many} of {host}, as memory ran out"

    def find_shared(self, pids: Iterable[int]) -> None:
        """Find the files of shared memory of these processes, to remove them after a failure."""
        for file in set().union(*map(shared_files, pids)) - self.shared:
            self.shared.add(file)
            self.remember(file)

    def may_leave_shared(self) -> bool:
        """Whether memory that PEs share is still there, or is not known."""
        return not self.all_known or any(file.exists() for file in self.shared)

    def kill(self) -> None:
        """Kill the PEs, also those that have lost their launcher before they began to step."""
        born = {pid for pid in self.born if self._is_of_pe(pid)}
        for pid in born | {slot.pid for slot in self._begun().values()}:
            if process_state(pid) not in "XZ":
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def remove_shared(self) -> None:
        """Remove the memory that killed processes share."""
        remove(self.shared | orphans(self.progress.opened))


def first_of(lost: dict[int, Lost], log: str) -> Lost:
    """The PE whose process ended first.

    Launchers kill the other PEs at once, so one check may find several ended. The launcher's log
    names the first one.
    """
    named = {
        pe: one
        for pe, one in lost.items()
        if re.search(rf"\bPID {one.pid} ", log) or f"request socket to node {pe} " in log
    }
    found = named or lost
    return found[min(found, key=lambda pe: (found[pe].seen_s, pe))]
