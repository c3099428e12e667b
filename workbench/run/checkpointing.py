"""The options of a run for checkpoints and for resuming: checks, and what writes checkpoints."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from miniapps.parameters import require, shown, words
from miniapps.workbench.run import earlier
from miniapps.workbench.run.checkpoint import (
    MOST_KEPT,
    Hdf5Checkpoints,
    fixed_parameters,
    kept,
    offers_checkpoints,
)
from miniapps.workbench.run.launched import FOLDER
from miniapps.workbench.run.writable import check_writable


def check(spec: Any) -> None:
    """Raise InputError if a run, a `RunSpec`, cannot write checkpoints, or be resumed."""
    every, keep = spec.checkpoint_every, spec.checkpoint_keep
    require(every >= 0, "--checkpoint-every", every, "must be 0 or more (0: none)")
    require(1 <= keep <= MOST_KEPT, "--checkpoint-keep", keep, f"must be from 1 to {MOST_KEPT}")
    for path in [spec.checkpoint, *names(spec)[1:]]:
        check_writable("--checkpoint", path)
    times = {
        "--checkpoint-every": every,
        "--checkpoint-minutes": spec.checkpoint_minutes,
        "--time-limit": spec.time_limit,
    }
    more = {"--checkpoint-async": spec.checkpoint_async}
    if spec.checkpoint is None:
        for option, value in (times | more).items():
            require(not value, option, value, "needs --checkpoint FILE.h5")
        require(keep == 2, "--checkpoint-keep", keep, "needs --checkpoint FILE.h5")
        again = spec.restart_on_failure
        require(not again, "--restart-on-failure", again, "needs --checkpoint FILE.h5")
    else:
        needs = "needs --checkpoint-every K, --checkpoint-minutes M or --time-limit T"
        require(any(times.values()), "--checkpoint", spec.checkpoint, needs)
        able = offers_checkpoints(spec.module.Block)
        require(able, "--checkpoint", spec.checkpoint, f"app {spec.app} does not offer it")
    _check_restarts(spec)
    if spec.resume is not None and spec.resumed is not None:
        spec.resumed.check(spec)
        if FOLDER not in os.environ:  # else the launching process has done it
            earlier.check(spec)
            spec.resumed.verify()


def names(spec: Any) -> list[Path]:
    """The names that the run's checkpoints get, that of the last one first."""
    if spec.checkpoint is None:
        return []
    path = Path(os.path.realpath(spec.checkpoint))
    return [kept(path, n) for n in range(min(spec.checkpoint_keep, MOST_KEPT))]


def _check_restarts(spec: Any) -> None:
    """Raise InputError unless the options of restarts fit the run."""
    most, pes, none = spec.restart_on_failure, spec.restart_pes, "must be 0 or more (0: none)"
    require(most >= 0, "--restart-on-failure", most, none)
    require(pes is None or most > 0, "--restart-pes", pes, "needs --restart-on-failure N")
    one = f"--driver {spec.driver} has one PE"
    require(pes is None or not spec.can.one_pe, "--restart-pes", pes, one)


def writer_of(spec: Any) -> Hdf5Checkpoints | None:
    """What writes the run's checkpoints, if any."""
    if spec.checkpoint is None:
        return None
    head = {
        "app": spec.app,
        "steps": spec.steps,
        "warmup": spec.warmup,
        "problem": fixed_parameters(spec.app, spec.prepared.parameters()),
        "extent": list(spec.prepared.extent),
        "words": _fixing(spec),
        "case": _case(spec),
        "own": spec.own_words(),
        "resumed": [] if spec.resumed is None else spec.resumed.past(),
    }
    path, quantities = spec.checkpoint.resolve(), spec.problem.quantities
    return Hdf5Checkpoints(path, spec.checkpoint_every, spec.checkpoint_keep, head, quantities)


def _fixing(spec: Any) -> list[str]:
    """The words of a command line that fix the result of the run, and its steps."""
    line = ["--steps", str(spec.steps), "--warmup", str(spec.warmup)]
    for field in fields(spec.problem):
        value = getattr(spec.problem, field.name)
        value = value.resolve() if isinstance(value, Path) else value
        if field.name not in spec.problem.needs_output:
            line += words(field.metadata["option"], value, field.metadata["repeated"])
    return line


def _case(spec: Any) -> dict[str, str]:
    """How the run is made, and its checkpoints: values of options, which change no result.

    An option that has none is there if it was given.
    """
    return {
        "--driver": spec.driver,
        "-n": str(spec.pes),
        "--odf": str(spec.odf),
        "--pe-grid": shown(spec.grid),
        "--device": spec.device,
        "--checkpoint-every": str(spec.checkpoint_every),
        "--checkpoint-minutes": str(spec.checkpoint_minutes),
        "--checkpoint-keep": str(spec.checkpoint_keep),
        "--time-limit": str(spec.time_limit),
        **({"--checkpoint-async": ""} if spec.checkpoint_async else {}),
    }
