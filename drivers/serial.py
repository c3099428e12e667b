"""The serial driver: all blocks in one process, in lockstep.

It needs neither MPI nor Charm4Py and takes any grid of blocks, so it is the reference engine: what
the other two drivers do in parallel, this one does in an order that can be followed with a finger.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Self

import numpy as np

from drivers.descriptor import Driver
from drivers.inbox import Inbox
from drivers.job import Job, RunError, Watcher
from drivers.outcome import Part, Report, joined
from drivers.timing import PELog, Stepper, answer_batches
from miniapps.contract import (
    REDUCTIONS,
    SETUP,
    AllReduce,
    Batch,
    Collect,
    CollectSum,
    Pause,
    Place,
    Post,
    PostSum,
    checked_messages,
)

DRIVER = Driver(
    name="serial",
    summary="all blocks in this process, one after the other",
    file="drivers.serial",
    without="nothing works",
    example="--blocks 2x2",
    one_process=True,
    one_pe=True,
    waits_alone=True,
)
PATH = "by reference", "all blocks are in one process"  # how messages that lie on a GPU travel


class Engine:
    """Blocks, their inboxes, and the requests they wait on."""

    def __init__(self, blocks: Sequence[Any], traced: bool = False) -> None:
        places = [(block.kind, tuple(block.index)) for block in blocks]
        self.steppers = {p: Stepper(b, traced) for p, b in zip(places, blocks, strict=True)}
        self.inboxes = {p: Inbox(b) for p, b in zip(places, blocks, strict=True)}
        self.requests: dict[Place, Any] = {}

    def setup(self) -> Self:
        """Run every block's setup; returns the engine, ready for the first step."""
        for place, stepper in self.steppers.items():
            self.requests[place] = stepper.set_up()
        self._finish(SETUP)
        return self

    def round(self, step: int, count: int) -> bool:
        """Advance every block ``count`` steps; True where they say that the run is finished."""
        for inbox in self.inboxes.values():
            inbox.advance(step)
        for place, stepper in self.steppers.items():
            self.requests[place] = stepper.start(count)
        self._finish(step)
        finished = {stepper.finished for stepper in self.steppers.values()}
        if len(finished) > 1:
            raise RunError(f"step {step}: some blocks say that the run is finished, others do not")
        return finished.pop()

    def _finish(self, step: int) -> None:
        """Serve all blocks until their generators have ended."""
        while any(request is not None for request in self.requests.values()):
            moved = [self._serve(place, step) for place in self.steppers]
            if not any(moved) and not self._batch() and not self._reduce():
                raise RunError(f"step {step}: every block waits: {self._waiting()}")

    def close(self, done: int) -> None:
        """Look that no message is left that nobody has collected."""
        for inbox in self.inboxes.values():
            inbox.advance(done)

    def _serve(self, place: Place, step: int) -> bool:
        """Answer a block's requests until it has to wait; True where it moved at all."""
        moved = False
        while True:
            request = self.requests[place]
            if isinstance(request, Post | PostSum):
                self._post(place, step, request)
                answer = None
            elif isinstance(request, Collect | CollectSum) and self.inboxes[place].has(request):
                answer = self.inboxes[place].take(request)
            elif isinstance(request, Pause) and not moved:  # the others had their turn since
                answer = None
            else:
                return moved
            self.requests[place] = self.steppers[place].resume(answer)
            moved = True

    def _post(self, place: Place, step: int, request: Post | PostSum) -> None:
        """Put a block's messages into its neighbours' inboxes, by reference."""
        neighbors = self.steppers[place].block.neighbors
        for edge, message in checked_messages(request).items():
            peer = neighbors[edge]
            inbox = self.inboxes[peer.place]
            if type(request) is PostSum:
                inbox.add(step, request.phase, (peer.edge,), message)
            else:
                inbox.deliver(step, request.phase, peer.edge, place, message)

    def _batch(self) -> bool:
        """Do the work that blocks want done at once; False where none does."""
        asked = {
            id(stepper): (place, stepper, self.requests[place])
            for place, stepper in self.steppers.items()
            if isinstance(self.requests[place], Batch)
        }
        for stepper, answer in answer_batches([(s, batch) for _, s, batch in asked.values()]):
            self.requests[asked[id(stepper)][0]] = stepper.resume(answer)
        return bool(asked)

    def _reduce(self) -> bool:
        """Answer an AllReduce once every block of a kind has come to it; False where none has."""
        kinds: dict[str, list[Place]] = {}
        for place in self.requests:
            kinds.setdefault(place[0], []).append(place)
        return any([self._reduce_kind(places) for places in kinds.values()])

    def _reduce_kind(self, places: list[Place]) -> bool:
        requests = [self.requests[place] for place in places]
        if not all(isinstance(request, AllReduce) for request in requests):
            return False
        if len({request.op for request in requests}) != 1:
            raise RunError(f"blocks reduce by different operations: {self._waiting()}")
        total = reduce(REDUCTIONS[requests[0].op], [request.value for request in requests])
        for place in places:
            self.requests[place] = self.steppers[place].resume(np.array(total)[()])
        return True

    def _waiting(self) -> str:
        """What each block waits for, for an error message."""
        waiting = self.requests.items()
        return "; ".join(f"{index} on {request}" for (_, index), request in waiting)[:500]


def run(job: Job, report: Report, watcher: Watcher) -> int:
    """Run a job on this process and report its outcome; returns the exit status."""
    job.take_device(0)
    jit_s = job.compile()
    engine = Engine([job.build(index) for _, index in job.layout.numbers], job.traced)
    blocks = [stepper.block for stepper in engine.steppers.values()]
    engine.setup()
    log, done = PELog(0), 0
    for start, end in job.phases():
        for block in blocks:
            block.device.synchronize()
        log.start()
        for number, (step, count) in enumerate(job.rounds(start, end)):
            watcher.beat(0, step)
            finished = engine.round(step, count)
            for place, stepper in engine.steppers.items():
                log.add(job.layout.numbers[place], number, stepper)
                job.keep_frame(0, step, step + count, stepper.block)
            done = step + count
            if finished and start == job.warmup:
                break
    engine.close(done)
    watcher.finish(0)
    if job.store is not None:
        job.store.create(blocks[0].state())
        for block in blocks:
            job.store.write(block.state())
    return report(joined(job, [Part.of(blocks, log, jit_s)], done, {}, PATH))


def fail(status: int) -> None:
    """Nothing else runs that would have to be ended."""
