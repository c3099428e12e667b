"""Starts a run's launcher (mpiexec, charmrun), monitors its PEs, and leaves no process behind.

Every PE writes the step that it begins to the run's progress file. `monitor.Monitor` reads it, and
the state of the processes. The whole run is ended if a process died, was stopped, or made no
progress for too long.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import shlex
import string
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import EACCES, EAGAIN, EDQUOT, EMFILE, ENFILE, ENOMEM, ENOSPC, EPERM, EROFS
from itertools import takewhile
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from miniapps import drivers
from miniapps.devices import system
from miniapps.drivers.descriptor import Start
from miniapps.drivers.hosts import IN_FOLDER
from miniapps.workbench import environment, errors
from miniapps.workbench.exit_status import FAILED
from miniapps.workbench.run import output, revalidation
from miniapps.workbench.run.hosts import variables, watched
from miniapps.workbench.run.launched import FOLDER as FOLDER
from miniapps.workbench.run.launched import PROGRESS, RUNS, Launched, record_name
from miniapps.workbench.run.launched import write_record as write_record
from miniapps.workbench.run.monitor import LOG, Monitor, printed
from miniapps.workbench.run.processes import end_by_signals, stopped_by_signals
from miniapps.workbench.run.progress_file import ERRORS, ProgressFile, first_error
from miniapps.workbench.run.scratch import scratch_folder
from miniapps.workbench.run.spec import RunSpec

NOTES = "notes"
# What the system says that refuses something: in a launcher's log, the cause of all that follows.
REFUSED = [
    os.strerror(number)
    for number in (EMFILE, ENFILE, ENOSPC, EDQUOT, ENOMEM, EAGAIN, EACCES, EPERM, EROFS)
]
OF_A_RANK = "exited with non-zero status"  # in Open MPI's banner

# This program: the installed script, else the module. ``-m`` would import a folder ``miniapps`` of
# the current directory instead, if there is one.
SCRIPT, MODULE = Path(sys.executable).with_name("miniapps"), ("-m", "miniapps.workbench.cli")
PROGRAM = (sys.executable, *((str(SCRIPT),) if SCRIPT.exists() else MODULE))
# A variable of the environment: the words of a program that stands for PEs, as JSON.
IN_PLACE = "MINIAPPS_IN_PLACE_OF_PE"


def pe_program() -> list[str]:
    """What the command line of a PE begins with: this program, or one that stands for it."""
    return json.loads(os.environ.get(IN_PLACE, "null")) or [*PROGRAM]


@contextmanager
def pes_started_by(program: Sequence[str]) -> Iterator[None]:
    """Have launchers start another program in place of each PE, such as one that has PEs forked."""
    with environment.variables_kept():
        os.environ[IN_PLACE] = json.dumps(program)
        yield


def command(spec: Launched, runtime: list[str], launcher: str | None) -> list[str]:
    """The command that starts the run under its launcher, which gets ``runtime`` unchanged.

    Raises InputError if the driver is not installed or its launcher is not found.
    """
    return _starting(spec, spec.arguments(), runtime, launcher)


def command_for_all(
    specs: Sequence[RunSpec], runtime: Sequence[str] = (), launcher: str | None = None
) -> list[str]:
    """The command that starts PEs for several runs of one driver, made one after the other.

    The PEs read the runs from the folder of their launch. ``runtime`` and ``launcher`` are as of
    `command`. Raises InputError as `command` does.
    """
    return _starting(specs[0], ["batch", "-"], runtime, launcher)


def _starting(
    spec: Launched, arguments: list[str], runtime: Sequence[str], launcher: str | None
) -> list[str]:
    """The command that starts the PEs of a run, each with these arguments."""
    words = [*pe_program(), *arguments, "--no-launch"]
    places = spec.hosts.filled(spec.pes) if spec.hosts else []  # empty: all are on this host
    start = Start(words, spec.pes, spec.own, runtime, launcher, places)
    return drivers.get(spec.driver).command(start)


def pinning(spec: Launched, launcher: str | None = None) -> list[str]:
    """The launcher's options that pin each PE to its own core, the same cores under all drivers.

    Empty if there are too few cores, or if another launcher with unknown options is used. On
    several hosts PEs pin themselves, as the numbers of cores may differ.
    """
    if spec.hosts:
        os.environ[environment.PIN_VARIABLE] = "1"
        return []
    driver = drivers.get(spec.driver)
    if spec.pes > environment.cores() or (launcher and driver.program):
        return []
    return driver.pin(environment.core_numbers()[: spec.pes])


class Ended(NamedTuple):
    """How a launch ended: the trouble that was found, if any, and the launcher's exit status.

    ``step``: the one that the PE furthest ahead has begun; ``began_s``: when all PEs had begun
    their first one, by the monotonic clock; None: they had not.
    """

    trouble: str | None
    status: int
    step: int
    began_s: float | None


def launch(spec: Launched, command: list[str], limit_s: float | None) -> dict[str, Any] | int:
    """Run a command and monitor it; returns the record, or the exit status of a failed run.

    If the run writes checkpoints, a signal stops it after one more.
    """
    (result,), _ = launch_to_end([spec], command, limit_s, stoppable(spec))
    if isinstance(result, str):
        errors.tell(result)
        return FAILED
    return result


def stoppable(spec: Launched) -> bool:
    """Whether the PEs of a run stop if a signal asks for it: those that write checkpoints."""
    return getattr(spec, "checkpoint", None) is not None


def launch_all(
    specs: Sequence[Launched], command: list[str], limit_s: float | None
) -> list[dict[str, Any] | str]:
    """Run and monitor a command that makes several runs one after the other.

    Returns the records of the completed runs, in order, followed by the reason why the next run
    failed if not all completed.
    """
    return launch_to_end(specs, command, limit_s, stoppable=False)[0]


def launch_to_end(
    specs: Sequence[Launched], command: list[str], limit_s: float | None, stoppable: bool
) -> tuple[list[dict[str, Any] | str], Ended]:
    """What `launch_all` returns, and how the launch ended.

    ``stoppable``: whether the PEs stop if a signal asks for it.
    """
    with scratch_folder() as folder:
        (folder / RUNS).write_bytes(pickle.dumps(specs))
        begun = monotonic()
        ended = _monitored(specs, command, limit_s, stoppable, folder)
        _print_notes(folder)
        files = [folder / record_name(number) for number in range(len(specs))]
        launch_s = monotonic() - begun
        results: list[dict[str, Any] | str] = [
            revalidation.seen(json.loads(file.read_text(encoding="utf-8")), launch_s)
            for file in takewhile(Path.exists, files)
        ]
        if len(results) < len(specs):
            results.append(_failed(folder, ended.trouble, ended.status))
        return results, ended


def _monitored(
    specs: Sequence[Launched],
    command: list[str],
    limit_s: float | None,
    stoppable: bool,
    folder: Path,
) -> Ended:
    """Run a command to its end.

    However it ends, no process is left and no temporary file beside an output.
    """
    progress = ProgressFile(folder / PROGRESS, specs[0].pes)
    end_by_signals()
    outputs = [(spec.output, spec.pes) for spec in specs if spec.output is not None]
    parts = [part for one in outputs for part in output.temporary(*one)]
    writers = [getattr(spec, "checkpoint_writer", None) for spec in specs]
    parts += [part for writer in writers if writer is not None for part in writer.parts()]
    stopping = stopped_by_signals(progress.stop, stoppable)
    program = pe_program()
    with (
        watched(specs, folder, program, progress) as (hosts, around),
        guarded(command, folder, around) as started,
        stopping,
    ):
        process, remember = started
        for part in parts:
            remember(part)
        monitor = Monitor(specs[0], program, progress, process, limit_s, remember, hosts)
        try:
            trouble = monitor.wait()
        finally:
            monitor.end_all()
            for part in parts:
                part.unlink(missing_ok=True)
    step = max(slot.step for slot in progress.slots())
    return Ended(trouble, process.returncode, step, monitor.began_s)


def take_part(folder: Path) -> None:
    """Let the launching process print what this process, a PE, has to report; pin it, if asked."""
    if environment.PIN_VARIABLE in os.environ:
        environment.take_core(folder)
    notes = logging.FileHandler(
        folder / NOTES, encoding="utf-8", errors="backslashreplace", delay=True
    )
    logging.getLogger("miniapps").addHandler(notes)


def _print_notes(folder: Path) -> None:
    """Print what PEs had to report, such as a damaged cache, each line once."""
    notes = folder / NOTES
    if notes.exists():
        print(
            *dict.fromkeys(notes.read_text(encoding="utf-8", errors="replace").splitlines()),
            sep="\n",
            file=sys.stderr,
        )


@contextmanager
def guarded(
    command: list[str], folder: Path, around: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[Path], None]]]:
    """Start a launcher that ends if this process is killed, even by SIGKILL, at whatever moment.

    A guard process reads its standard input, a pipe from this process, which closes when this
    process ends. The guard then sends SIGTERM to the launcher, so that it ends its ranks, and
    SIGKILL to all that remain. Then it removes the folder, the files that were given to the
    function that this yields, and shared memory of ranks that were killed while they started.

    What launcher and PEs write to the usual folder for temporary files lies in ``folder``.
    ``around``: variables for the launcher's environment; None: those of a launch on this host.

    The guard is there first, and a shell that becomes the launcher writes its own number to the
    pipe: so no launcher is unknown to its guard.
    """
    # Any byte may be in a path: `read` would end at a newline, and lose spaces at the end.
    path = 'path=$(printf "%b." "$name"); set -- "$@" "${path%.}"'
    known = f"case $what in group) group=$name;; file) {path};; esac"
    wait = f"while read -r what name; do {known}; done"
    kill = '{ kill -TERM "-$group"; sleep 1; kill -KILL "-$group"; } 2>/dev/null'
    # Processes that are dying may still write to the folder, which then is not empty.
    remove = (
        'for n in 1 2 3 4 5; do rm -f -- "$@"; rm -rf -- "$0" && break; sleep 1; done 2>/dev/null'
    )
    end = f'[ -z "$group" ] || {{ {kill}; {_removing_orphans(folder)}; }}; {remove}'
    shell = ["/bin/sh", "-c", f"{wait}; {end}", str(folder)]
    words = [word.replace(IN_FOLDER, f"{folder}/") for word in command]
    become = ["/bin/sh", "-c", 'echo group $$ >&0; exec "$@" </dev/null', "sh", *words]
    process = None
    with subprocess.Popen(shell, stdin=subprocess.PIPE, start_new_session=True) as guard:
        assert guard.stdin is not None
        pipe = guard.stdin.fileno()

        def remember(file: Path) -> None:
            os.write(pipe, f"file {escaped(file)}\n".encode())

        try:
            with (folder / LOG).open("wb") as log:
                process = subprocess.Popen(
                    become,
                    stdin=pipe,
                    stdout=log,
                    stderr=log,
                    env=os.environ
                    | {FOLDER: str(folder), "TMPDIR": str(folder)}
                    | dict(variables() if around is None else around),
                    start_new_session=True,
                )
            yield process, remember
        finally:
            if process is None or process.poll() is not None:
                guard.kill()


def escaped(path: Path) -> str:
    """A path in characters that any shell reads unchanged, for its ``printf %b``."""
    plain = string.ascii_letters + string.digits + "/._-"
    return "".join(chr(b) if chr(b) in plain else f"\\0{b:03o}" for b in os.fsencode(path))


def _removing_orphans(folder: Path) -> str:
    """The command that removes MPI's files of shared memory that are newer than a folder."""
    since = folder.stat().st_ctime
    module = "miniapps.workbench.run.processes"
    program = f"from {module} import remove_orphans; remove_orphans({since!r})"
    return shlex.join([sys.executable, "-P", "-c", program])


def reason_in(log: str) -> str:
    """Why a launcher has ended, as it says itself: what the system refused, a banner, a last line.

    Open MPI frames what it has to say by lines of dashes. The reason is in the first paragraph, or
    in the second if that ends in a colon; advice and the name of the failed function follow. Of a
    rank it knows the status only; what the rank has said is before.
    """
    lines = [line for line in log.splitlines() if any(map(str.isalnum, line))]
    for line in lines:
        if any(text in line for text in REFUSED):
            return line.strip()
    parts = [part.strip() for part in re.split(r"^-{20,}\s*$", log, flags=re.MULTILINE)]
    if len(parts) > 1:
        banner = parts[1] if len(parts) > 2 and parts[1] else parts[0]
        if OF_A_RANK in banner and parts[0]:
            return parts[0].splitlines()[-1].strip()
        first, *others = [" ".join(text.split()) for text in re.split(r"\n\s*\n", banner)]
        return " ".join([first, *others[: first.endswith(":")]])
    return (lines[-1:] or ["it printed nothing"])[0].strip()


def _failed(folder: Path, trouble: str | None, status: int) -> str:
    """The reason why a run has no record: a PE's own message, else what the monitor found."""
    reported = folder / ERRORS
    log = printed(folder / LOG).strip()
    of_pe = first_error(reported)
    trouble = of_pe or trouble
    if not (folder / RUNS).exists():
        removed = f"the run's temporary folder was removed: {folder}"
        trouble = removed if trouble is None else f"{removed}; {trouble}"
    if trouble is None:
        trouble = f"the launcher ended with status {status}: {reason_in(log)}"
    if os.environ.get(errors.LOG):
        print(log, file=sys.stderr)
    return trouble if of_pe else trouble + system.low_limits()
