"""Bits that flip in memory between two rounds: which runs notice, and what finding all would cost.

In each of 25 runs of each app, one random bit of a block's state flips before a random round; such
a run has a process of its own, because a wrong index may end it. Besides, the cost of a check that
finds all these flips: a hash of each block when it ends a round, and again when it begins the next
one. The cheapest hash that changes with every bit is used: the exclusive or of all words, at the
speed at which memory is read. docs/verification.md says what was decided.

    python -m benchmarks.resilience.flips [CASE ...]

Results of other cases stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from time import process_time
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.common import earlier, median, save
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
    "cg": "run cg --size 31x29x27 --solution noise --steps 50 --audit 0",
    "cg sgs": "run cg --size 31x29x27 --solution noise --preconditioner sgs --steps 30 --audit 0",
    "cg pipelined": "run cg --size 31x29x27 --solution noise --pipelined --steps 50 --audit 0",
    "transpose": "run transpose --size 1031 --steps 20 --audit 0",
    "transpose fft": "run transpose --fft --size 31x32x27 --steps 40 --audit 0",
    "amr": "run amr --size 201x190 --refinement 40x39 --steps 80 --audit 0",
}
HELD = ("old",), ("a", "b"), ("lines",), ("values", "sums")  # names of arrays of a block


def state_of(block: Any) -> list[np.ndarray]:
    """The arrays of a block that its next round starts from."""
    for names in HELD:
        if hasattr(block, names[0]):
            return [getattr(block, name) for name in names]
    if hasattr(block, "atoms"):
        return [block.atoms.rows, block.atoms.force]
    if hasattr(block, "vectors"):  # all but the product of a matrix and a vector, if it is scratch
        scratch = set() if "s" in block.vectors else {"q"}
        return [vector for name, vector in block.vectors.items() if name not in scratch]
    count = block.particles.count
    return [getattr(block.particles, name)[:count] for name in NAMES]


def hashed(block: Any) -> int:
    """The exclusive or of the words of a block's state."""
    words = [
        values.reshape(-1).view("u8" if values.itemsize % 8 == 0 else "u4")
        for values in state_of(block)
    ]
    return int(np.bitwise_xor.reduce([np.bitwise_xor.reduce(some) for some in words]))


def share(line: str) -> dict[str, float]:
    """Seconds of a core that the rounds of a run take, and both hashes of each."""
    job, ends, spent = spec_of(line.split()).job(), list[float](), [0.0]
    begin, end = Runner.begin, Runner.end

    def timed(runner: Runner) -> None:
        before = process_time()
        hashed(runner.block)
        ends.append(process_time())
        spent[0] += ends[-1] - before

    def begun(runner: Runner, step: int, *rest: Any) -> None:
        if step >= job.warmup:
            if not ends:
                ends.append(process_time())
            timed(runner)
        begin(runner, step, *rest)

    def ended(runner: Runner, *rest: Any) -> None:
        end(runner, *rest)
        if runner.stepper.step >= job.warmup:
            timed(runner)

    with mock.patch.multiple(Runner, begin=begun, end=ended):
        serial.run(job, lambda found: 0, NoProgressFile())
    rounds = ends[-1] - ends[0] - spent[0]
    return {"rounds_s": rounds, "hashes_s": spent[0], "share": spent[0] / rounds}


def flip(block: Any, random: Random) -> None:
    """Flip one bit of a block's state."""
    arrays = state_of(block)
    some = random.choices(arrays, [values.nbytes for values in arrays])[0]
    some = some.view(np.uint32 if some.itemsize == 4 else np.uint64)
    place = tuple(map(random.randrange, some.shape))
    some[place] ^= some.dtype.type(1 << random.randrange(8 * some.itemsize))


def solve(line: str, seed: int | None) -> tuple[bool, str]:
    """Make a run, with a flip unless there is no seed; whether it is valid, and its state hash."""
    spec, outcomes = spec_of(line.split()), list[Outcome]()
    job, begin = spec.job(), Runner.begin
    random = Random(seed)
    when = random.randrange(job.warmup + 1, job.warmup + job.steps)
    others = (seed or 0) % len(job.problem.kinds_at(when) or "-")  # blocks that begin it before

    def begun(runner: Runner, step: int, count: int, *rest: Any) -> None:
        nonlocal when, others
        if seed is not None and step >= when:
            if others == 0:
                flip(runner.block, random)
                when = job.warmup + job.steps
            others -= 1
        begin(runner, step, count, *rest)

    Runner.begin = begun  # type: ignore[method-assign]
    serial.run(job, lambda found: outcomes.append(found) or 0, NoProgressFile())
    record = build(spec, outcomes[0], 0.0)
    return record["valid"], record["state_hash"]


def in_process(line: str, seed: int | None) -> tuple[bool, str] | None:
    """The same, in a process of its own; None if it ends without a result."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        try:
            return pool.submit(solve, line, seed).result()
        except Exception:  # what the run has raised, or that its process has ended
            return None


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
    """Measure all cases in turn, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[*CASES], metavar="CASE")
    cases = {name: CASES[name] for name in parser.parse_args().cases}
    for line in cases.values():
        share(line)  # compiles
    trials = [{name: share(line) for name, line in cases.items()} for _ in range(TRIALS)]
    costs = {
        name: {key: median(trial[name][key] for trial in trials) for key in trials[0][name]}
        for name in cases
    }
    found: dict[str, Any] = {
        name: {"flips": flipped(line)} | costs[name] for name, line in cases.items()
    }
    save("flips", earlier("flips") | found)
    for name, values in found.items():
        print(f"{name}: {dict(values['flips'])}, a hash of each block {values['share']:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
