"""What a step with kernels on a GPU costs the host, over a driver without a GPU.

    python -m benchmarks.gpu.host            all cases, in about four minutes
    python -m benchmarks.gpu.host --counts   what the driver counted in few rounds, printed as JSON
    python -m benchmarks.gpu.host --costs benchmarks/results/gpu_calls.json   a forecast for a GPU

Apps run under the serial driver. numba-cuda and CUDA's bindings are the real ones, NVIDIA's driver
and CuPy are those of tests/gpu/stub, in which a call costs next to nothing. The time of a round is
the host's: what Python spends to launch kernels, to record events (marks), to copy, and in the app
and the driver. While kernels take less than that, the GPU waits for the host. Times are medians
over rounds after a warm-up, and of three turns. Each case has a process of its own, because
LeanMD by pairs took 1.5 times as long in one that had measured other cases before.

In the timed rounds kernels do nothing, as emulating them on the CPU would drive the host's program
out of the caches. What the host copies from the device then comes from the same rounds of an
earlier run, in which they were emulated. Calls and arrays are averages per round, and need no quiet
machine.

With `--costs` calls take as long as `calls.py` has measured on a GPU: the host spends that time in
each call, and waits for kernels and copies where it would. That is a forecast of the time per block
and round there, with the Python of this machine. Kernels take as long as one of a single warp.

Needs a C compiler and the extra gpu-check. Exit status: 0, or 2 if something is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from unittest import mock

from benchmarks.common import ROOT, table, write
from benchmarks.gpu import costs
from miniapps.drivers.descriptor import importable

SHOWN = "launches", "marks", "waits", "copies", "synchronizations", "arrays"
TURNS = 3
FEW, FIRST = 2, 8  # rounds where only calls are counted, and before: then all launches came once
NEEDED = "cuda.bindings", "numba_cuda", "cuda.core"
PREPARED: Counter[str] = Counter()  # launches, by kernel


class Case(NamedTuple):
    """What is run, for how many rounds after how many of warm-up, and what a round may take."""

    words: str
    rounds: int
    warmup: int
    most_us: int


GRID = "--initial noise --boundary periodic --time-tile 1"
ATOMS = "leanmd --lattice 6x6x6 --density 0.8 --thermo 100000"
SLOW = "--dt 1e-5 --rebuild 100000"  # no atom uses up the skin, so no lists are built
PAIRS = (
    "leanmd --decomposition pairs --cells 3x3x3 --per-cell 4 --cutoff 1.3 --skin 0.4 "
    "--thermo 100000"
)
SOLVED = "cg --size 8x8x8 --solution noise"
REFINED = "--refinement 8x8 --level 1 --period 2 --duration 1"  # one life in two steps
CASES = {
    "jacobi2d": Case("jacobi2d --size 32x32 --time-tile 1", 3000, 50, 60),
    "jacobi2d, periodic": Case(f"jacobi2d --size 32x32 {GRID}", 3000, 50, 60),
    "stencil3d, periodic": Case(f"stencil3d --size 8x8x8 {GRID}", 3000, 50, 60),
    "jacobi2d, 8 blocks": Case("jacobi2d --size 64x32 --time-tile 1 --pe-grid 8x1", 400, 50, 240),
    "stencil3d, 8 blocks": Case(f"stencil3d --size 16x8x8 {GRID} --pe-grid 4x2x1", 400, 50, 300),
    "pic": Case("pic --size 32 --particles 200", 3000, 50, 90),
    "pic, 8 blocks": Case("pic --size 200 --particles 8000 --pe-grid 4x2", 100, 20, 1000),
    "leanmd": Case(f"{ATOMS} {SLOW}", 100, 10, 300),
    "leanmd, new lists": Case(f"{ATOMS} --rebuild 1", 40, 5, 2000),
    "leanmd by pairs, 27 cells": Case(f"{PAIRS} {SLOW}", 20, 3, 20000),
    "leanmd by pairs, new lists": Case(f"{PAIRS} --rebuild 1", 5, 2, 400000),
    "cg": Case(SOLVED, 30, 5, 500),
    "cg, sgs, 8 blocks": Case(f"{SOLVED} --preconditioner sgs --pe-grid 2x2x2", 30, 5, 10000),
    "transpose": Case("transpose --size 32", 3000, 50, 60),
    "transpose, 8 blocks": Case("transpose --size 64 --pe-grid 8x1", 100, 20, 2000),
    "amr": Case(f"amr --size 32x32 {REFINED}", 100, 8, 500),
    "amr, 8 blocks": Case(f"amr --size 64x32 {REFINED} --pe-grid 4x2", 100, 8, 2000),
}


class Rounds:
    """The rounds of a case."""

    def __init__(self, case: Case, computes: bool) -> None:
        from miniapps.devices import backend
        from miniapps.drivers.engine import Engine
        from miniapps.drivers.lives import Lives
        from miniapps.drivers.timing import PELog
        from miniapps.workbench.cli import spec_of

        steps = case.rounds + case.warmup
        words = ["run", *case.words.split(), "--device", "gpu", "--steps", str(steps)]
        self.job = spec_of([*words, "--warmup", "0", "--audit", "0"]).job()
        self.job.take_device(0)
        self.toolkit: Any = backend.OPENED.get("gpu").toolkit  # type: ignore[attr-defined]
        self.toolkit.computes = computes
        self.job.compile()
        blocks, lives = self.job.lasting_blocks(), Lives.of(self.job, self.job.layout.numbers)
        self.engine, self.log = Engine(blocks, lives=lives).setup(), PELog(0)
        self.blocks = len(self.engine.runners)  # that are there in all rounds
        self.log.start()
        self.number = 0

    def host_s(self) -> float:
        """Make a round; the host's seconds in it."""
        before = perf_counter()
        self.engine.round(self.number, 1)
        for place, runner in self.engine.runners.items():
            self.log.add(self.job.layout.numbers[place], self.number, runner.stepper)
        self.number += 1
        self.engine.drop_before(self.number)
        return perf_counter() - before


def counted() -> dict[str, int]:
    """The driver's calls, its delays, and the arrays of this process so far."""
    import cupy
    import gpu_stub

    arrays = {"arrays": cupy.made.total(), "prepared": PREPARED.total()}
    delays = gpu_stub.calls(gpu_stub.TIMES) if gpu_stub.COSTS in os.environ else {}
    return gpu_stub.calls() | arrays | delays


def measured(case: Case) -> dict[str, float]:
    """Microseconds, calls and arrays per round, blocks, and nanoseconds of delays per round.

    Raises RuntimeError.
    """
    from miniapps.devices.cuda.driver import DeviceArray, Launcher
    from miniapps.drivers import garbage

    prepare = Launcher.prepared

    def prepared(launcher: Any, *arguments: Any) -> Any:
        PREPARED[launcher.name] += 1
        return prepare(launcher, *arguments)

    copy, copied = DeviceArray.copy_to_host, []

    def keep(array: Any, host: Any, stream: Any) -> None:
        copy(array, host, stream)
        copied.append(host.copy())

    def give(array: Any, host: Any, stream: Any) -> None:
        copy(array, host, stream)
        host[...] = next(again)

    with mock.patch.object(DeviceArray, "copy_to_host", keep):
        rounds = Rounds(case, True)
        for _ in range(case.warmup + case.rounds):
            rounds.host_s()
    again = iter(copied)
    counts = mock.patch.object(Launcher, "prepared", prepared)
    with mock.patch.object(DeviceArray, "copy_to_host", give), counts:
        rounds = Rounds(case, False)
        for _ in range(case.warmup):
            rounds.host_s()
        before = counted()
        with garbage.rare():  # as in runs
            seconds = [rounds.host_s() for _ in range(case.rounds)]
        after = counted()
    if next(again, None) is not None:
        raise RuntimeError("the two runs have not made the same copies")
    found = {name: round((after[name] - before[name]) / case.rounds, 2) for name in after}
    return {"us": round(1e6 * statistics.median(seconds), 1), "blocks": rounds.blocks} | found


def few(case: Case) -> Case:
    """The case with as many rounds as are needed to count calls."""
    return case._replace(rounds=FEW, warmup=FIRST)


def missing() -> str | None:
    """What the measurement needs and this machine lacks."""
    absent = [name for name in NEEDED if not importable(name)]
    if absent:
        return f"{absent[0]} is not installed; pip install -e '.[gpu-check]'"
    return None if shutil.which("cc") else "no C compiler, cc, was found"


def with_stub(folder: Path, delays: str) -> dict[str, str]:
    """The environment of processes that use the stub driver, with these delays."""
    import gpu_stub

    gpu_stub.compile_driver(folder)
    found = gpu_stub.environment(folder)
    found["PYTHONPATH"] = f"{ROOT}:{found['PYTHONPATH']}"
    if delays:
        found[gpu_stub.COSTS] = str(folder / "delays")
        (folder / "delays").write_text(delays)
    return os.environ | found


def in_process(words: list[str], environment: dict[str, str]) -> dict[str, dict[str, float]]:
    """The results of this script in a process of its own."""
    command = [sys.executable, __file__, "--measure", *words]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def table_of(results: dict[str, dict[str, float]]) -> str:
    """The results as a Markdown table."""
    heads = "launches", "event records", "stream waits", "copies", "host waits", "allocations"
    rows = []
    for name, case in results.items():
        calls = [f"{case[call]:g}" for call in SHOWN]
        rows.append([name, f"{case['us']:.0f}", str(CASES[name].most_us), *calls])
    return table(["case", "µs per step", "target", *heads], rows)


def forecast(results: dict[str, dict[str, float]]) -> str:
    """What a block and round will take on the GPU whose costs were given, as a Markdown table."""
    rows = []
    for name, case in results.items():
        parts = case["us"], case["spent_ns"] / 1e3, case["waited_ns"] / 1e3
        rows.append([name, *(f"{us / case['blocks']:.1f}" for us in parts)])
    return table(["case", "µs per block and round", "in calls", "waiting for the GPU"], rows)


def main() -> int:
    """Measure, print a table, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", action="store_true", help="count calls only; print JSON")
    parser.add_argument("--costs", type=Path, help="results of calls.py: print a forecast")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("case", nargs="*", choices=[[], *CASES], help="default: all; prints JSON")
    options = parser.parse_args()
    names = options.case or list(CASES)
    if options.measure:
        cases = {name: few(CASES[name]) if options.counts else CASES[name] for name in names}
        turns = range(1 if options.counts else TURNS)
        found = [{name: measured(case) for name, case in cases.items()} for _ in turns]
        for name, result in found[0].items():
            result["us"] = statistics.median(turn[name]["us"] for turn in found)
        print(json.dumps(found[0]))
        return 0
    why = missing()
    if why is not None:
        print(why, file=sys.stderr)
        return 2
    sys.path.append(str(ROOT / "tests"))
    try:
        delays = costs.as_text(costs.delays(costs.read(options.costs))) if options.costs else ""
    except (OSError, ValueError, KeyError) as error:
        print(f"--costs {options.costs}: {error!r}; give results of calls.py", file=sys.stderr)
        return 2
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = with_stub(Path(folder), delays)
        # In a process each, if they are timed: what large cases leave makes later ones slower.
        for words in [["--counts", *names]] if options.counts else [[name] for name in names]:
            results |= in_process(words, environment)
    if options.counts or options.case:
        print(json.dumps(results, indent=1))
        return 0
    if delays:
        print(forecast(results))
        return 0
    write("gpu_host", results)
    print(table_of(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
