"""What audits cost: seconds and bytes per run, and as shares of a run of a minute.

Under serial, the time in each function that audits add is measured by itself, because it is hardly
more than the noise of whole runs. Besides, whole commands with and without audits alternate; these
give the memory. The cost of a run depends on its blocks and messages, hardly on its size or its
steps. Exit status 1 if audits take more than 1 % of a minute, or of the memory.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import Any
from unittest import mock

from benchmarks.common import in_turn, median, run, save
from miniapps.audit import checks_of
from miniapps.drivers import outcome, serial
from miniapps.drivers.audits import Auditor, Witness
from miniapps.drivers.outcome import Outcome
from miniapps.kernels.state_hash import digest
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run.progress_file import NoProgressFile

TRIALS, MINUTE_S = 3, 60.0
LIMIT = 0.01  # of a minute, and of the memory
CASES = {
    "jacobi2d, 1 block": "run jacobi2d --preset large --steps 16 --warmup 0",
    "jacobi2d, 64 blocks": "run jacobi2d --preset large --steps 16 --warmup 0 --pe-grid 8x8",
    "stencil3d, 64 blocks": "run stencil3d --size 400x400x400 --steps 16 --pe-grid 4x4x4",
    "pic, 16 blocks": "run pic --preset small --steps 50 --warmup 0 --pe-grid 4x4",
    "leanmd, 27 blocks": "run leanmd --preset small --steps 10 --warmup 0 --pe-grid 3x3x3",
}


class Times:
    """The seconds spent in functions, by name."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed under a name."""

        @functools.wraps(function)
        def timed(*arguments: Any) -> Any:
            before = perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds[name] += perf_counter() - before

        return timed


def audited(line: str) -> dict[str, float]:
    """Seconds and bytes of the audit of one run, given as a command line."""
    spec, times, outcomes = spec_of(line.split()), Times(), list[Outcome]()
    replaced = [
        (Auditor, "begin", "contributions"),
        (Auditor, "end", "contributions"),
        (Witness, "requested", "messages"),
        (Witness, "answered", "messages"),
        (outcome, "differences", "state hash"),
    ]
    with ExitStack() as stack:
        for owner, name, what in replaced:
            timed = times.of(what, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, timed))
        job = spec.job()
        serial.run(job, lambda found: outcomes.append(found) or 0, NoProgressFile())
    (found,) = outcomes
    assert found.audit is not None
    run = spec.module, spec.prepared, spec.layout, found.audit, found.audits
    steps = spec.warmup + spec.steps, found.steps_done
    state_hash = digest(found.words)
    checks = times.of("checks", checks_of)(*run, *steps, found.measures, state_hash)
    assert all(check.ok for check in checks), checks
    seconds = dict(times.seconds)
    return {
        **{f"{name}_s": value for name, value in seconds.items()},
        "total_s": sum(seconds.values()),
        "share_of_a_minute": sum(seconds.values()) / MINUTE_S,
        "bytes": len(pickle.dumps(found.audits)),
    }


def command(line: str, *more: str) -> dict[str, float]:
    """Seconds and memory of one whole run, as a command of its own."""
    before = perf_counter()
    record = run(*line.split()[1:], *more)
    return {"seconds": perf_counter() - before, "bytes": record["peak_rss_bytes"]}


def compared(line: str) -> dict[str, float]:
    """What whole runs with audits take more than without, in turn."""
    calls = {"with": partial(command, line), "without": partial(command, line, "--audit", "0")}
    found = in_turn(calls, TRIALS)
    seconds, peak = (
        {name: median(one[key] for one in ones) for name, ones in found.items()}
        for key in ("seconds", "bytes")
    )
    return {
        "run_s": seconds["with"],
        "run_without_s": seconds["without"],
        "peak_bytes": peak["with"],
        "share_of_memory": peak["with"] / peak["without"] - 1,
    }


def main() -> int:
    """Measure all cases in turn; the exit status is 1 if one exceeds a limit."""
    for line in CASES.values():
        audited(line)  # compiles
    trials = [{name: audited(line) for name, line in CASES.items()} for _ in range(TRIALS)]
    found = {
        name: {key: median(trial[name][key] for trial in trials) for key in trials[0][name]}
        | compared(line)
        for name, line in CASES.items()
    }
    save("audits", found)
    shares = "share_of_a_minute", "share_of_memory"
    exceeded = [
        f"{name}, {key}: {values[key]:.2%}"
        for name, values in found.items()
        for key in shares
        if values[key] > LIMIT
    ]
    print("\n".join(exceeded) or f"all within {LIMIT:.0%} of a minute and of the memory")
    return bool(exceeded)


if __name__ == "__main__":
    sys.exit(main())
