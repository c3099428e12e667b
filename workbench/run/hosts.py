"""The hosts of a run, as the launching process sees them: by the reports of their watchers.

What PEs write on a host is mirrored in the launching process's own folder and progress file
(`host_watcher`), so everything else reads them as if all PEs were on this host.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from miniapps import drivers
from miniapps.drivers.hosts import NODES, Place
from miniapps.parameters import InputError, require
from miniapps.workbench import environment
from miniapps.workbench.plural import counted
from miniapps.workbench.run.host_processes import Lost
from miniapps.workbench.run.host_watcher import CLEAN, START
from miniapps.workbench.run.launched import FOLDER, REMOTE, RUNS, Launched
from miniapps.workbench.run.processes import SUSPENDED_S
from miniapps.workbench.run.progress_file import MIRRORED, ProgressFile
from miniapps.workbench.run.versions import software

SHELL_VARIABLE = "MINIAPPS_REMOTE_SHELL"  # such as `ssh -p 2222`
# Variables that commands on other hosts get, besides those that change results or speed. Others
# may be secret, and the words of a command are not.
PASSED, BEGINNINGS = ("PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR"), ("MINIAPPS_", "MPI4PY_")
START_S = 60.0  # for the watcher of a host to answer
HEARTBEAT_S = 0.25
SILENT_S = 10.0  # without a line from the watcher of a host
SYNCHRONIZED_S = 5.0
EXIT_S = 2.0  # for its process to be gone
END_S = 15.0  # for a watcher to end all that it watches


class Host:
    """A host of a run, and its watcher; ``facts``: what it has said of itself."""

    def __init__(self, place: Place, driver: str, remote: str) -> None:
        self.place, (self.name, self.pes) = place, place
        self.facts: dict[str, Any] = {}
        self.lost: dict[int, Lost] = {}
        self.memory = ""  # that it ran out
        self.said: dict[str, Any] = {}  # the last answer to each question
        self.trouble: str | None = None
        self.heard_s = self.checked_s = time.monotonic()
        self.news = threading.Condition()
        self.progress: ProgressFile | None = None
        self.remote = remote
        self.process = subprocess.Popen(
            self._command(START, driver),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _command(self, program: str, argument: str) -> list[str]:
        """The command that runs a Python program on the host."""
        shell = [*shlex.split(os.environ.get(SHELL_VARIABLE, "ssh")), self.name]
        if self.name in ("localhost", os.uname().nodename):
            shell = ["/bin/sh", "-c"]
        words = [sys.executable, "-P", "-c", program, argument]
        return [*shell, f"{self.remote} {shlex.join(words)}"]

    def _read(self) -> None:
        """Read what the watcher writes, until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.news:
                self.heard_s = time.monotonic()
                with suppress(ValueError):
                    said = json.loads(line)
                    if isinstance(said, dict):  # else it is what a shell prints at its start
                        self._take(said)
                self.news.notify_all()
        with self.news:
            self.said.setdefault("ended", False)
            self.news.notify_all()

    def _take(self, line: dict[str, Any]) -> None:
        """Take up a line of the watcher."""
        self.facts = line.get("host", self.facts)
        self.memory = line.get("memory", self.memory)
        self.trouble = self.trouble or line.get("trouble")
        now = time.monotonic()
        for pe, (ago, pid, words) in line.get("lost", {}).items():
            self.lost.setdefault(int(pe), Lost(now - ago, pid, words))
        for name in ("unshared", "synchronized", "ended"):
            if name in line:
                self.said[name] = line[name]
        if self.progress is not None:
            for name, content in line.get("files", {}).items():
                if MIRRORED.fullmatch(name):
                    with self.progress.path.with_name(name).open("ab") as file:
                        file.write(base64.b64decode(content))
            for pe, step, phase, ago in line.get("slots", []):
                self.progress.mirror(pe, step, phase, now - ago)

    def tell(self, line: dict[str, Any]) -> None:
        """Write a line to the watcher, if it is still there."""
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):
            self.process.stdin.write((json.dumps(line) + "\n").encode())
            self.process.stdin.flush()

    def answer(self, name: str, limit_s: float, value: Any = None) -> bool:
        """Wait until the watcher has said something, or ends; returns whether it has."""
        with self.news:
            return self.news.wait_for(
                lambda: self._has_said(name, value) or "ended" in self.said, limit_s
            ) and self._has_said(name, value)

    def _has_said(self, name: str, value: Any) -> bool:
        if name == "host":
            return bool(self.facts)
        return name in self.said and value in (None, self.said[name])

    def check(self, now: float) -> str | None:
        """What is wrong with this host, if anything; a pause of this process is no silence."""
        if now - self.checked_s > SUSPENDED_S:
            self.heard_s = now
        self.checked_s = now
        if self.trouble is not None:
            return self.trouble + self.memory
        if now - self.heard_s > SILENT_S:
            return f"host {self.name} has not answered for {SILENT_S:.0f} s: is it cut off?"
        if "ended" in self.said:
            return f"the watcher of host {self.name} has ended: {self.printed()}"
        return None

    def printed(self) -> str:
        """The last line that its shell has printed."""
        assert self.process.stderr is not None
        self.process.kill()
        lines = self.process.stderr.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")

    def end(self, limit_s: float) -> None:
        """Wait until the watcher has ended, if it does in time."""
        heard = self.facts and time.monotonic() - self.heard_s < SILENT_S
        self.answer("ended", limit_s if heard else 0.0)
        ended = self.said.get("ended", False)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_S if ended else 0.0)
        self.process.kill()
        self.process.wait()
        if heard and not ended and self.progress is not None:
            command = self._command(CLEAN, str(self.progress.path.parent))
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, timeout=END_S, check=False)


@contextmanager
def watched(
    specs: Sequence[Launched], folder: Path, program: Sequence[str], progress: ProgressFile
) -> Iterator[tuple[list[Host], dict[str, str]]]:
    """Have the hosts of a launch watched; none if its PEs are on this host.

    Yields them, and `variables` for the PEs. ``folder``: of the launch. Raises InputError if a host
    cannot take part in the run.
    """
    spec = specs[0]
    if spec.hosts is None:
        yield [], variables()
        return
    places = spec.hosts.filled(spec.pes)
    driver = drivers.get(spec.driver)
    (folder / NODES).write_text(driver.host_file(places), encoding="utf-8")
    remote = beginning({})
    found: list[Host] = []
    ended = threading.Event()
    try:
        found += [Host(place, spec.driver, remote) for place in places]
        _require_answers(found)
        _require_alike(found)
        _require_room(spec, found)
        around = variables(found)
        remote = beginning(around | {FOLDER: str(folder), "TMPDIR": str(folder)})
        (folder / REMOTE).write_text(remote, encoding="utf-8")
        _begin(specs, found, folder, program, progress, remote)
        threading.Thread(target=_heartbeat, args=(found, progress, ended), daemon=True).start()
        yield found, around
    finally:
        ended.set()
        for host in found:
            host.tell({"end": True})
        limit = time.monotonic() + END_S
        for host in found:
            host.end(max(0.0, limit - time.monotonic()))


def variables(found: Sequence[Host] = ()) -> dict[str, str]:
    """What a PE cannot find out itself: cores, if it is pinned, what the user has set, and hosts.

    ``found``: those of the run; none: the PEs are on this host.
    """
    cores = sum(host.facts["cores"] for host in found) if found else environment.cores_of_run()
    known = {
        environment.CORES_VARIABLE: str(cores),
        environment.SET_VARIABLE: json.dumps(environment.set_variables()),
    }
    named = [
        {"name": host.name, "pes": host.pes}
        | {name: host.facts[name] for name in ("cores", "memory_bytes")}
        for host in found
    ]
    return known | ({environment.HOSTS_VARIABLE: json.dumps(named)} if found else {})


def beginning(more: dict[str, str]) -> str:
    """What begins a command on another host: the folder and the variables that it shall have."""
    own = {name: value for name, value in os.environ.items() if name.startswith(BEGINNINGS)}
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    every = own | passed | environment.set_variables() | more
    words = [f"{name}={value}" for name, value in every.items()]
    return f"cd {shlex.quote(os.getcwd())} && exec env {shlex.join(words)}"


def _require_answers(found: Sequence[Host]) -> None:
    """Raise InputError unless all hosts answer."""
    limit = time.monotonic() + START_S
    for host in found:
        if not host.answer("host", limit - time.monotonic()):
            why = host.trouble or host.printed()
            raise InputError("--hosts", host.name, f"cannot be used: {why}")


def _require_alike(found: Sequence[Host]) -> None:
    """Raise InputError unless all hosts have the same software."""
    mine, first = software(), found[0]
    for host in found:
        for name, theirs in host.facts["software"].items():
            _require_equal(name, "this host", mine.get(name), host, theirs)
        _require_equal(
            "MPI library", first.name, first.facts["library"], host, host.facts["library"]
        )


def _require_equal(what: str, first: str, mine: object, host: Host, theirs: object) -> None:
    allowed = f"must have the same {what}: {first} has {mine}, {host.name} has {theirs}"
    require(mine == theirs, "--hosts", host.name, allowed)


def _require_room(spec: Launched, found: Sequence[Host]) -> None:
    """Raise InputError unless each host has the shared memory, and the cores, that PEs need."""
    driver = drivers.get(spec.driver)
    needed = 0 if driver.by_files else driver.shared_bytes
    for host in found:
        free = host.facts["shared_bytes"]
        allowed = (
            f"needs {needed * host.pes / 1e6:.3g} MB of shared memory for "
            f"{counted(host.pes, 'PE')}, has {free / 1e6:.3g} MB free in /dev/shm"
        )
        require(needed * host.pes <= free, "--hosts", host.name, allowed)
        cores = host.facts["cores"]
        fits = host.pes <= cores or environment.PIN_VARIABLE not in os.environ
        allowed = f"{counted(host.pes, 'PE')} do not fit on {counted(cores, 'core')} of {host.name}"
        require(fits, "--pin", "given", allowed)


def _begin(
    specs: Sequence[Launched],
    found: Sequence[Host],
    folder: Path,
    program: Sequence[str],
    progress: ProgressFile,
    remote: str,
) -> None:
    """Tell the watchers of the run. Raises InputError if a folder is not shared by all hosts."""
    folders = sorted({path for spec in specs for path in spec.folders})
    names = [path / f".miniapps-{secrets.token_hex(8)}" for path in folders]
    try:
        for name in names:
            name.touch()
        for host in found:
            host.progress = progress
            host.tell(
                {
                    "begin": {
                        "folder": str(folder),
                        "host": host.name,
                        "pes": host.pes,
                        "all_pes": progress.pes,
                        "program": list(program),
                        "remote": remote,
                        "runs": base64.b64encode((folder / RUNS).read_bytes()).decode("ascii"),
                        "shared": [str(name) for name in names],
                    }
                }
            )
        limit = time.monotonic() + START_S
        for host in found:
            ready = host.answer("unshared", limit - time.monotonic())
            require(ready, "--hosts", host.name, f"cannot be used: {host.trouble}")
            for path in host.said["unshared"]:
                allowed = f"does not see {Path(path).parent}: must be a folder that all hosts share"
                raise InputError("--hosts", host.name, allowed)
    finally:
        for name in names:
            name.unlink(missing_ok=True)


def _heartbeat(found: Sequence[Host], progress: ProgressFile, ended: threading.Event) -> None:
    """Tell the watchers again and again that the run goes on, and what is asked of PEs."""
    while not ended.wait(HEARTBEAT_S):
        line = {"stop": progress.signalled(), "ask": progress.asked()}
        for host in found:
            host.tell(line)


def synchronize(found: Sequence[Host]) -> None:
    """Wait until all that PEs have written on the hosts has come, unless a host is cut off."""
    token = secrets.token_hex(8)
    for host in found:
        host.tell({"synchronize": token})
    limit = time.monotonic() + SYNCHRONIZED_S
    for host in found:
        host.answer("synchronized", limit - time.monotonic(), token)
