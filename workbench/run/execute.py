"""``miniapps run``: launch PEs or run as one of the launched processes, and deliver the record.

A process of a launched run finds the run's folder in its environment (`launch.FOLDER`). It writes
its progress and its record to files in this folder, and the launching process shows the record. A
process outside a launched run shows its record itself.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from miniapps import drivers, kernels
from miniapps.devices import system
from miniapps.drivers.crashes import crashes_told
from miniapps.drivers.exits import error_of, exits_are_errors
from miniapps.drivers.job import Job, Watcher
from miniapps.drivers.outcome import Outcome, Report
from miniapps.parameters import require
from miniapps.workbench import environment, standard_output
from miniapps.workbench.errors import explained, tell
from miniapps.workbench.exit_status import FAILED, STOPPED, VALID, WRONG
from miniapps.workbench.inherited import OutputError
from miniapps.workbench.plural import counted
from miniapps.workbench.run import launch, output, record, restarts
from miniapps.workbench.run.disk import told
from miniapps.workbench.run.hashes import StepHashes
from miniapps.workbench.run.launched import launch_folder
from miniapps.workbench.run.memory import require_memory, require_shared_of
from miniapps.workbench.run.processes import end_by_signals, remove_shared_files, stopped_by_signals
from miniapps.workbench.run.progress_bar import ProgressBar, drawn
from miniapps.workbench.run.progress_file import NoProgressFile, ProgressFile, reopened
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.scratch import scratch_folder
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.run.watch import watched
from miniapps.workbench.run.writable import check_writable, require_apart
from miniapps.workbench.show.thumbnails import Thumbnails, sides_of

NOTHING_TO_LAUNCH = "nothing to launch: this process does the run, or its part"
Fail = Callable[[Exception], None]  # gets the error that ends a run


def run(options: Namespace, runtime: list[str]) -> int:
    """Run one app; returns the exit status. Raises InputError before anything is launched."""
    around = drivers.launchers().get(options.driver)
    if options.pes is None and around is not None:
        options.pes = around.size
    json_file = None if options.json in (None, "-") else Path(options.json)
    check_writable("--json", json_file)
    refuse_other_launchers(options, runtime)
    drivers.get(options.driver).require_modules()
    spec = RunSpec.create(options)
    require_apart(spec.files() | {"--json": json_file})
    show = partial(deliver, spec, json_target=options.json)
    mine = around is None and not options.no_launch
    here = mine and options.launcher is None and not runtime
    if here and not (options.force or options.dry_run):
        check_fits(spec)
    restarts.check(spec, mine or launch.FOLDER in os.environ)
    if options.pin:
        _pin(spec, options, launched=around is not None)

    def command(spec: RunSpec) -> list[str]:
        pinning = launch.pinning(spec) if options.pin else []
        return launch.command(spec, [*pinning, *runtime], options.launcher)

    if not mine or (spec.can.one_process and not spec.restart_on_failure):
        if not options.dry_run:
            shown, stoppable = (lambda _, result: show(result)), launch.stoppable(spec)
            return execute_all([spec], shown, options.stall, stoppable=stoppable)
        print(NOTHING_TO_LAUNCH)
        return VALID
    if options.dry_run:
        print(shlex.join(command(spec)))
        return VALID
    result = restarts.launch_until_done(spec, command, options.stall, launch.stoppable(spec))
    if isinstance(result, str):
        tell(result)
        return FAILED
    return show(result)


def check_fits(spec: RunSpec) -> None:
    """Raise InputError if a run on this machine needs more memory or disk than there is."""
    if not spec.hosts:  # each of them is asked how much it shares
        if spec.device == "cpu":
            hint = "; --force runs it all the same"
            require_memory("run", spec.app, spec.problem.least_bytes(), hint)
        require_shared_of("run", spec)
    _check_disk(spec)


def _check_disk(spec: RunSpec) -> None:
    """Compare all snapshots with the free disk: each is written by PEs, then into the one file."""
    store, steps = store_of(spec), spec.steps + spec.warmup
    if store is None:
        return
    taken = [writer for writer in store.writers if writer.every]
    needed = sum(2 * writer.frame_bytes * (1 + steps // writer.every) for writer in taken)
    free = shutil.disk_usage(store.path.parent).free
    allowed = (
        f"needs {needed / 1e9:.1f} GB of disk for {counted(steps, 'step')}, {free / 1e9:.1f} GB "
        "are free; --force writes it all the same"
    )
    require(needed <= free, "--output", spec.output, allowed)


def _pin(spec: RunSpec, options: Namespace, launched: bool) -> None:
    """Pin this process, if it is the only one of the run. Raises InputError if it cannot be."""
    allowed = "only where this process launches the PEs"
    require(not (launched or options.no_launch), "--pin", "given", allowed)
    require_pinnable(spec, options.launcher)
    if spec.can.one_process:
        os.environ[environment.CORES_VARIABLE] = str(environment.cores_of_run())
        os.sched_setaffinity(0, environment.core_numbers()[:1])


def require_pinnable(spec: RunSpec, launcher: str | None) -> None:
    """Raise InputError if a run's PEs cannot be pinned."""
    allowed = "not with --launcher, whose options are not known: give them after --"
    require(launcher is None, "--pin", "given", allowed)
    cores = environment.cores()
    if spec.hosts:  # each has its own, which are counted at the start
        return
    allowed = f"{spec.pes} PEs do not fit on {counted(cores, 'core')}"
    require(spec.pes <= cores, "--pin", "given", allowed)


def refuse_other_launchers(options: Namespace, runtime: list[str]) -> None:
    """Raise InputError if the driver cannot run under a launcher, this process's or a named one."""
    mine, around = drivers.get(options.driver), drivers.launchers()
    for name, launcher in around.items():
        same = [other for other in around if around[other].size == launcher.size]
        ranks = "ranks" if launcher.size is None else f"{launcher.size} ranks"
        use = f"use --driver {' or '.join(same)}"
        allowed = f"cannot run on the {ranks} of this {launcher.name}: {use}"
        require(mine.name in same or launcher.size == 1, "--driver", mine.name, allowed)
        known = name != mine.name or launcher.size is not None or options.pes is not None
        require(known, "-n", "missing", f"inside {launcher.name} give -n N, as to the launcher")
        fits = name != mine.name or launcher.size is None or options.pes in (None, launcher.size)
        allowed = f"this {launcher.name} has {counted(launcher.size or 0, 'rank')}"
        require(fits, "-n", options.pes, f"{allowed}: give the same number to both")
    able = [driver.name for driver in drivers.found().values() if driver.program]
    fits = options.launcher is None or mine.name in able
    require(fits, "--launcher", options.launcher, f"only with --driver {' or '.join(able)}")
    for word in runtime:
        allowed = f"--driver {mine.name} has no runtime to pass it to"
        require(not mine.one_process, "--", word, allowed)
        require(not word.startswith("+p") or not word[2:].isdigit(), "--", word, "use -n instead")


def execute_all(
    specs: Sequence[RunSpec],
    show: Callable[[int, dict[str, Any]], int],
    stall_s: float | None = None,
    fail: Fail | None = None,
    stoppable: bool = False,
) -> int:
    """Make runs of one driver in sequence; this process is the whole of each run or one rank.

    The root calls ``show`` with each run's number and record, or leaves the record in a launch's
    folder. A whole run that makes no progress for ``stall_s`` seconds ends this process. ``fail``,
    if given, gets the error that ends a run, unless that is a crash, which ends this process.
    ``stoppable``: signals stop it.
    Returns the highest exit status; stops after a failed run.
    """
    folder = launch_folder()
    if folder is not None:
        launch.take_part(folder)
    name, loaded = specs[0].driver, False

    def runs() -> Iterator[tuple[Job, Report]]:
        for number, (spec, store) in enumerate(zip(specs, map(store_of, specs), strict=True)):
            yield spec.job(store), partial(report, number, spec, store)

    def report(number: int, spec: RunSpec, store: output.Hdf5Store | None, outcome: Outcome) -> int:
        restore()
        result = _recorded(spec, store, outcome, import_s)
        if folder is None:
            return show(number, result)
        launch.write_record(folder, number, result)
        return VALID if result["valid"] else WRONG

    def failed(watcher: Watcher, error: Exception, fail: Fail | None = fail) -> None:
        restore()
        _clear(specs)
        (fail or (watcher if folder is not None else NoProgressFile()).fail)(error)
        if not specs[0].can.one_process:  # else they may be the user's
            remove_shared_files()

    _clear(specs)
    with (
        exits_are_errors(),
        standard_output.kept() as restore,
        _progress_of(specs, folder, stall_s, stoppable) as watcher,
        crashes_told(partial(failed, watcher, fail=fail and partial(_tell_of, specs[0]))),
    ):
        try:
            drivers.load(name)
            loaded = True
            kernels.import_compiler()
            import_s = system.age_s()
            return drivers.run_all(name, runs(), watcher)
        except BaseException as raised:
            _clear(specs)  # an interrupt is no error: it goes on from the next line
            if isinstance(raised, OutputError) and folder is None and specs[0].can.one_process:
                raise  # the command says so, and no other PE waits for this one
            failed(watcher, error_of(raised))
            if loaded:
                drivers.load(name).fail(FAILED)
            return FAILED


def _recorded(
    spec: RunSpec, store: output.Hdf5Store | None, outcome: Outcome, import_s: float | None
) -> dict[str, Any]:
    """The record of a run; the files that the root writes are complete then."""
    result = record.build(spec, outcome, import_s)
    if spec.timings is not None and result["valid"]:
        np.save(spec.timings, outcome.blocks)
    if store is not None:
        store.close(result, outcome)
    return result


def _tell_of(spec: RunSpec, error: Exception) -> None:
    """Print why a run failed that is one of many."""
    tell(f"{spec.app} under {spec.driver}: {explained(error)}")


def _clear(specs: Sequence[RunSpec]) -> None:
    """Remove the temporary files that failed runs left beside their outputs and checkpoints."""
    for spec in specs:
        for written in (store_of(spec), spec.checkpoint_writer):
            if written is not None:
                written.clear()


def _parts_of(specs: Sequence[RunSpec]) -> list[Path]:
    """These files, whether they exist or not."""
    outputs = (output.temporary(spec.output, 1) for spec in specs if spec.output is not None)
    writers = (spec.checkpoint_writer for spec in specs)
    checkpoints = (writer.parts() for writer in writers if writer is not None)
    return [*chain.from_iterable(outputs), *chain.from_iterable(checkpoints)]


def store_of(spec: RunSpec) -> output.Hdf5Store | None:
    """The store for the run's output file, if any, with the snapshot writers that it needs."""
    if spec.output is None:
        return None
    writers = spec.problem.snapshots()
    if spec.snapshot_every:
        shown, over = spec.problem.shown, spec.problem.overlays()
        sides = sides_of(spec.problem.extent)
        writers = (*writers, Thumbnails(spec.snapshot_every, sides, shown, over))
    if spec.hash_every:
        writers = (*writers, StepHashes(spec.hash_every, tuple(spec.problem.extent)))
    path, quantities = spec.output.resolve(), spec.problem.quantities
    return output.Hdf5Store(path, writers, quantities, _resumed_after(spec))


def _resumed_after(spec: RunSpec) -> tuple[int, int] | None:
    """The round after which a run goes on, if it is resumed: its first step, and its end.

    Of a timed round only the end is known: what is in the output of an earlier part says the rest.
    """
    if spec.resumed is None:
        return None
    rounds = spec.job().rounds(0, spec.warmup) if spec.start <= spec.warmup else ()
    begun = (first for first, count in rounds if first + count == spec.start)
    return next(begun, spec.start - 1), spec.start


@contextmanager
def _progress_of(
    specs: Sequence[RunSpec], folder: Path | None, stall_s: float | None, stoppable: bool
) -> Iterator[Watcher]:
    """The run's progress file: the launching process's, else a new one with a progress bar."""
    spec = specs[0]
    if folder is not None:
        yield reopened(folder / launch.PROGRESS, spec.pes)
    elif not spec.can.one_process:
        watcher = NoProgressFile()
        with stopped_by_signals(watcher.stop, stoppable):
            yield watcher
    else:
        end_by_signals()
        bar = ProgressBar.of_run(spec)
        with scratch_folder(parts=_parts_of(specs), ended_s=0) as scratch:
            progress = ProgressFile(scratch / launch.PROGRESS, 1)
            stopping = stopped_by_signals(progress.stop, stoppable)
            clear = partial(_clear, specs)
            with watched(progress, stall_s, clear), drawn(bar, progress), stopping:
                try:
                    yield progress
                finally:
                    progress.close()


def deliver(spec: RunSpec, result: dict[str, Any], json_target: str | None) -> int:
    """Show a run's record and write it to the requested file; returns the exit status.

    The record is shown also if the file cannot be written, which raises RunError.
    """
    try:
        if json_target not in (None, "-"):
            with told("--json", Path(json_target)):
                write_text(Path(json_target), json.dumps(result) + "\n")
    finally:
        print(json.dumps(result) if json_target == "-" else record.summary(result), flush=True)
    status = record.status_of(result)
    if status == STOPPED:
        end, steps = result["stopped"], spec.warmup + spec.steps
        made = f"stopped by {end['by']} after step {end['step']} of {steps}"
        command = shlex.join(["miniapps", "resume", str(spec.checkpoint)])
        print(f"miniapps: {made}; continue: {command}", file=sys.stderr)
    return status
