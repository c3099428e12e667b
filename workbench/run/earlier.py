"""The output of an earlier part of a run, which the run goes on to write after it was resumed.

Its snapshots up to the checkpoint are kept, those after it are made again. So the file has what
that of a run has which was never stopped; its record and times are those of the last part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from miniapps.json_input import parsed_object
from miniapps.parameters import require
from miniapps.workbench.run.checkpoint import fixed_parameters
from miniapps.workbench.run.revalidation import steps_made

INTERVALS = ("snapshot_every", "hash_every")  # of a record


def earlier_part(path: Path, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of an earlier part of a run, whose output is a file; None for any other file.

    A run of the same problem has the same bits, so it counts as one. ``run``: the entries ``app``,
    ``problem`` and ``resumed`` of its record.
    """
    import h5py

    if not run["resumed"] or not path.is_file():
        return None
    try:
        with h5py.File(path) as file:
            found = parsed_object(file.attrs["record"])
        problems = [fixed_parameters(one["app"], one["problem"]) for one in (found, run)]
        same = found["app"] == run["app"] and problems[0] == problems[1]
        return found if same else None
    except (OSError, LookupError, ValueError, TypeError, AttributeError):
        return None


def check(spec: Any) -> None:
    """Raise InputError if a resumed run, a `RunSpec`, would lose snapshots of an earlier part."""
    if spec.output is None:
        return
    now = {"app": spec.app, "problem": spec.problem.parameters()} | {
        name: getattr(spec, name) for name in INTERVALS
    }
    found = earlier_part(spec.output, now | {"resumed": spec.resumed.past()})
    if found is None:
        return
    kind = type(spec.problem)
    options = {name: f"--{name.replace('_', '-')}" for name in INTERVALS}
    wanted = {name: now[name] for name in INTERVALS}
    before = {name: found.get(name, 0) for name in INTERVALS}
    asked = json.loads(json.dumps(now["problem"], default=str))
    for field in (field for field in fields(kind) if field.name in kind.needs_output):
        options[field.name] = field.metadata["option"]
        wanted[field.name] = asked[field.name]
        before[field.name] = found["problem"].get(field.name)
    for name, option in options.items():
        given = f"{option} {before[name]}" if before[name] else f"no {option}"
        allowed = f"was written with {given}: give that again, or name another file"
        require(wanted[name] == before[name], "--output", spec.output, allowed)
    able = all(hasattr(writer, "earlier") for writer in spec.problem.snapshots())
    lacks = f"{spec.app} does not say how its snapshots go on: name another file"
    require(able, "--output", spec.output, lacks)
    end = steps_made(found)
    gap = f"ends at step {end}, but {spec.resume} has made {spec.start}: name another file"
    require(end >= spec.start or not any(wanted.values()), "--output", spec.output, gap)
