"""Runs that go on by themselves, from their last checkpoint, after a PE has died or hangs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic, time
from typing import Any

from miniapps.parameters import InputError, require
from miniapps.workbench.plural import counted
from miniapps.workbench.run import launch
from miniapps.workbench.run.checkpointing import names
from miniapps.workbench.run.durations import Duration
from miniapps.workbench.run.spec import RunSpec

Identity = tuple[int, int, int]  # of a file, whatever its name


def check(spec: RunSpec, launches: bool) -> None:
    """Raise InputError if a run may be restarted, but cannot be.

    `checkpointing.check` has checked the options. ``launches``: whether this process starts the
    PEs. Snapshots are in files that a PE may have left half written.
    """
    most = spec.restart_on_failure
    if not most:
        return
    own = any(writer.every for writer in spec.problem.snapshots())
    lost = "frames of snapshots would be lost: give --output without them"
    none = not (own or spec.snapshot_every or spec.hash_every)
    require(none, "--restart-on-failure", most, lost)
    allowed = "only where this process launches the PEs"
    require(launches, "--restart-on-failure", most, allowed)
    if spec.restart_pes is not None:
        lowered(spec).check()


def lowered(spec: RunSpec) -> RunSpec:
    """A run on the PEs that it has after a failure, from its first step on."""
    if spec.restart_pes is None:
        return spec
    return replace(spec, pes=spec.restart_pes, pe_grid=None, restart_pes=None, resume=None)


def launch_until_done(
    spec: RunSpec,
    command: Callable[[RunSpec], list[str]],
    limit_s: float | None,
    stoppable: bool = False,
) -> dict[str, Any] | str:
    """Launch a run, and again after each failure, as often as is allowed.

    ``command``: makes the command that launches a run; ``limit_s`` and ``stoppable`` are as of
    `launch.launch_all`. Returns the record, which lists the failures, or the reason of the last.
    """
    others = {*_files(spec)} - {_identity(spec.resume)}
    begun = died = monotonic()
    failures: list[dict[str, Any]] = []
    again = spec
    while True:
        started = monotonic()
        (result,), ended = launch.launch_to_end([again], command(again), limit_s, stoppable)
        if failures and ended.began_s is not None:
            failures[-1]["recovery_s"] = round(ended.began_s - died, 3)
        if isinstance(result, dict):
            return result | ({"restarts": failures} if spec.restart_on_failure else {})
        if len(failures) == spec.restart_on_failure:
            return result
        died = monotonic()
        failed, again = again, _continued(spec, others, died - begun)
        failures.append(_failure(failed, again, result, ended.step, died - started))
        _tell(failures, spec, again)


def _continued(spec: RunSpec, others: set[Identity], used_s: float) -> RunSpec:
    """The run from the last checkpoint that is whole and not done; without one, from its start.

    ``others``: checkpoints that it has not written; ``used_s``: what it has used of its time limit.
    """
    again = replace(lowered(spec), time_used=Duration(round(used_s, 3)))
    for path in _own_checkpoints(spec, others):
        try:
            found = replace(again, resume=path)
            found.check()
        except InputError:
            continue
        return found
    return replace(again, resume=spec.resume)


def _own_checkpoints(spec: RunSpec, others: set[Identity]) -> Iterator[Path]:
    """The checkpoints that a run has written, or begun with, the last one first."""
    for path in names(spec):
        identity = _identity(path)
        if identity is not None and identity not in others:
            yield path
    if spec.resume is not None:
        yield spec.resume


def _files(spec: RunSpec) -> Iterator[Identity]:
    """The files that are there by these names."""
    yield from filter(None, map(_identity, names(spec)))


def _identity(path: Path | None) -> Identity | None:
    """What tells a file from others, also when it gets another name; None if it is not there."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _failure(
    failed: RunSpec, again: RunSpec, reason: str, step: int, passed_s: float
) -> dict[str, Any]:
    """What the record says of a failure, ``passed_s`` after the launch, in step ``step``."""
    lost_s = passed_s
    if again.resume is not None and again.start > failed.start:
        lost_s = min(passed_s, max(0.0, time() - again.resume.stat().st_mtime))
    return {
        "reason": reason.splitlines()[0],
        "pes": failed.pes,
        "step": max(step, again.start),
        "from": again.start,
        "lost_s": round(lost_s, 3),
        "recovery_s": None,
    }


def _tell(failures: list[dict[str, Any]], spec: RunSpec, again: RunSpec) -> None:
    """Say that a run goes on."""
    last, most = failures[-1], spec.restart_on_failure
    where = f"from step {last['from']} on {counted(again.pes, 'PE')}"
    line = f"{last['reason']}; restart {len(failures)} of {most}, {where}"
    print(f"miniapps: {line}", file=sys.stderr, flush=True)
