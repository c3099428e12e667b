"""A process that runs students' blocks by the sim driver, one case after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from miniapps import lessons
from miniapps.contract import Place
from miniapps.devices import backend
from miniapps.drivers.engine import Phase
from miniapps.drivers.job import RunError, Watcher
from miniapps.drivers.orders import RandomOrder
from miniapps.drivers.schedule import Event
from miniapps.drivers.sim.driver import simulated
from miniapps.lessons.lesson import PARTS, Traffic, load_function
from miniapps.lessons.work import Report, Work, in_turn

PES = 2  # among which blocks migrate
MOST_STEPS = 100  # after which a program that does not end is stopped


class Sent:
    """Counts the messages of each block by receiver."""

    def __init__(self, blocks: int) -> None:
        self.by_block: list[Counter[int]] = [Counter() for _ in range(blocks)]

    def posted(self, event: Event, sender: Place, message: Any) -> None:
        """Count a message to the block at ``event[3]``."""
        self.by_block[sender[1][0]][event[3][1][0]] += 1

    def answered(self, runner: Any, request: Any, answer: Any) -> None:
        """Do nothing: every message was counted when it was sent."""


def take_part(works: Sequence[Work], watcher: Watcher, report: Report) -> None:
    """Run all programs of a launch. Raises what a program raises."""
    backend.open_backend("cpu")
    in_turn(works, watcher, report, run)


def run(work: Work) -> list[Any]:
    """Run a program in a case, in a random order; returns what its blocks have to report."""
    lesson, count = lessons.load(work.lesson), work.case.processes
    make = load_function(work.program, lesson.function[work.runtime])
    blocks = [make(rank, *work.take(rank)) for rank in range(count)]
    for block in blocks:
        block.device = backend.get("cpu")
    engine = simulated(blocks, RandomOrder(count), PES)
    sent = engine.transport.observer = Sent(count)
    done = engine.play(Phase(0, MOST_STEPS, lambda step: 1))
    if done == MOST_STEPS:
        raise RunError(f"step did not return True in {done} steps, so there is no last one")
    engine.close(done)
    part = PARTS[work.runtime]
    return [
        work.keep(rank, block.result(), Traffic(dict(sent.by_block[rank]), part=part))
        for rank, block in enumerate(engine.blocks)
    ]
