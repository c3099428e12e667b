"""The serial driver: all blocks in one process, resumed in turn, always in the same order.

It needs neither MPI nor Charm4Py and accepts any grid of blocks. Tests compare the other drivers
with it.
"""

from __future__ import annotations

from collections.abc import Callable

from miniapps.drivers import outcome
from miniapps.drivers.audits import Auditor
from miniapps.drivers.descriptor import Driver
from miniapps.drivers.engine import Engine, run_phases, write_state
from miniapps.drivers.job import Job, Watcher
from miniapps.drivers.lives import Lives
from miniapps.drivers.outcome import Part, Report

DRIVER = Driver(
    name="serial",
    summary="all blocks in this process, one after the other",
    file="miniapps.drivers.serial",
    without="nothing works",
    example="--pe-grid 2x2",
    one_process=True,
    one_pe=True,
    waits_alone=True,
)
PATH = "by reference", "all blocks are in one process"  # how messages that lie on a GPU travel


def run(job: Job, report: Report, watcher: Watcher) -> int:
    """Run a job on this process and report its outcome; returns the exit status."""
    return run_by(Engine, job, report, watcher)


def run_by(make: Callable[..., Engine], job: Job, report: Report, watcher: Watcher) -> int:
    """Do what `run` does, by the engine that ``make`` returns."""
    job.take_device(0)
    jit_s = job.compile()
    lives = Lives.of(job, job.layout.numbers)
    engine = make(job.lasting_blocks(), job.traced, auditor=Auditor.of(job), lives=lives)
    log, end = run_phases(job, engine, 0, watcher)
    if job.store is not None:
        write_state(job.store, engine.blocks, False)
    return report(
        outcome.joined(job, [Part.of(job, engine.places.values(), log, jit_s)], end, {}, PATH)
    )


def fail(status: int) -> None:
    """Do nothing: the run has no other processes."""
