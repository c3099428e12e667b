"""Makes a benchmark as one rank of a launch, and builds its record."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from miniapps import communication
from miniapps.communication.catalogue import ANATOMY
from miniapps.communication.progress import Progress
from miniapps.communication.session import Dissected, Session, World, WrongData
from miniapps.contract import Index
from miniapps.drivers.crashes import crashes_told
from miniapps.drivers.job import RunError, Watcher
from miniapps.drivers.machine import Disturbance, disturbance, reading
from miniapps.drivers.ranks import started_on
from miniapps.drivers.waits import Wait
from miniapps.workbench import environment
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.exit_status import FAILED, VALID, WRONG
from miniapps.workbench.run import launch, record
from miniapps.workbench.run.launched import launch_folder
from miniapps.workbench.run.processes import remove_shared_files
from miniapps.workbench.run.progress_file import NoProgressFile, reopened
from miniapps.workbench.run.schema import SCHEMA
from miniapps.workbench.run.shapes import in_lines
from miniapps.workbench.run.versions import versions

Show = Callable[[dict[str, Any]], int]


def execute(spec: CommSpec, show: Show) -> int:
    """Be one rank; returns the exit status.

    Rank 0 calls ``show`` with the record or, in a launch, writes it to the launch's folder.
    """
    folder = launch_folder()
    if folder is not None:
        launch.take_part(folder)
    runtime = communication.load(spec.driver)

    def session(world: World) -> int:
        watcher = _watcher(folder, spec)  # opened here: Charm4Py forks when it starts
        try:
            with crashes_told(partial(_end, watcher)):  # once more: Charm4Py has handlers, too
                made = _made(spec, world, watcher)
            if made is None:
                return VALID
            if folder is None:
                return show(made)
            launch.write_record(folder, 0, made)
            return VALID if made["valid"] is not False else WRONG
        except Exception as error:
            _end(watcher, error)
            runtime.fail(FAILED)
            return FAILED

    def failed(error: Exception) -> None:
        _end(_watcher(folder, spec), error)

    try:
        with crashes_told(failed):
            return int(runtime.run(spec.settings, spec.own, session))
    except Exception as error:
        failed(error)
        return FAILED


def _watcher(folder: Path | None, spec: CommSpec) -> Watcher:
    """What this process reports to; ``folder``: of the launch, if any."""
    if folder is None:
        return NoProgressFile()
    return reopened(folder / launch.PROGRESS, spec.pes)


def _end(watcher: Watcher, error: Exception) -> None:
    """Report an error, and remove what this process shares."""
    watcher.fail(error)
    remove_shared_files()


def _made(spec: CommSpec, world: World, watcher: Watcher) -> dict[str, Any] | None:
    """Make the benchmark on this rank; returns its record on rank 0, else None."""
    if world.ranks != spec.pes:
        raise RunError(started_on(spec.pes, world.ranks))
    rank = world.rank
    progress = Progress(partial(watcher.heartbeat, rank))

    def waits() -> list[Wait]:
        part = f"{spec.benchmark.name}, {progress.words}"
        return [Wait(("rank", cast(Index, rank)), progress.part, progress.does, [], part)]

    watcher.heartbeat(rank, 0)
    watcher.attend(rank, waits, threaded=not world.repeat(partial(watcher.answer, rank)))
    before = reading()
    try:
        if spec.benchmark == ANATOMY:
            found = cast(Dissected, world).anatomy(spec.settings, progress)
        else:
            session = Session(world, spec.benchmark, spec.settings, progress)
            session.check()
            before = reading()  # the check is not timed, and launchers look at its beginning
            found = session.measure()
    except WrongData as error:
        found = {"wrong": str(error)}
    watcher.finish(rank)
    disturbances = world.gather(disturbance(before, reading()))
    return None if disturbances is None else _record(spec, world, found, disturbances)


def _record(
    spec: CommSpec, world: World, found: dict[str, Any], disturbances: list[Disturbance]
) -> dict[str, Any]:
    """The record of a benchmark; without times if a byte was wrong."""
    settings, benchmark = spec.settings, spec.benchmark
    sizes = settings.sizes(benchmark)
    most = Disturbance(*(max(values) for values in zip(*disturbances, strict=True)))
    wrong = found.pop("wrong", None)
    checked = wrong is not None or not settings.no_check
    made = {
        "schema": SCHEMA,
        "benchmark": benchmark.name,
        "measures": benchmark.measures,
        "driver": spec.driver,
        "pes": spec.pes,
        **spec.recorded(),
        "percentiles": list(settings.percentiles.values) if settings.percentiles else [],
        "command": ["miniapps", *spec.arguments()],
        "sizes": sizes,
        "iterations": [settings.iterations_of(benchmark, size) for size in sizes],
        "warmups": settings.warmups_of(benchmark),
        "valid": wrong is None if checked else None,
        "wrong": wrong,
        **found,
        "disturbance": {"load_average": os.getloadavg()[0], **most._asdict()},
        "versions": versions() | world.versions,
        "environment": environment.set_variables(),
        "host": record.host(),
        **({"hosts": environment.hosts()} if environment.hosts() else {}),
        "oversubscribed": environment.oversubscribed(spec.pes),
    }
    return dict(in_lines(made))
