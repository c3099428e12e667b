"""Second witnesses of a run's times: other clocks than those of rounds, and the launching process.

A run whose times contradict them is not valid, as if it had a wrong bit. docs/timing.md says which
mistakes this finds.
"""

from __future__ import annotations

from miniapps.contract import Check
from miniapps.drivers.outcome import Outcome

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
    most = float(outcome.compute_s.sum(axis=1).max(initial=0.0))
    every = compared(own, *outcome.passed_s, most, on_cpu=outcome.gpu is None)
    return [check for check in every if not check.ok] or [Check(NAME, 0.0, 0.0)]


def compared(
    own: float, passed: float, second: float, most: float, on_cpu: bool, parts: int = 1
) -> list[Check]:
    """The times of rounds against what ``passed`` by a clock, and by a ``second`` one, in seconds.

    ``own``: all rounds, with their audits; ``most``: the PE that computed longest; ``parts``: runs
    that were added up, each of which may differ.
    """
    found = [
        # A GPU's clock is set by the host, whose PE may lose its core.
        ("rounds longer than what passed", own - passed, ROUNDED_S if on_cpu else READ_S),
        ("rounds shorter than what passed", passed - own, LATE * own + LATE_S),
        ("two clocks", abs(passed - second), APART * passed + READ_S),
    ]
    if on_cpu:  # on a GPU the kernels of several blocks may overlap
        found.append(("compute longer than rounds", most - own, ROUNDED_S))
    return [Check(f"{NAME}: {words}", value, parts * limit) for words, value, limit in found]


def with_launch(own: float, launch_s: float, parts: int = 1) -> Check:
    """The times of rounds against the seconds that the launching process saw pass."""
    limit = parts * ROUNDED_S
    return Check(f"{NAME}: rounds longer than the launch", own - launch_s, limit)


def recorded(outcome: Outcome) -> dict[str, float | None]:
    """What the record keeps of them; the launching process adds what it has seen."""
    passed, second = outcome.passed_s
    return {"passed_s": passed, "second_s": second, "launch_s": None}
