"""The charm driver: one chare per block, several per PE, moved by the runtime's load balancers.

Between chares of one PE a message is put into the other's inbox by a plain call, array and all by
reference, and an empty message wakes a chare whose Collect has become complete; to another PE it
goes through the other chare's entry method. So every block computes inside a message addressed to
its own chare, which is what Charm++ measures as the chare's load. There are no coroutines: a
coroutine's stack would not migrate. docs/messages.md has the measurements behind these choices.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
from charm4py import Array, Chare, Future, Group, Reducer, charm

from drivers.balancers import summary
from drivers.charm_pe import FAILED, PE, BlockMap, fail
from drivers.inbox import Inbox
from drivers.job import Job, RunError, Watcher
from drivers.outcome import Outcome, Report, joined
from drivers.timing import Stepper
from miniapps.block import AllReduce, Collect, Post, checked_message

__all__ = ["fail", "run"]

EMPTY = (pickle.dumps(({}, [])), None)  # a message without arguments, packed once


class BlockChare(Chare):
    """Runs one block; block and inbox travel with it when it migrates, between steps."""

    def __init__(self, job: Job, pes: Any) -> None:
        self.job, self.pes = job, pes
        with self.pe.guard():
            self.block = job.build(self.thisIndex)
        self.number = job.layout.number(self.thisIndex)
        self.stepper, self.inbox = Stepper(self.block), Inbox(self.block)
        self.proxies = {p.block: self.thisProxy[p.block] for p in self.block.neighbors.values()}
        self.home = charm.myPe()
        self.collect: Collect | None = None
        self.answer: Any = None
        self.step = self.end = self.at = 0  # next step, end of the phase, number of the round

    def start(self, first: int, end: int, done: Future) -> None:
        """Make the steps from ``first`` to ``end``. A broadcast's time is nobody's: only wake."""
        self.step, self.end, self.at = first, end, 0
        self.timed, self.done = first == self.job.warmup, done
        self.wake_up()

    def deliver(
        self, step: int, phase: str, sender: Any, edges: tuple[Any, ...], *arrays: np.ndarray
    ) -> None:
        """Take in all messages of one block of another PE in this step and phase."""
        with self.pe.guard():
            came = [
                self.put(step, phase, edge, sender, array)
                for edge, array in zip(edges, arrays, strict=True)
            ]
            if any(came):
                self.resume()

    def reduced(self, total: Any) -> None:
        """Take in the result of an AllReduce: one object for all chares of a PE, so copy it.

        The runtime makes a number of an array with one element; the shape undoes that.
        """
        self.answer = np.array(total).reshape(self.reduced_shape)[()]
        self.wake_up()

    def resumeFromSync(self) -> None:  # noqa: N802 - the runtime's name
        """Go on after a balancing, perhaps on another PE."""
        moved, self.home = self.home != charm.myPe(), charm.myPe()
        self.pe.note_resume(self.step, moved)
        self.resume()

    @property
    def pe(self) -> PE:
        """The PE on which the block lives now."""
        return charm.groups[self.pes.gid]

    def wake_up(self) -> None:
        """Send this chare a message that resumes it."""
        proxy = self.thisProxy
        charm.CkArraySend(proxy.aid, self.thisIndex, proxy.resume.ep, EMPTY)

    def put(self, step: int, phase: str, edge: Any, sender: Any, array: np.ndarray) -> bool:
        """Keep a message; True if it was the last one that the block was waiting for."""
        self.inbox.deliver(step, phase, edge, sender, array)
        if self.collect is None or not self.inbox.has(self.collect):
            return False
        self.answer, self.collect = self.inbox.take(self.collect), None
        return True

    def post(self, request: Post) -> None:
        """Send a block's messages."""
        step, here = self.inbox.step, charm.arrays[self.thisProxy.aid]
        away: dict[Any, list[tuple[Any, np.ndarray]]] = {}
        for edge, array in request.messages.items():
            peer = self.block.neighbors[edge]
            message = checked_message(edge, array)
            chare = here.get(peer.block)
            if chare is None:
                away.setdefault(peer.block, []).append((peer.edge, message))
            elif chare.put(step, request.phase, peer.edge, self.thisIndex, message):
                chare.wake_up()
        for block, messages in away.items():
            edges, arrays = zip(*messages, strict=True)
            self.proxies[block].deliver(step, request.phase, self.thisIndex, edges, *arrays)

    def resume(self) -> None:
        """Go on with the block until it has to wait or its round ends; then others go first."""
        with self.pe.guard():
            if self.step == self.end:
                self.end_phase()
                return
            answer, self.answer = self.answer, None
            before, count = self.step, self.job.count(self.step, self.end)
            if not self.run_round(count, answer):
                return
            self.pe.log.add(self.number, self.at, self.stepper)
            self.step, self.at = before + count, self.at + 1
            if self.stepper.finished and self.timed:
                self.end = self.step
            if self.balancing_due(before):
                self.pe.note_sync(self.step)
                self.AtSync()
            else:
                self.wake_up()  # behind the others that are ready, for one may be waited for

    def end_phase(self) -> None:
        """Say that the block has made its steps."""
        if self.timed:
            self.inbox.advance(self.step)  # raises where messages are left
        self.contribute(self.step, Reducer.max, self.done)

    def run_round(self, count: int, answer: Any) -> bool:
        """Begin the round that is due, or go on with it; False where the block has to wait."""
        if self.stepper.generator is None:
            self.pe.watcher.beat(charm.myPe(), self.step)
            self.inbox.advance(self.step)
            request = self.stepper.start(count)
        else:
            request = self.stepper.resume(answer)
        while request is not None:
            if isinstance(request, Post):
                self.post(request)
                request = self.stepper.resume(None)
            elif isinstance(request, Collect) and self.inbox.has(request):
                request = self.stepper.resume(self.inbox.take(request))
            else:
                self.hold(request)
                return False
        return True

    def hold(self, request: Any) -> None:
        """Leave a request to be answered when the others have come as far."""
        if isinstance(request, Collect):
            self.collect = request
        elif isinstance(request, AllReduce):
            self.reduced_shape = np.shape(request.value)
            self.reduce(self.thisProxy.reduced, request.value, getattr(Reducer, request.op))
        else:
            raise TypeError(f"block {self.thisIndex} yielded {request!r}, which is no request")

    def balancing_due(self, before: int) -> bool:
        """Whether a multiple of the period was reached, in the timed phase and not at its end."""
        period = self.job.lb_period if self.timed and self.step < self.end else 0
        return bool(period) and before // period < self.step // period


def run(job: Job, report: Report, watcher: Watcher) -> int:
    """Run a job on all PEs; PE 0 reports the outcome. Ends the process with the exit status."""

    def main(_: list[str]) -> None:
        try:
            status = report(_conduct(job, watcher))
        except Exception as error:
            watcher.fail(error)
            status = FAILED
        charm.exit(status)

    charm.start(main, modules=["drivers.charm_pe", "drivers.charm"])
    return 0


def _conduct(job: Job, watcher: Watcher) -> Outcome:
    """On PE 0: create the chares, run warm-up and timed steps, and gather what was measured."""
    layout = job.layout
    if charm.numPes() != layout.pes:
        raise RunError(f"asked for {layout.pes} PEs, started on {charm.numPes()}")
    pes = Group(PE, args=[job, watcher])
    place = Group(BlockMap, args=[layout])
    blocks = Array(BlockChare, layout.grid, args=[job, pes], map=place, useAtSync=True)
    charm.awaitCreation(pes, blocks)
    charm.thisProxy.LBTurnInstrumentOff(awaitable=True).get()
    _advance(blocks, 0, job.warmup)
    charm.thisProxy.LBTurnInstrumentOn(awaitable=True).get()
    pes.start_log(awaitable=True).get()
    done = _advance(blocks, job.warmup, job.warmup + job.steps)
    made = False
    for pe in range(layout.pes if job.store else 0):
        made = pes[pe].store(blocks, job.store, made, ret=True).get()
    parts, synced = zip(
        *[pes[pe].part(blocks, ret=True).get() for pe in range(layout.pes)], strict=True
    )
    balancing = partial(summary, job, done, synced)
    return joined(job, parts, done, {"charm": "netlrts"}, balancing)


def _advance(blocks: Any, first: int, end: int) -> int:
    """Make all blocks take their steps from ``first`` to ``end``; returns how far they came."""
    done = Future()
    blocks.start(first, end, done)
    return int(done.get())
