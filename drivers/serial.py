"""The serial driver: all blocks in one process, in lockstep.

It needs neither MPI nor Charm4Py and takes any grid of blocks, so it is the reference engine: what
the other two drivers do in parallel, this one does in an order that can be followed with a finger.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from drivers.inbox import Inbox
from drivers.job import Job, RunError, Watcher
from drivers.outcome import Part, Report, joined
from drivers.timing import PELog, Stepper
from miniapps.block import REDUCTIONS, AllReduce, Collect, Post, checked_message


class Engine:
    """Blocks, their inboxes, and the requests they wait on."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        self.steppers = {tuple(block.index): Stepper(block) for block in blocks}
        self.inboxes = {tuple(block.index): Inbox(block) for block in blocks}
        self.requests: dict[tuple[int, ...], Any] = {}

    def round(self, step: int, count: int) -> bool:
        """Advance every block ``count`` steps; True where they say that the run is finished."""
        for inbox in self.inboxes.values():
            inbox.advance(step)
        for index, stepper in self.steppers.items():
            self.requests[index] = stepper.start(count)
        while any(request is not None for request in self.requests.values()):
            moved = [self._serve(index, step) for index in self.steppers]
            if not any(moved) and not self._reduce():
                raise RunError(f"step {step}: every block waits: {self._waiting()}")
        finished = {stepper.finished for stepper in self.steppers.values()}
        if len(finished) > 1:
            raise RunError(f"step {step}: some blocks say that the run is finished, others do not")
        return finished.pop()

    def close(self, done: int) -> None:
        """Look that no message is left that nobody has collected."""
        for inbox in self.inboxes.values():
            inbox.advance(done)

    def _serve(self, index: tuple[int, ...], step: int) -> bool:
        """Answer a block's requests until it has to wait; True where it moved at all."""
        moved = False
        while True:
            request = self.requests[index]
            if isinstance(request, Post):
                self._post(index, step, request)
                answer = None
            elif isinstance(request, Collect) and self.inboxes[index].has(request):
                answer = self.inboxes[index].take(request)
            else:
                return moved
            self.requests[index] = self.steppers[index].resume(answer)
            moved = True

    def _post(self, index: tuple[int, ...], step: int, request: Post) -> None:
        """Put a block's messages into its neighbours' inboxes, by reference."""
        neighbors = self.steppers[index].block.neighbors
        for edge, array in request.messages.items():
            peer = neighbors[edge]
            message = checked_message(edge, array)
            self.inboxes[peer.block].deliver(step, request.phase, peer.edge, index, message)

    def _reduce(self) -> bool:
        """Answer an AllReduce once every block has come to it; False where one has not."""
        requests = list(self.requests.values())
        if not all(isinstance(request, AllReduce) for request in requests):
            return False
        if len({request.op for request in requests}) != 1:
            raise RunError(f"blocks reduce by different operations: {self._waiting()}")
        total = reduce(REDUCTIONS[requests[0].op], [request.value for request in requests])
        for index, stepper in self.steppers.items():
            self.requests[index] = stepper.resume(np.array(total)[()])
        return True

    def _waiting(self) -> str:
        """What each block waits for, for an error message."""
        return "; ".join(f"{index} on {request}" for index, request in self.requests.items())[:500]


def run(job: Job, report: Report, watcher: Watcher) -> int:
    """Run a job on this process and report its outcome; returns the exit status."""
    jit_s = job.compile()
    engine = Engine([job.build(index) for index in job.layout.indices()])
    blocks = [stepper.block for stepper in engine.steppers.values()]
    log, done = PELog(0), 0
    for start, end in job.phases():
        log.start()
        for number, (step, count) in enumerate(job.rounds(start, end)):
            watcher.beat(0, step)
            finished = engine.round(step, count)
            for index, stepper in engine.steppers.items():
                log.add(job.layout.number(index), number, stepper)
            done = step + count
            if finished and start == job.warmup:
                break
    engine.close(done)
    watcher.finish(0)
    if job.store is not None:
        job.store.create(blocks[0].state())
        for block in blocks:
            job.store.write(block.state())
    return report(joined(job, [Part.of(blocks, log, jit_s)], done, {}))


def fail(status: int) -> None:
    """Nothing else runs that would have to be ended."""
