"""What it would cost to hash every block between rounds, as a share of the rounds.

A bit that flips in memory between two rounds is found if each block is hashed when it ends a round
and again when it begins the next one. The cheapest hash that changes with every single bit is used
here: the exclusive or of all 64-bit words, at the speed at which memory is read. Exit status 0: the
figures say what such a check would cost; docs/verification.md says what was decided.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

import numpy as np
from common import median, save

from drivers import serial
from drivers.engine import Runner
from drivers.outcome import Outcome
from miniapps.pic.particles import NAMES
from workbench.cli import spec_of
from workbench.run.progress_file import NoProgressFile

TRIALS = 3
CASES = {
    "jacobi2d": "run jacobi2d --size 1031x997 --steps 400 --audit 0",
    "jacobi2d, in memory": "run jacobi2d --preset large --steps 64 --warmup 0 --audit 0",
    "stencil3d": "run stencil3d --size 131x127x129 --steps 200 --audit 0",
    "pic": "run pic --preset small --steps 100 --audit 0",
    "leanmd": "run leanmd --lattice 12x11x10 --steps 200 --audit 0",
}


def state_of(block: Any) -> list[np.ndarray]:
    """The arrays of a block that its next round starts from."""
    if hasattr(block, "old"):
        return [block.old]
    if hasattr(block, "atoms"):
        return [block.atoms.rows, block.atoms.force]
    count = block.particles.count
    return [getattr(block.particles, name)[:count] for name in NAMES]


def hashed(block: Any) -> int:
    """The exclusive or of the words of a block's state."""
    words = [
        values.reshape(-1).view("u8" if values.itemsize == 8 else "u4")
        for values in state_of(block)
    ]
    return int(np.bitwise_xor.reduce([np.bitwise_xor.reduce(some) for some in words]))


def share(line: str) -> dict[str, float]:
    """Seconds of the rounds of a run, and of both hashes of each."""
    job, outcomes, spent = spec_of(line.split()).job(), list[Outcome](), [0.0]
    begin, end = Runner.begin, Runner.end

    def timed(runner: Runner) -> None:
        before = perf_counter()
        hashed(runner.block)
        spent[0] += perf_counter() - before

    def begun(runner: Runner, step: int, *rest: Any) -> None:
        if step >= job.warmup:
            timed(runner)
        begin(runner, step, *rest)

    def ended(runner: Runner, *rest: Any) -> None:
        end(runner, *rest)
        if runner.stepper.step >= job.warmup:
            timed(runner)

    Runner.begin, Runner.end = begun, ended  # type: ignore[method-assign, assignment]
    try:
        serial.run(job, lambda found: outcomes.append(found) or 0, NoProgressFile())
    finally:
        Runner.begin, Runner.end = begin, end  # type: ignore[method-assign]
    (found,) = outcomes
    rounds = float(sum(found.wall_s)) - spent[0]
    return {"rounds_s": rounds, "hashes_s": spent[0], "share": spent[0] / rounds}


def main() -> int:
    """Measure all cases in turn."""
    for line in CASES.values():
        share(line)  # compiles
    trials = [{name: share(line) for name, line in CASES.items()} for _ in range(TRIALS)]
    found = {
        name: {key: median(trial[name][key] for trial in trials) for key in trials[0][name]}
        for name in CASES
    }
    save("flips", found)
    for name, values in found.items():
        print(f"{name}: {values['share']:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
