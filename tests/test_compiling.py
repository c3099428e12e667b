"""Compiling kernels is no part of a step, of a measured load, or of what a balancer sees.

A kernel that is compiled, or read from Numba's cache, in a block's first step makes that step, and
the load of that block, thousands of times too long.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import support

from miniapps.workbench.show.saved import SavedRun

pytestmark = pytest.mark.launch

# From the time when a process has built its first block, until it has made all steps, it may
# neither compile nor load a kernel.
WATCHED = """
from miniapps.drivers import job
from miniapps.drivers.job import Job
from miniapps.drivers.outcome import Part

watching, build, part = [False], Job.build, Part.of.__func__


def watched_build(self, index):
    block = build(self, index)
    from numba.core.dispatcher import Dispatcher

    compile = Dispatcher.compile

    def watched(self, signature):
        if watching[0]:
            raise RuntimeError(f"{self.py_func.__name__} is compiled in a step")
        return compile(self, signature)

    if "watched" not in compile.__qualname__:
        Dispatcher.compile = watched
    watching[0] = True
    return block


def unwatched_part(cls, *arguments):
    watching[0] = False
    return part(cls, *arguments)


Job.build, Part.of = watched_build, classmethod(unwatched_part)
"""
LATE = "Job.compile = lambda self: 0.0  # so a kernel is compiled when a block first uses it"
DRIVERS = {
    "serial": "",
    "mpi": "-n 2",
    "file": "-n 2",
    "charm": "-n 2 --odf 2 --balancer Rotate --lb-period 2",
}
# The best tile is given: where it is not known yet, the launcher measures it with the kernels.
STENCIL = "jacobi2d --size 17x11 --initial noise --time-tile 2 --warmup 0 --steps 5"
LAUNCHED = [f"{STENCIL} --driver {driver} {words}" for driver, words in DRIVERS.items()]
OTHERS = [
    "jacobi2d --preset minimal --dtype float32",
    "stencil3d --preset tiny --time-tile 1 --imbalance paper",
    "stencil3d --preset tiny --time-tile 3 --dtype float32",
    "pic --preset tiny",
    "leanmd --preset tiny",
    "leanmd --preset tiny --dtype float32",
    "echo --preset tiny",
]


@pytest.mark.slow
def test_no_step_compiles(tmp_path: Path) -> None:
    """Catches a kernel without a signature, and a driver that does not compile before it builds."""
    environment = support.in_every_process(tmp_path, WATCHED)
    records = support.records_of([*LAUNCHED, *OTHERS], 240, environment)
    assert [record.get("failed") for record in records] == [None] * len(records)
    assert all(record["valid"] and record["jit_s"] >= 0 for record in records)


@pytest.mark.slow
def test_a_driver_that_compiles_late_is_found(tmp_path: Path) -> None:
    """Catches a test that does not look: here kernels are compiled in the first step."""
    environment = support.in_every_process(tmp_path, f"{WATCHED}\n{LATE}\n")
    records = support.records_of(LAUNCHED, 120, environment)
    reasons = [record.get("failed", "valid") for record in records]
    assert all("compiled in a step" in reason for reason in reasons), reasons


# PE 0 compiles for a second longer than PE 1, and then all blocks have the same load.
SLOW_START = """
import time
from miniapps.drivers.job import Job

compile = Job.compile


def slow(self):
    from charm4py import charm

    seconds = compile(self)
    end = time.perf_counter() + (1.0 if charm.myPe() == 0 else 0.0)
    while time.perf_counter() < end:
        pass
    return seconds


Job.compile = slow
"""


@pytest.mark.slow
def test_balancers_see_all_timed_steps_and_nothing_else(tmp_path: Path) -> None:
    """Catches a balancer that takes compiling or warm-up for load, or sees no load at first."""
    environment = support.in_every_process(tmp_path, SLOW_START)
    balanced = "--driver charm -n 2 --odf 4 --balancer Greedy --lb-period 25"
    run = f"jacobi2d --size 512x512 --time-tile 1 --warmup 20 --steps 20 {balanced}"
    (record,) = support.records_of([f"{run} --output {tmp_path}/run.h5"], 120, environment)
    assert [entry["step"] for entry in record["lb"]] == [25]
    saved = SavedRun.read(tmp_path / "run.h5")
    assert saved.loads is not None
    for pe in (0, 1):
        rows = saved.rows[(saved.rows["pe"] == pe) & (saved.rows["round"] < 5)]
        load_s = saved.loads["load_s"][saved.loads["pe"] == pe].sum()
        assert 0.5 * rows["compute_s"].sum() < load_s < 1.5 * rows["end_s"].max()
