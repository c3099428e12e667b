"""Second witnesses of a run's times: other clocks than those of rounds, and the launching process.

A run whose times contradict them is not valid, as if it had a wrong bit. docs/timing.md says which
mistakes this finds.
"""

from __future__ import annotations

from typing import Any

from miniapps.contract import Check
from miniapps.drivers.outcome import Outcome
from miniapps.workbench.run.revalidation import MEASURED

ROUNDED_S = 1e-3  # a sum of times of rounds
READ_S = 1.0  # between two clocks that are read one after the other, by a PE that loses its core
LATE_S, LATE = 5.0, 1.0  # from the last round until all PEs have read their clocks, and its share
APART = 0.01  # relative difference of two clocks, which the system may adjust
NAME = "times contradict each other"


def checks(outcome: Outcome) -> list[Check]:
    """The contradictions between the times of rounds and what passed by two clocks, in seconds.

    If there is none, one check says so.
    """
    own = float(outcome.wall_s.sum()) + outcome.audits_s
    passed, second = outcome.passed_s
    most = float(outcome.compute_s.sum(axis=1).max(initial=0.0))
    on_cpu = outcome.gpu is None  # a GPU's clock is set by the host, whose PE may lose its core
    found = [
        ("rounds longer than what passed", own - passed, ROUNDED_S if on_cpu else READ_S),
        ("rounds shorter than what passed", passed - own, LATE * own + LATE_S),
        ("two clocks", abs(passed - second), APART * passed + READ_S),
    ]
    if on_cpu:  # on a GPU the kernels of several blocks may overlap
        found.append(("compute longer than rounds", most - own, ROUNDED_S))
    every = [Check(f"{NAME}: {words}", value, limit) for words, value, limit in found]
    return [check for check in every if not check.ok] or [Check(NAME, 0.0, 0.0)]


def recorded(outcome: Outcome) -> dict[str, float | None]:
    """What the record keeps of them; the launching process adds what it has seen."""
    passed, second = outcome.passed_s
    return {"passed_s": passed, "second_s": second, "launch_s": None}


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
    own = record["wall_s"] + record["audits_s"]
    check = Check(f"{NAME}: rounds longer than the launch", own - launch_s, ROUNDED_S)
    if check.ok:
        return record
    kept = {key: value for key, value in record.items() if key not in MEASURED}
    return kept | {"checks": [*record["checks"], check._asdict() | {"ok": False}], "valid": False}
