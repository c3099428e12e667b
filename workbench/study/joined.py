"""Joins the records of the parts of a run into the record of the whole run.

A part is stopped, and the next one continues from its checkpoint. Each has a record with the times
of its own steps. The last one says what holds of the whole run: its final state, the checks from
step 0 on, and the app's own results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from miniapps.workbench.run.record import Times, timing
from miniapps.workbench.run.revalidation import CASE, RECORD, UNTIMED, objection, untimed

Record = dict[str, Any]

SAME = ("app", "device", *CASE, "lb_first", "pe_grid", "blocks", "warmup", "problem", "gpu")
SUMS = (
    "jit_s",
    "import_s",
    "snapshots_s",
    "checkpoints_s",
    "checkpoints_written_s",
    "checkpoints_waited_s",
    "agreements_s",
    "audits_s",
)  # which older records may lack
DISTURBANCE = tuple(RECORD["disturbance?"])


def joined(parts: Sequence[Record]) -> Record | str:
    """The record of a run, from those of its parts in order; else why they are none of one run."""
    return _objection(parts) or _record(parts)


def _objection(parts: Sequence[Record]) -> str | None:
    """Why records are not those of all parts of a run, in one line; None if they are."""
    for number, part in enumerate(parts):
        reason = objection(part)
        if reason not in (None, UNTIMED):  # a part may have ended in the warm-up
            return f"part {number}: {reason}" if len(parts) > 1 else reason
    if parts[0].get("resumed"):
        return "continues from a checkpoint, but the records of the parts before are missing"
    for number, (part, after) in enumerate(pairwise(parts)):
        if "stopped" not in part:
            return f"part {number} was not stopped, but there is a part {number + 1}"
        end = {"step": part["stopped"]["step"], "state_hash": part["state_hash"]}
        if after.get("resumed") != [*part.get("resumed", []), end]:
            return f"part {number + 1} does not continue from the end of part {number}"
        differing = _differing(part, after)
        if differing is not None:
            return f"part {number + 1} has another {differing} than part {number}"
    if "stopped" in parts[-1]:
        return f"stopped after step {parts[-1]['stopped']['step']}, and not yet continued"
    return None


def _differing(part: Record, after: Record) -> str | None:
    """What two parts of a run cannot have differently; None if that is the same."""
    for key in (*SAME, "versions"):
        if part.get(key) != after.get(key):
            return key
    return "processor" if part["host"]["processor"] != after["host"]["processor"] else None


def _record(parts: Sequence[Record]) -> Record:
    """The record of the whole run; ``parts``: as `_objection` allows them."""
    last, hosts = parts[-1], [part["host"] for part in parts]
    balancing = [entry for part in parts for entry in part["lb"]]
    found = last | {
        "parts": len(parts),
        "steps": sum(part["steps"] for part in parts),
        "resumed": [],
        **timing(_times([part for part in parts if not untimed(part)]), last["pes"], balancing),
        "lb": balancing,
        **{key: sum(part[key] for part in parts) for key in SUMS if _in_all(parts, key)},
        "peak_rss_bytes": max(part["peak_rss_bytes"] for part in parts),
        "host": min(hosts, key=lambda host: host["cores"]),
        "oversubscribed": any(part["oversubscribed"] for part in parts),
    }
    if _in_all(parts, "first_step_at"):
        found["first_step_at"] = parts[0]["first_step_at"]
    if _in_all(parts, "clocks"):
        found["clocks"] = _clocks([part["clocks"] for part in parts])
    if _in_all(parts, "disturbance"):
        each = [part["disturbance"] for part in parts]
        found["disturbance"] = {key: max(one[key] for one in each) for key in DISTURBANCE}
    if found.get("transport"):
        sent = [part.get("transport") or {"staged_bytes": 0} for part in parts]
        staged = sum(one["staged_bytes"] for one in sent)
        found["transport"] = found["transport"] | {"staged_bytes": staged}
    return found


def _clocks(parts: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """What passed by other clocks in all parts."""
    launches = [part["launch_s"] for part in parts]
    return {
        "passed_s": sum(part["passed_s"] for part in parts),
        "second_s": sum(part["second_s"] for part in parts),
        "launch_s": None if None in launches else sum(launches),
    }


def _in_all(parts: Sequence[Record], key: str) -> bool:
    return all(key in part for part in parts)


def _times(parts: Sequence[Record]) -> Times:
    """The times of all rounds, which follow those of the parts that have timed steps."""
    rounds = [part["rounds"] for part in parts]
    computed = sum(part["compute_s"] for part in parts)
    slowest = sum(part["imbalance"] * part["compute_s"] for part in parts)
    known = all("compute_s" in some for some in rounds)
    loads = [np.array(some["compute_s"]) for some in rounds] if known else []
    return Times(
        rounds=np.concatenate([np.column_stack([r["first"], r["count"]]) for r in rounds]),
        wall_s=np.concatenate([some["wall_s"] for some in rounds]),
        loads=np.concatenate(loads, axis=1) if known else None,
        compute_s=computed,
        imbalance=slowest / computed if computed else 1.0,
        work=sum(part["rate"]["value"] * part["wall_s"] for part in parts),
        unit=parts[0]["rate"]["unit"],
    )
