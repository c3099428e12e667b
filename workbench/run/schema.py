"""Renamed keys of records and campaigns, and the upgrade of older files.

A record without ``schema`` has schema 1. Readers upgrade records when they read them, so the rest
of the workbench uses the names of schema 2 only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

SCHEMA = 2
RENAMED_KEYS: Mapping[str, str] = {"frames": "snapshot_every"}
NEVER_BALANCED = ("--lb-period", "0")  # given to all runs by earlier versions
RENAMED_OPTIONS: Mapping[str, str] = {"--frames": "--snapshot-every", "--blocks": "--pe-grid"}


def upgraded(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the keys of the current schema, in their original order."""
    if record.get("schema", 1) != 1:
        return dict(record)
    renamed = {RENAMED_KEYS.get(key, key): value for key, value in record.items()}
    return renamed | {"schema": SCHEMA}


def upgraded_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of a run with the current names of options, without "never balance"."""
    renamed = [RENAMED_OPTIONS.get(word, word) for word in arguments]
    pairs = list(pairwise([*renamed, ""]))
    unused = [n for n, pair in enumerate(pairs) if pair == NEVER_BALANCED]
    return [word for n, word in enumerate(renamed) if not {n, n - 1} & {*unused}]


def comparable(head: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a head that are equal in all files of a study, whichever version wrote them.

    A run's arguments are sorted, because versions order them differently.
    """
    head = upgraded_head(json.loads(json.dumps(head)))
    points = [point | {"arguments": sorted(point.get("arguments", ()))} for point in head["points"]]
    return {"study": head["study"], "points": points}


def upgraded_head(head: Mapping[str, Any]) -> dict[str, Any]:
    """The head of a campaign whose points have current arguments."""
    points = [dict(point) for point in head.get("points", [])]
    for point in points:
        if "arguments" in point:
            point["arguments"] = upgraded_arguments(point["arguments"])
    return {**head, "points": points}


def extent_of(record: Mapping[str, Any]) -> Sequence[float]:
    """The lengths of a record's domain; older records have them as ``box`` or ``size``."""
    found = record.get("extent") or record.get("box") or record["problem"].get("size", (1,))
    return found if isinstance(found, list | tuple) else (found, found)
