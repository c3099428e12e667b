"""``miniapps run``: decide whether to launch or to be one of the launched, and deliver the record.

A process that is part of a launched run finds the folder of that run in its environment
(`launch.FOLDER`): it chalks its progress on the board there and leaves the record there, and the
launching process shows it. Every other process shows its record itself.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import tempfile
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import drivers
import kernels
from drivers.outcome import Outcome
from miniapps.parameters import require
from workbench import environment
from workbench.exit_status import FAILED, VALID, WRONG
from workbench.run import h5md, launch, output, record
from workbench.run.board import Board, NoBoard
from workbench.run.progress import Progress, ProgressThread
from workbench.run.spec import RunSpec, check_writable
from workbench.show.thumbnails import Thumbnails, sides_of


def run(options: Namespace, runtime: list[str]) -> int:
    """Run one app; returns the exit status. Raises InputError before anything is launched."""
    around = drivers.launchers().get(options.driver)
    if options.pes is None and around is not None:
        options.pes = around.size
    if options.timeout is not None:
        require(0 < options.timeout < math.inf, "--timeout", options.timeout, "must be above 0")
    if options.json not in (None, "-"):
        check_writable("--json", Path(options.json))
    refuse_other_launchers(options, runtime)
    spec = RunSpec.create(options)
    show = partial(deliver, json_target=options.json)
    if options.no_launch or drivers.get(spec.driver).one_process or around is not None:
        if not options.dry_run:
            return execute(spec, show)
        print("nothing to launch: this process does the run, or its part")
        return VALID
    command = launch.command(spec, runtime, options.launcher)
    if options.dry_run:
        print(shlex.join(command))
        return VALID
    result = launch.launch(spec, command, options.timeout)
    return show(result) if isinstance(result, dict) else result


def refuse_other_launchers(options: Namespace, runtime: list[str]) -> None:
    """Raise InputError for a driver that cannot run under the launcher around this process."""
    mine = drivers.get(options.driver)
    for name, launcher in drivers.launchers().items():
        ranks = launcher.size or 1
        allowed = f"cannot run on the {ranks} ranks of this {launcher.name}: use --driver {name}"
        require(name == mine.name or ranks == 1, "--driver", mine.name, allowed)
        known = name != mine.name or launcher.size is not None or options.pes is not None
        require(known, "-n", "missing", f"inside {launcher.name} say -n N as in +pN")
    for word in runtime:
        allowed = f"--driver {mine.name} has no runtime to pass it to"
        require(not mine.one_process, "--", word, allowed)
        require(not word.startswith("+p") or not word[2:].isdigit(), "--", word, "use -n instead")


def solve(spec: RunSpec) -> dict[str, Any] | int:
    """Run a checked spec; returns its record, or the exit status of a run that failed."""
    if not drivers.get(spec.driver).one_process:
        return launch.launch(spec, launch.command(spec, [], None), None)
    records: list[dict[str, Any]] = []

    def keep(result: dict[str, Any]) -> int:
        records.append(result)
        return VALID

    status = execute(spec, keep)
    return records[0] if records else status


def execute(spec: RunSpec, show: Callable[[dict[str, Any]], int]) -> int:
    """Be the run, or a rank of it, and have its root show the record; returns the exit status."""
    folder = os.environ.get(launch.FOLDER)
    store = store_of(spec)
    if store is not None:
        store.clear()
    driver = None

    def report(outcome: Outcome) -> int:
        result = record.build(spec, outcome, import_s)
        if store is not None:
            store.close(result, outcome)
        if folder is None:
            return show(result)
        output.write_text(Path(folder) / launch.RECORD, json.dumps(result))
        return VALID if result["valid"] else WRONG

    with _watched(spec, folder) as watcher:
        try:
            driver = drivers.load(spec.driver)
            kernels.import_compiler()
            import_s = environment.age_s()
            return driver.run(spec.job(store), report, watcher)
        except Exception as error:
            (watcher if folder is not None else NoBoard()).fail(error)
            if store is not None:
                store.clear()
            if driver is not None:
                driver.fail(FAILED)
            return FAILED


def store_of(spec: RunSpec) -> output.Hdf5Store | None:
    """Where the run's output goes; with a trajectory, if there are atoms in a box."""
    if spec.output is None:
        return None
    problem, box = spec.problem, getattr(spec.problem, "box", None)
    keepers: list[output.Keeper] = []
    if box is not None:
        where = tuple(box.tolist()), problem.dt, problem.first_step
        keepers.append(h5md.Trajectory(*where, problem.trajectory))
    if spec.frames:
        keepers.append(Thumbnails(spec.frames, sides_of(box, problem.parameters())))
    return output.Hdf5Store(spec.output.resolve(), tuple(keepers))


class _watched:
    """The run's board: the launcher's, else one of this process's own with a progress bar."""

    def __init__(self, spec: RunSpec, folder: str | None) -> None:
        self.spec, self.folder = spec, folder

    def __enter__(self) -> Any:
        if self.folder is not None:
            path = Path(self.folder) / launch.BOARD
            return Board(path, self.spec.pes) if path.exists() else NoBoard()
        if not drivers.get(self.spec.driver).one_process:
            return NoBoard()
        self.scratch = tempfile.TemporaryDirectory(prefix="miniapps-")
        board = Board(Path(self.scratch.name) / launch.BOARD, 1)
        title = f"{self.spec.app}, {self.spec.driver}"
        self.display = ProgressThread(Progress(title, self.spec.warmup + self.spec.steps), board)
        self.display.__enter__()
        return board

    def __exit__(self, *error: object) -> None:
        if hasattr(self, "display"):
            self.display.__exit__(*error)
            self.scratch.cleanup()


def deliver(result: dict[str, Any], json_target: str | None) -> int:
    """Show a record and write it where asked; returns the exit status."""
    if json_target == "-":
        print(json.dumps(result))
    else:
        print(record.summary(result))
    if json_target not in (None, "-"):
        output.write_text(Path(json_target), json.dumps(result) + "\n")
    return VALID if result["valid"] else WRONG
