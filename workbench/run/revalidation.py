"""Validates records that are read from files: whole, valid and free of contradictions.

A file may have been edited, damaged or merged since the run wrote it. All measured numbers of a
record follow from the times of its rounds, so each of them is computed again and compared. If
rounds are merged, as in campaign files, `imbalance` and the shortest, longest and median step can
only be compared with bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from miniapps import apps
from miniapps.contract import Check
from miniapps.drivers.descriptor import Balancing
from miniapps.drivers.timing import imbalance
from miniapps.workbench.run import clocks
from miniapps.workbench.run.shapes import COUNT, LINE, Kind, misfit, shape_in, unprintable

UNTIMED = "stopped in its warm-up: there are no times"  # what is said of a record
ROUNDED = 2e-5  # relative error of sums and ratios of times with six digits
EXACT = 1e-9  # relative error of numbers with all digits

SENT = {"path": LINE, "reason": LINE, "staged_bytes": COUNT}
TRANSPORT = Kind(f"an object of {', '.join(SENT)}", lambda value: misfit(value, SENT, "") is None)
SHAPES = shape_in(Path(__file__).with_name("record.json"), transport=TRANSPORT)
RECORD: Mapping[str, Any] = SHAPES["record"]
MEASURED: Mapping[str, Any] = SHAPES["measured"]  # the further keys of a valid record
HOST: Mapping[str, Any] = RECORD["host"]
CASE: Mapping[str, Any] = {  # the keys of a `Case`
    key: RECORD[key] for key in ("driver", "pes", "odf", "balancer", "lb_period")
}


def objection(record: Any) -> str | None:
    """Why a record must not be shown as a result, in a few words; None if nothing is wrong."""
    reason = contradiction(record)
    if reason is None and not record["valid"]:
        wrong = [check["name"] for check in record["checks"] if not check["ok"]]
        return f"not valid: {', '.join(wrong) or 'no check says why'}"
    return UNTIMED if reason is None and untimed(record) else reason


def contradiction(record: Any) -> str | None:
    """Why no run can have written a record, valid or not; None if one can."""
    words = misfit(record, RECORD, "record") or unprintable(record, "record")
    if words is None and record["app"] not in apps.names():
        words = f"app {record['app']} is unknown; is it in a folder of {apps.APP_PATH}?"
    timed = record["valid"] and not untimed(record) if words is None else False
    if timed:
        words = misfit(record, MEASURED, "record")
    if words is not None:
        return f"is no whole record: {words}"
    if not timed:
        return None
    broken = next((claim for claim, holds in claims(record) if not holds), None)
    return broken and f"contradicts itself: {broken}"


def claims(record: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """What must hold in a valid record of the right shape, in words, and whether it does."""
    for check in record["checks"]:
        holds = check["value"] is not None and check["value"] <= check["limit"]
        yield f"check {check['name']} is ok only if its value is within the limit", holds
        yield f"valid, but check {check['name']} is not ok", check["ok"]
    yield "valid, but without any check", bool(record["checks"])
    whole = {"pes": record["pes"], "cores": record["host"]["cores"]}
    hosts = record.get("hosts", [whole])
    over = record["oversubscribed"] == any(host["pes"] > host["cores"] for host in hosts)
    each = ", ".join(f"{host['pes']} PEs exceed {host['cores']} cores" for host in hosts)
    yield f"oversubscribed must say whether {each}", over
    placed = sum(host["pes"] for host in hosts)
    yield f"hosts have {placed} PEs, the run {record['pes']}", placed == record["pes"]
    moved = sum(entry["moved"] for entry in record["lb"])
    yield f"migrations must be {moved}, the blocks moved", record["migrations"] == moved
    audited = any(check["name"].startswith("audit: ") for check in record["checks"])
    told = audited or not record.get("audit")
    yield "audit says that the run was audited, but no check does", told
    yield from _claims_of_rounds(record)


def _claims_of_rounds(record: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """What must hold between the times of rounds and the numbers computed from them."""
    rounds, wall, pes = record["rounds"], record["wall_s"], record["pes"]
    merged = rounds.get("merged", 1)
    first, steps, walls = (np.array(rounds[key]) for key in ("first", "count", "wall_s"))
    alike = 0 < len(first) == len(steps) == len(walls)
    yield "rounds must have as many first steps as counts and times, at least one", alike
    if not alike:
        return
    made = steps_before(record) + np.cumsum([0, *steps])
    begun = "from the warm-up, or from the checkpoint, on"
    yield f"rounds must follow one another, {begun}", np.array_equal(first, made[:-1])
    if merged == 1 and record["lb_period"]:
        due = Balancing(lb_period=record["lb_period"], lb_first=record.get("lb_first")).steps_due(
            list(zip(first.tolist(), steps.tolist(), strict=True))
        )
        balanced = [entry["step"] for entry in record["lb"]]
        # Not where a part of the run ended: there are no steps until the next one begins.
        spared = len(due) - len(balanced) < record.get("parts", 1)
        holds = spared and balanced == [step for step in due if step in {*balanced}]
        yield f"lb must have the steps {due}", holds
    yield f"steps must be {steps.sum()}, as in its rounds", record["steps"] == steps.sum()
    yield "wall_s must be the sum of the rounds' times", near(wall, walls.sum(), ROUNDED)
    least = "each entry of merged rounds must have a step for each, or more"
    yield least, bool(np.all(steps[:-1] >= merged))
    bounds = _claims_of_steps if merged == 1 else _claims_of_merged_steps
    yield from bounds(record["step_time_s"], walls, steps)
    share = record["compute_s"] / (pes * wall)
    yield f"utilisation must be {share:.4g}", near(record["utilisation"], share, EXACT)
    yield from _claims_of_loads(record, len(first))
    if "clocks" in record:
        yield from ((check.name, check.ok) for check in _of_clocks(record))


def _of_clocks(record: dict[str, Any]) -> Iterator[Check]:
    """The times of rounds against other clocks, as when the run ended."""
    own, parts = record["wall_s"] + record.get("audits_s", 0.0), record.get("parts", 1)
    passed, second, launch_s = (
        record["clocks"][f"{by}_s"] for by in ("passed", "second", "launch")
    )
    most = max(map(sum, record["rounds"].get("compute_s", ())), default=0.0)
    yield from clocks.compared(own, passed, second, most, record["device"] == "cpu", parts)
    if launch_s is not None:
        yield clocks.with_launch(own, launch_s, parts)


def seen(record: dict[str, Any], launch_s: float) -> dict[str, Any]:
    """A record with the seconds that its launch took, as the launching process saw it.

    It is not valid, and has no times, if its rounds took longer. That of a benchmark of messages
    has no rounds and is unchanged.
    """
    if "clocks" not in record:
        return record
    record = record | {"clocks": record["clocks"] | {"launch_s": launch_s}}
    if "wall_s" not in record:  # it is not valid, or was stopped in its warm-up
        return record
    check = clocks.with_launch(record["wall_s"] + record["audits_s"], launch_s)
    if check.ok:
        return record
    kept = {key: value for key, value in record.items() if key not in MEASURED}
    return kept | {"checks": [*record["checks"], check._asdict() | {"ok": False}], "valid": False}


def steps_before(record: Mapping[str, Any]) -> int:
    """The number of steps before the timed ones: of the warm-up, or before the run was resumed."""
    return max([record["warmup"], *(past["step"] for past in record.get("resumed", []))])


def untimed(record: Mapping[str, Any]) -> bool:
    """Whether a run was stopped in its warm-up: its record may be valid, but has no times."""
    return "stopped" in record and not record["steps"]


def steps_made(record: Mapping[str, Any]) -> int:
    """The number of steps that a run has made, warm-up included."""
    if untimed(record):
        return int(record["stopped"]["step"])
    return int(steps_before(record) + record["steps"])


def _claims_of_steps(
    times: dict[str, float], walls: np.ndarray, steps: np.ndarray
) -> Iterator[tuple[str, bool]]:
    """What must hold between ``step_time_s`` and the rounds: ``walls``, s, and ``steps`` each."""
    for name, found in (("median", np.median), ("min", np.min), ("max", np.max)):
        value = found(walls / steps)
        claim = f"the {name} step time must be {value:.6g} s, as in its rounds"
        yield claim, near(times[name], value, ROUNDED)


def _claims_of_merged_steps(
    times: dict[str, float], walls: np.ndarray, steps: np.ndarray
) -> Iterator[tuple[str, bool]]:
    """What must hold between ``step_time_s`` and sums over rounds.

    The mean step of an entry lies between the shortest and the longest step, and no step is longer
    than all steps of the entry that contains it.
    """
    low, median, high = (times[name] for name in ("min", "median", "max"))
    yield "the median step time must lie between min and max", low <= median <= high
    means, most = walls / steps, walls.max()
    claim = f"the min step time must be at most {means.min():.6g} s, as in its rounds"
    yield claim, low <= means.min() * (1 + ROUNDED)
    claim = f"the max step time must be {means.max():.6g} to {most:.6g} s, as in its rounds"
    yield claim, means.max() * (1 - ROUNDED) <= high <= most * (1 + ROUNDED)


def _claims_of_loads(record: dict[str, Any], rounds: int) -> Iterator[tuple[str, bool]]:
    """What must hold between the compute times of PEs and the numbers computed from them."""
    loads = record["rounds"].get("compute_s")
    if loads is None:
        return
    alike = len(loads) == record["pes"] and all(len(pe) == rounds for pe in loads)
    yield f"rounds.compute_s must have {rounds} times for each of {record['pes']} PEs", alike
    if alike:
        total, ratio, found = np.sum(loads), imbalance(np.array(loads)), record["imbalance"]
        yield "compute_s must be the sum of the PEs' times", near(record["compute_s"], total)
        if "merged" in record["rounds"]:  # and the slowest PE may differ between rounds of an entry
            within = ratio * (1 - ROUNDED) <= found <= record["pes"] * (1 + ROUNDED)
            yield f"imbalance must be {ratio:.4g} to {record['pes']}", within
        else:
            yield f"imbalance must be {ratio:.4g}", near(found, ratio)


def near(one: float, other: float, error: float = ROUNDED) -> bool:
    """Whether two numbers differ by no more than rounding does."""
    return math.isclose(one, other, rel_tol=error)
