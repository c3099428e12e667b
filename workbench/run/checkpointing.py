"""The options of a run for checkpoints and for resuming: checks, and what writes checkpoints."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from miniapps.parameters import require, shown, words
from workbench.run.checkpoint import (
    MOST_KEPT,
    Hdf5Checkpoints,
    fixed_parameters,
    offers_checkpoints,
)
from workbench.run.launched import FOLDER
from workbench.run.writable import check_writable


def check(spec: Any) -> None:
    """Raise InputError if a run, a `RunSpec`, cannot write checkpoints, or be resumed."""
    check_writable("--checkpoint", spec.checkpoint)
    every, keep = spec.checkpoint_every, spec.checkpoint_keep
    require(every >= 0, "--checkpoint-every", every, "must be 0 or more (0: none)")
    require(1 <= keep <= MOST_KEPT, "--checkpoint-keep", keep, f"must be from 1 to {MOST_KEPT}")
    times = {
        "--checkpoint-every": every,
        "--checkpoint-minutes": spec.checkpoint_minutes,
        "--time-limit": spec.time_limit,
    }
    if spec.checkpoint is None:
        for option, value in times.items():
            require(not value, option, value, "needs --checkpoint FILE.h5")
        require(keep == 2, "--checkpoint-keep", keep, "needs --checkpoint FILE.h5")
    else:
        needs = "needs --checkpoint-every K, --checkpoint-minutes M or --time-limit T"
        require(any(times.values()), "--checkpoint", spec.checkpoint, needs)
        able = offers_checkpoints(spec.module.Block)
        require(able, "--checkpoint", spec.checkpoint, f"app {spec.app} does not offer it")
    if spec.resume is not None and spec.resumed is not None:
        spec.resumed.check(spec)
        if FOLDER not in os.environ:  # else the launching process has done it
            _require_new_output(spec)
            spec.resumed.verify()


def _require_new_output(spec: Any) -> None:
    """Raise InputError if the output would replace that of an earlier part of the run."""
    if spec.output is None or not spec.output.exists():
        return
    begun = _begin_of_output(spec.output, spec.app)
    lost = f"is the output of a run that made steps before {spec.start}, which would be lost"
    earlier = begun is not None and begun < spec.start
    require(not earlier, "--output", spec.output, f"{lost}: name another file")


def _begin_of_output(path: Path, app: str) -> int | None:
    """The first step of the run of an app whose output a file is; None for any other file."""
    import h5py

    try:
        with h5py.File(path) as file:
            record = json.loads(file.attrs["record"])
        past = [{"step": 0}, *record.get("resumed", [])]
        return int(past[-1]["step"]) if record["app"] == app else None
    except (OSError, KeyError, ValueError, TypeError, AttributeError):
        return None


def writer_of(spec: Any) -> Hdf5Checkpoints | None:
    """What writes the run's checkpoints, if any."""
    if spec.checkpoint is None:
        return None
    head = {
        "app": spec.app,
        "steps": spec.steps,
        "warmup": spec.warmup,
        "problem": fixed_parameters(spec.app, spec.prepared),
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
    """How the run is made, and its checkpoints: values of options, which change no result."""
    return {
        "--driver": spec.driver,
        "-n": str(spec.pes),
        "--odf": str(spec.odf),
        "--pe-grid": shown(spec.layout.pe_grid),
        "--device": spec.device,
        "--checkpoint-every": str(spec.checkpoint_every),
        "--checkpoint-minutes": str(spec.checkpoint_minutes),
        "--checkpoint-keep": str(spec.checkpoint_keep),
        "--time-limit": str(spec.time_limit),
    }
