"""Bits that flip in memory between two rounds: which runs notice, and what finding all would cost.

In each of 25 runs of each app, one random bit of a block's state flips before a random round; such
a run has a process of its own, because a wrong index may end it. Besides, the cost of a check that
finds all these flips: a hash of each block when it ends a round, and again when it begins the next
one. The cheapest hash that changes with every bit is used: the exclusive or of all words, at the
speed at which memory is read. docs/verification.md says what was decided.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from multiprocessing import Pipe, Process
from random import Random
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common import median, save
from miniapps.drivers import serial
from miniapps.drivers.engine import Runner
from miniapps.drivers.outcome import Outcome
from miniapps.pic.particles import NAMES
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run.progress_file import NoProgressFile
from miniapps.workbench.run.record import build

TRIALS, FLIPS = 3, 25
CASES = {
    "jacobi2d": "run jacobi2d --size 1031x997 --steps 200 --audit 0",
    "stencil3d": "run stencil3d --size 131x127x129 --steps 60 --audit 0",
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


def flip(block: Any, random: Random) -> None:
    """Flip one bit of a block's state."""
    arrays = state_of(block)
    some = random.choices(arrays, [values.nbytes for values in arrays])[0]
    place = tuple(map(random.randrange, some.shape))
    word = some[place].reshape(1).view(np.uint64 if some.itemsize == 8 else np.uint32)
    some[place] = (word ^ word.dtype.type(1 << random.randrange(8 * some.itemsize))).view(
        some.dtype
    )[0]


def solve(line: str, seed: int | None) -> tuple[bool, str]:
    """Make a run, with a flip unless there is no seed; whether it is valid, and its state hash."""
    spec, outcomes = spec_of(line.split()), list[Outcome]()
    job, begin = spec.job(), Runner.begin
    random = Random(seed)
    when = random.randrange(job.warmup + 1, job.warmup + job.steps)

    def begun(runner: Runner, step: int, count: int, *rest: Any) -> None:
        nonlocal when
        if seed is not None and step >= when:
            flip(runner.block, random)
            when = job.warmup + job.steps
        begin(runner, step, count, *rest)

    Runner.begin = begun  # type: ignore[method-assign]
    serial.run(job, lambda found: outcomes.append(found) or 0, NoProgressFile())
    record = build(spec, outcomes[0], 0.0)
    return record["valid"], record["state_hash"]


def in_process(line: str, seed: int | None) -> tuple[bool, str] | None:
    """The same, in a process of its own; None if it ends without a result."""
    read, write = Pipe(duplex=False)

    def work() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        write.send(solve(line, seed))

    process = Process(target=work)
    process.start()
    write.close()
    try:
        return read.recv()
    except EOFError:
        return None
    finally:
        process.join()


def flipped(line: str) -> Counter[str]:
    """How many runs with a flip ended in which way."""
    line = line.replace(" --audit 0", "")
    right = in_process(line, None)
    assert right is not None and right[0]
    found = Counter[str]()
    for seed in range(FLIPS):
        made = in_process(line, seed)
        if made is None:
            found["ended by an error"] += 1
        elif not made[0]:
            found["not valid"] += 1
        else:
            found["without effect" if made == right else "not noticed"] += 1
    return found


def main() -> int:
    """Measure all cases in turn."""
    for line in CASES.values():
        share(line)  # compiles
    trials = [{name: share(line) for name, line in CASES.items()} for _ in range(TRIALS)]
    costs = {
        name: {key: median(trial[name][key] for trial in trials) for key in trials[0][name]}
        for name in CASES
    }
    found = {name: {"flips": flipped(line)} | costs[name] for name, line in CASES.items()}
    save("flips", found)
    for name, values in found.items():
        print(f"{name}: {dict(values['flips'])}, a hash of each block {values['share']:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
