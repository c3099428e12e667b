"""What a PE of Charm4Py could gain by looking at shared memory itself, instead of a message.

    python -m benchmarks.messages.polled_slot

Runs `bare_polled.py` in turn: microseconds from one PE to the other by a word of shared memory that
a scheduled function looks at, and by a call of an entry method; if the PEs have nothing else to do,
and if an entry method of 100 us is always ready. Then what a look costs: alone, and as a share of
an entry method that does nothing; and how many such calls the scheduler makes between two looks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import in_turn, printed, save, spread
from miniapps.drivers.charm import transport_options

TRIALS = 7
IDLE, BUSY, NOTHING = "no", "100", "0"  # the entry method: none, of 100 us, of nothing
WORDS = 4096  # bytes of the file
RUNS: dict[str, tuple[str, str, int]] = {  # way, entry method, and round trips or calls
    "slot, idle": ("slot", IDLE, 20000),
    "message, idle": ("message", IDLE, 20000),
    "slot, busy": ("slot", BUSY, 300),
    "message, busy": ("message", BUSY, 1000),
    "look, idle": ("look", IDLE, 200000),
    "look, busy": ("look", NOTHING, 200000),
    "no look, busy": ("none", NOTHING, 200000),
}


@contextmanager
def shared_file() -> Iterator[Path]:
    """A file of zeros in memory, which has no name that could be left."""
    file = os.memfd_create("polled")
    try:
        os.ftruncate(file, WORDS)
        yield Path(f"/proc/{os.getpid()}/fd/{file}")
    finally:
        os.close(file)


def passed(way: str, work: str, count: int) -> dict[str, Any]:
    """What the first PE has done in a run; raises RuntimeError if a number was lost."""
    program = Path(__file__).with_name("bare_polled.py")
    charmrun: list[object] = [sys.executable, "-m", "charmrun.start", "+p2"]
    with shared_file() as file:
        options = ["++local", "++quiet", *transport_options(2)]
        first, second = printed([*charmrun, program, way, work, count, file, *options])
    if way in ("slot", "message") and not first["came"] == second["came"] == count:
        raise RuntimeError(f"{way}: {first['came']} and {second['came']} of {count} came")
    return first


def results(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The results from what the first PE has done in each run."""

    def each(case: str, done: str, parts: int = 1) -> list[float]:
        return [1e6 * one["seconds"] / (parts * one[done]) for one in found[case]]

    ways = ("slot, idle", "message, idle", "slot, busy", "message, busy")
    looked, alone = each("look, busy", "works"), each("no look, busy", "works")
    return {
        **{f"one way: {case}, us": spread(each(case, "came", 2)) for case in ways},
        "a look, idle, us": spread(each("look, idle", "looks")),
        "an entry method of nothing, us": spread(alone),
        "the same with looks, us": spread(looked),
        "such calls per look": spread(one["works"] / one["looks"] for one in found["look, busy"]),
    }


def main() -> None:
    """Make all runs in turn."""
    found = in_turn({name: partial(passed, *words) for name, words in RUNS.items()}, TRIALS)
    save("polled_slot", results(found))


if __name__ == "__main__":
    main()
