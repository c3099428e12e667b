"""Watches the PEs of a run on one host, for the launching process on another.

It is started by the remote shell. The launching process writes lines of JSON to its standard input
and reads others from its standard output. The folder of the run on this host is *mirrored*: what
PEs write there reaches the folder of the launching process, which reads it as if all PEs were on
its own host. When the pipe closes, or is silent for too long because a host is cut off, the watcher
ends all processes of the run on this host, and removes what they leave.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from miniapps import drivers
from miniapps.devices.cpu import host_memory
from miniapps.workbench import environment
from miniapps.workbench.errors import explained
from miniapps.workbench.run.host_processes import HostProcesses
from miniapps.workbench.run.launched import FOLDER, PROGRESS, REMOTE, RUNS, own_folder
from miniapps.workbench.run.processes import end_proxies, processes_with, remove_orphans
from miniapps.workbench.run.progress_file import FINISHING, MIRRORED, ProgressFile
from miniapps.workbench.run.versions import software

# What Python runs on a host, and after a watcher that was killed.
START = f"from {__name__} import main; main()"
CLEAN = f"import sys, pathlib, {__name__} as w; w.clean(pathlib.Path(sys.argv[1]))"
CHECK_S = 0.25
ANSWERED_S = 1.0  # for PEs to say what their blocks wait for; less than `Stall` waits for that
CUT_S = 20.0  # without a line from the launching process: one of the two hosts is cut off
END_S = 5.0  # for killed processes to vanish


def facts(driver: str) -> dict[str, Any]:
    """What the launching process must know of this host."""
    try:
        library = drivers.get(driver).library()
    except Exception as error:  # whatever a library raises that cannot be loaded
        first, *_ = str(error).splitlines() or [type(error).__name__]
        library = f"none that can be used ({first})"
    return {
        "name": os.uname().nodename,
        "cores": environment.whole_cores(),
        "memory_bytes": host_memory.memory_bytes(),
        "shared_bytes": host_memory.shared_bytes_free(),
        "software": software(),
        "library": library,
    }


class HostWatcher:
    """Watches the PEs of one host; ``begin``: what the launching process says of the run."""

    def __init__(self, begin: dict[str, Any]) -> None:
        self.base = Path(begin["folder"])
        self.folder = own_folder(self.base) if self.base.exists() else self.base
        self.folder.mkdir()
        (self.folder / RUNS).write_bytes(base64.b64decode(begin["runs"]))
        (self.folder / REMOTE).write_text(begin["remote"], encoding="utf-8")
        self.progress = ProgressFile(self.folder / PROGRESS, begin["all_pes"])
        self.here = HostProcesses(
            self.progress, begin["pes"], begin["program"], self._processes, host=begin["host"]
        )
        self.sent: dict[str, int] = {}  # bytes of each file
        self.seen: dict[int, tuple[int, int]] = {}  # step and phase of each PE, as sent
        self.asked_s: float | None = None  # when PEs were asked what they wait for

    def _processes(self) -> list[int]:
        """The processes of the run: they have its folder in their environment."""
        return processes_with(FOLDER, str(self.base))

    def report(self) -> dict[str, Any]:
        """What has changed on this host since the last report."""
        now = time.monotonic()
        self.here.find_lost(now)
        trouble = self.here.check(now)
        lost = {pe: [now - one.seen_s, *one[1:]] for pe, one in self.here.lost.items()}
        found = {
            "slots": list(self._changed(now)),
            "files": dict(self._written()),
            "lost": lost,
            "memory": self.here.out_of_memory() if lost or trouble else "",
            "trouble": trouble,
        }
        return {name: value for name, value in found.items() if value}

    def _changed(self, now: float) -> Iterator[list[Any]]:
        """The slots that PEs have changed: PE, step, phase, and how long ago, s."""
        for pe, slot in enumerate(self.progress.slots()):
            state = slot.step, slot.phase
            if slot.pid and self.seen.get(pe) != state:
                self.seen[pe] = state
                yield [pe, slot.step, slot.phase, now - slot.changed]

    def _written(self) -> Iterator[tuple[str, str]]:
        """What is new in the files that PEs write for the launching process."""
        for file in self.folder.iterdir():
            if MIRRORED.fullmatch(file.name):
                with suppress(FileNotFoundError):
                    content = file.read_bytes()
                    begin = self.sent.get(file.name)
                    if begin is None or len(content) > begin:
                        self.sent[file.name] = len(content)
                        new = content[begin or 0 :]
                        yield file.name, base64.b64encode(new).decode("ascii")

    def told(self, line: dict[str, Any]) -> None:
        """Do what the launching process asks for."""
        if line.get("stop"):
            self.progress.stop()
        if line.get("ask"):
            self.progress.ask()
            if self.asked_s is None:
                self.asked_s = time.monotonic()
        if self.asked_s is not None and time.monotonic() - self.asked_s > ANSWERED_S:
            self.asked_s = float("inf")
            mine = {pe for pe, slot in enumerate(self.progress.slots()) if slot.pid}
            for pe in mine.intersection(self.progress.silent()):
                self.progress.signal(pe)

    def end(self) -> None:
        """Leave no process of the run on this host, no memory that they share, and no file."""
        self.here.find_shared(self._processes())
        kill_all(self.base)
        begun = [slot for slot in self.progress.slots() if slot.pid]
        ended = all(slot.phase == FINISHING for slot in begun) and len(begun) == self.here.pes
        if not ended or self.here.may_leave_shared():
            self.here.remove_shared()
        shutil.rmtree(self.folder, ignore_errors=True)


def kill_all(base: Path) -> None:
    """Kill the processes of a run on this host; ``base``: its folder, as they know it.

    They may start others meanwhile, so it looks until there is none.
    """
    end_proxies(processes_with(FOLDER, str(base)))
    end = time.monotonic() + END_S
    while (running := processes_with(FOLDER, str(base))) and time.monotonic() < end:
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def clean(base: Path) -> None:
    """Do what a watcher does at its end that has been killed."""
    kill_all(base)
    for folder in (own_folder(base), base):
        if folder.exists():
            remove_orphans((folder / RUNS).stat().st_ctime)
            shutil.rmtree(folder, ignore_errors=True)
            return


class Lines:
    """The lines of JSON that the launching process writes."""

    def __init__(self) -> None:
        self.rest = b""
        self.open = True

    def wait(self, seconds: float) -> list[dict[str, Any]]:
        """Those that have come, after a wait of at most so long; ``open``: whether more may."""
        if not select.select([0], [], [], seconds)[0]:
            return []
        new = os.read(0, 1 << 20)
        self.open = bool(new)
        *whole, self.rest = (self.rest + new).split(b"\n")
        return [json.loads(line) for line in whole]


def say(line: dict[str, Any]) -> None:
    """Write a line to the launching process. Raises BrokenPipeError if it has left."""
    text = (json.dumps(line) + "\n").encode()
    while text:
        text = text[os.write(1, text) :]


def main() -> None:
    """Be the watcher of this host until the run ends."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    lines = Lines()
    watcher: HostWatcher | None = None
    heard = time.monotonic()
    try:
        say({"host": facts(sys.argv[1])})
        while lines.open and time.monotonic() - heard < CUT_S:
            for line in lines.wait(CHECK_S):
                heard = time.monotonic()
                if "begin" in line:
                    unshared = [path for path in line["begin"]["shared"] if not Path(path).exists()]
                    watcher = HostWatcher(line["begin"])
                    say({"unshared": unshared})
                if watcher is not None:
                    watcher.told(line)
                if "synchronize" in line and watcher is not None:
                    say(watcher.report() | {"synchronized": line["synchronize"]})
                if "end" in line:
                    return
            if watcher is not None:
                say(watcher.report())
    except Exception as error:
        with suppress(OSError):
            say({"trouble": f"the watcher failed: {explained(error)}"})
    finally:
        if watcher is not None:
            watcher.end()
        with suppress(OSError):
            say({"ended": True})
