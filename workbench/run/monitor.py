"""Monitors a launched run: its progress file, its processes, and the errors that its PEs report."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from miniapps.devices import system
from miniapps.drivers.hosts import one_by_one
from miniapps.workbench.run.host_processes import GRACE_S, HostProcesses, Lost, first_of
from miniapps.workbench.run.hosts import Host, synchronize
from miniapps.workbench.run.launched import Launched
from miniapps.workbench.run.processes import end_proxies, family
from miniapps.workbench.run.progress_bar import ProgressBar
from miniapps.workbench.run.progress_file import (
    ERRORS,
    FINISHING,
    STARTING,
    ProgressFile,
    first_error,
)
from miniapps.workbench.run.stall import Stall

LOG = "log"  # file beside the progress file: what the launcher and the PEs print
# Between two checks of the run: more often while PEs start. Where PEs use all cores, they wait for
# this process: 20 ms between checks cost them 2 %.
CHECK_S, STARTING_CHECK_S = 0.25, 0.02


def printed(log: Path) -> str:
    """What the launcher and the PEs have printed; empty if the file was removed."""
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


class Monitor:
    """Monitors a launched run until it ends or must be killed.

    ``program``: the first words of a PE's command line; ``remember``: called with each file that
    must be removed if this process is killed; ``hosts``: where the PEs are, if not on this host.
    """

    def __init__(
        self,
        spec: Launched,
        program: Sequence[str],
        progress: ProgressFile,
        process: subprocess.Popen[bytes],
        limit_s: float | None,
        remember: Callable[[Path], None],
        hosts: Sequence[Host] = (),
    ) -> None:
        self.log, self.errors = (progress.path.with_name(name) for name in (LOG, ERRORS))
        self.progress, self.process = progress, process
        self.bar = ProgressBar.of_run(spec)
        self.stall = Stall(progress, limit_s, one_by_one([host.place for host in hosts]))
        self.hosts, here = hosts, 0 if hosts else spec.pes
        self.here = HostProcesses(progress, here, program, self._processes, remember)
        self.failed: float | None = None  # when an error that a PE reports was first seen
        self.began_s: float | None = None  # when all PEs were seen to have begun their first step

    def wait(self) -> str | None:
        """Wait for the end of the run; returns the failure that was found, if any."""
        with system.waited_for(self.process.pid) as wait:
            while self.process.poll() is None:
                trouble = self.check()
                if trouble is not None:
                    return trouble
                wait(CHECK_S if self.here.all_known else STARTING_CHECK_S)
        synchronize(self.hosts)
        self.check()  # even after status 0, which a PE that called exit(0) gives mpiexec
        return self._first_lost() or (self.process.returncode and self._lost_of_launcher()) or None

    def check(self) -> str | None:
        """Check every PE once; returns a description of the failure, if any."""
        now = time.monotonic()
        slots = self.progress.slots()
        self.bar.update(max(slot.step for slot in slots))
        self.here.find_lost(now)
        lost = self._lost()
        if lost and now - min(one.seen_s for one in lost.values()) > GRACE_S:
            return self._first_lost()
        if self.failed is None and self.errors.exists():
            self.failed = now
        if self.failed is not None and now - self.failed > GRACE_S:
            return first_error(self.errors) or "a PE failed, and could not write why"
        if self.began_s is None and all(slot.phase != STARTING for slot in slots):
            self.began_s = now
        troubles = (check(now) for check in (self.here.check, *(host.check for host in self.hosts)))
        return next(filter(None, troubles), None) or self.stall.check(now, slots)

    def _processes(self) -> list[int]:
        """The launcher, its descendants, and PEs that it has not started itself."""
        return [*family(self.process.pid), *self.progress.forked()]

    def _lost(self) -> dict[int, Lost]:
        """The PEs whose processes are gone, on all hosts."""
        found = dict(self.here.lost)
        for host in self.hosts:
            found |= host.lost
        return found

    def _first_lost(self) -> str | None:
        """Name the PE whose process ended first, if any has."""
        lost, log = self._lost(), printed(self.log)
        node = re.search(r"request socket to node (\d+) '(.+)'", log) if self.hosts else None
        if node is not None and int(node[1]) not in lost:  # the others were ended by charmrun
            step = self.progress.slot(int(node[1])).step
            return f"PE {node[1]} (on {node[2]}) died in step {step}"
        if not lost:
            return None
        memory = [self.here.out_of_memory(), *(host.memory for host in self.hosts)]
        return first_of(lost, log).words + next(filter(None, memory), "")

    def _lost_of_launcher(self) -> str | None:
        """Name the PE that the launcher has seen die before its first or after its last step."""
        died = re.search(r"\bPID (\d+) (?:(?:RUNNING AT|on node) (\w+))?", printed(self.log))
        if died is None:
            return None
        if self.hosts:
            last = all(slot.phase == FINISHING for slot in self.progress.slots())
            when = "after its last step" if last else "before its first step"
            return f"a PE (process {died[1]} on {died[2]}) died {when}"
        return self.here.happened(int(died[1]), "died") + self.here.out_of_memory()

    def end_all(self) -> None:
        """Kill the remaining processes of the run on this host, and remove what they share."""
        self.bar.close()
        if self.process.poll() is None:
            self.here.find_shared(self._processes())
            end_proxies(self._processes())
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.here.kill()
        ended = all(slot.phase == FINISHING for slot in self.progress.slots())
        # Status 0 does not say that MPI has ended: exit(0) and MPI_Abort(0) of a PE give it, too.
        if self.process.wait() or not ended or self.here.may_leave_shared():
            self.here.remove_shared()
