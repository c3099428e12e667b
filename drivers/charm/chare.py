"""The chare that runs a block: it waits, resumes, lets other chares run, and migrates.

It does not use coroutines, because the stack of a coroutine does not migrate.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from charm4py import Chare, Future, Reducer, charm

from miniapps.contract import (
    SETUP,
    AllReduce,
    Batch,
    Begin,
    Collect,
    CollectSum,
    Pause,
    Place,
    Post,
    PostSum,
)
from miniapps.drivers.charm import CharmOptions
from miniapps.drivers.charm.loads import Entry
from miniapps.drivers.charm.mail import Route
from miniapps.drivers.charm.moves import Packed, packed, unpacked
from miniapps.drivers.charm.pe import PE
from miniapps.drivers.engine import PlaceRunner, Runner
from miniapps.drivers.exits import error_of
from miniapps.drivers.job import Job, Segment
from miniapps.drivers.lives import exists, outlasts, require_whole
from miniapps.drivers.reduction import ADDED, packed_value, result_of

EMPTY = (pickle.dumps(({}, [])), None)  # a message without arguments, packed once


class Routed(Runner):
    """A runner whose messages go to chares, by their numbers."""

    def __init__(self, block: Any, numbers: dict[Place, int], traced: bool) -> None:
        super().__init__(block, traced)
        self.routes = routes_of(block, numbers)


class RoutedPlace(PlaceRunner):
    """The same, of blocks that exist for a time."""

    routes: dict[Any, Route] = {}

    def create_for(self, job: Job[CharmOptions], step: int) -> None:
        """Make the block of this place, which begins in a step."""
        self.create(job.build(self.place[1]), step)
        self.routes = routes_of(self.block, job.layout.numbers)


def routes_of(block: Any, numbers: dict[Place, int]) -> dict[Any, Route]:
    """By edge, the chare at its other end."""
    neighbors = block.neighbors.items()
    return {edge: (peer.kind, numbers[peer.place], peer.edge) for edge, peer in neighbors}


class BlockChare(Chare):
    """Runs one block. Block and inbox migrate with the chare, between rounds.

    Its index is the block's number, because Charm4Py 1.1 never resumes a chare whose index has more
    than three dimensions after load balancing.
    """

    def __init__(self, pes: Any, place: Place) -> None:
        self.pes, self.place = pes, place
        (self.number,) = self.thisIndex
        self.retired = False  # the run is over
        job = self.job
        self.for_a_time = job.problem.kinds_at(0) is not None  # there is no block in some steps
        with self.pe.guard():
            if self.for_a_time:
                self.runner: Any = RoutedPlace(place, job.problem, job.traced)
                if outlasts(job.problem, place[0], job.start):
                    self.runner.create_for(job, job.start)
            else:
                self.runner = Routed(job.build(place[1]), job.layout.numbers, job.traced)
            self.runner.saved = job.saved_for(place)
            self.equip()
        self.home = charm.myPe()
        self.entry: Entry | None = None  # of this chare in the runtime's table of loads
        self.waiting: Collect | CollectSum | None = None  # the Collect whose messages are missing
        self.has_begun = False  # whether the block has begun an AllReduce, and not requested it yet
        self.total: Any = None  # its result, if that has come
        self.answered = False  # `answer` holds the answer to the runner's request
        self.answer: Any = None
        self.step = self.at = 0  # next step, and number of the next round
        self.segment = Segment(0, 0, 0)  # the rounds to make
        self.due = False  # the load is balanced before the next round
        self.count = 0  # steps of the round
        self.begun = False  # whether the round has begun

    def __getstate__(self) -> dict[str, Any]:
        """What migrates; arrays on a device in one buffer."""
        if self.retired:
            return self.__dict__
        return self.__dict__ | {"runner": packed(self.pe, self.runner)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up what has migrated."""
        self.__dict__.update(state)
        if not self.retired and isinstance(self.runner, Packed):
            self.runner = unpacked(self.pe, self.runner)

    def equip(self) -> None:
        """Prepare the block, if there is one, for the PE where it is now."""
        if self.block is not None:
            self.pe.mail.equip(self.runner)
            if self.job.options.lb_period:
                self.stepper.launch_alone()

    def start(self, segment: Segment, timed: bool, done: Future) -> None:
        """Prepare the rounds of a segment. The work begins in another message.

        The runtime does not measure the load of broadcasts such as this one.
        """
        self.segment, self.step, self.at = segment, segment.start, segment.number
        self.timed, self.done = timed, done
        if timed and segment.number and self.finished:
            self.make_no_more()
        self.wake_up()

    def deliver(
        self, step: int, phase: str, sender: Any, edges: tuple[Any, ...], *sent: Any
    ) -> None:
        """Store all messages of one block of another PE in this step and phase."""
        with self.pe.guard():
            arrays = self.pe.payloads.received(sent)
            came = [
                self.put(step, phase, edge, sender, array)
                for edge, array in zip(edges, arrays, strict=True)
            ]
            if any(came):
                self.resume()

    def deliver_sum(self, step: int, phase: str, edges: Any, sent: Any) -> None:
        """Store a sum of messages of one block of another PE."""
        with self.pe.guard():
            (total,) = self.pe.payloads.received([sent])
            self.put_sum(step, phase, edges, total)

    def reduced(self, total: Any) -> None:
        """Store the result of a reduction, and resume a block that waits for it.

        All chares of a PE share ``total``.
        """
        with self.pe.guard():
            request = self.runner.request
            if type(request) is AllReduce:
                self.go_on(result_of(total, request.value, request.op))
            else:
                self.total = total

    def resumeFromSync(self) -> None:  # noqa: N802 - the runtime's name
        """Continue after load balancing, perhaps on another PE."""
        if self.retired:
            return
        moved, self.home = self.home != charm.myPe(), charm.myPe()
        self.pe.balanced(self.step, moved and self.block is not None)
        if self.block is not None:
            self.pe.mail.equip(self.runner)
        if len(self.pe.arrays) > 1:
            where = np.zeros(len(self.pe.where), np.int64)
            where[self.number] = 1 + self.home
            self.reduce(self.pes.learn, where, Reducer.sum)
        else:
            self.resume()

    def retire(self) -> None:
        """Release the block after the run; the chare itself cannot be removed."""
        self.retired = True
        del self.runner

    @property
    def pe(self) -> PE:
        """The PE on which the block lives now."""
        return charm.groups[self.pes.gid]

    @property
    def block(self) -> Any:
        """The block; None where it does not exist now."""
        return None if self.retired else self.runner.block

    @property
    def stepper(self) -> Any:
        """The block's stepper."""
        return self.runner.stepper

    @property
    def finished(self) -> bool:
        """Whether the block reports that the run is finished."""
        return self.block is not None and self.stepper.finished

    @property
    def job(self) -> Job[CharmOptions]:
        """The job; stored by the PE, so that it does not migrate with every chare."""
        return self.pe.job

    def wake_up(self) -> None:
        """Send this chare a message that resumes it."""
        proxy = self.thisProxy
        charm.CkArraySend(proxy.aid, self.thisIndex, proxy.resume.ep, EMPTY)

    def leave(self) -> None:
        """Send the staged messages; their copies to the host ran while other chares computed."""
        with self.pe.guard():
            self.pe.mail.send_staged(self.runner)

    def put(self, step: int, phase: str, edge: Any, sender: Any, array: np.ndarray) -> bool:
        """Store a message; True if it was the last one that the block was waiting for."""
        self.runner.inbox.deliver(step, phase, edge, sender, array)
        return self.complete()

    def put_sum(self, step: int, phase: str, edges: Any, total: np.ndarray) -> None:
        """Store a sum of messages, and wake up if these were the last missing messages."""
        self.runner.inbox.add(step, phase, edges, total)
        if self.complete():
            self.wake_up()

    def complete(self) -> bool:
        """Take the messages that the block waits for; True if all have arrived."""
        if self.waiting is None:
            return False
        answer = self.pe.mail.collect(self.runner, self.waiting)
        if answer is None:
            return False
        self.answer, self.answered, self.waiting = answer, True, None
        return True

    def go_on(self, answer: Any, at_once: bool = False) -> None:
        """Store the answer to the block's request, and resume the block now or later.

        Later, if the runtime measures loads: it would count the work for what runs now.
        """
        self.answer, self.answered = answer, True
        if at_once:
            self.resume()
        else:
            self.wake_up()

    def resume(self) -> None:
        """Resume the block until it has to wait or its round ends."""
        pe, runner = self.pe, self.runner
        try:
            if self.step == self.segment.stop:
                self.end_segment()
                return
            if self.due:
                self.balance(pe)
                return
            if self.answered:
                answer, self.answer, self.answered = self.answer, None, False
                runner.answer(answer)
            elif not self.begun:
                if self.for_a_time and not self.is_there(pe):
                    return
                self.begin(pe)
            self.serve(pe)
        except BaseException as raised:
            pe.give_up(error_of(raised))

    def is_there(self, pe: PE) -> bool:
        """Go on to a round in which there is a block; False if something else is to be done first.

        Rounds without a block are passed here, so that they cost a chare nothing more.
        """
        problem, kind = pe.job.problem, self.place[0]
        while self.block is None and (self.step == SETUP or not exists(problem, kind, self.step)):
            before, self.count = self.step, self.steps_of_round(pe)
            self.step, self.at = before + self.count, self.at + 1
            self.due = self.is_due(pe, before)
            if self.due or self.step == self.segment.stop:
                self.resume()
                return False
        if self.block is None:
            self.runner.create_for(pe.job, self.step)
            self.equip()
        if self.step != SETUP:
            require_whole(problem, self.step, self.steps_of_round(pe))
        return True

    def steps_of_round(self, pe: PE) -> int:
        """The number of steps of the round that begins now; the setup counts as one."""
        if self.step == SETUP:
            return -SETUP
        return pe.job.count(self.step, self.segment.end)

    def is_due(self, pe: PE, before: int) -> bool:
        """Whether the load is balanced before the next round, after that at step ``before``."""
        ends = self.step == self.segment.end
        return self.timed and not ends and pe.job.options.due(before, self.step)

    def begin(self, pe: PE) -> None:
        """Begin the setup, or the next round."""
        self.begun = True
        self.count = self.steps_of_round(pe)
        if self.step != SETUP:
            pe.note_begin(self.step)
        self.runner.begin(self.step, self.count, pe.auditor)

    def serve(self, pe: PE) -> None:
        """Answer the block's requests until it has to wait or its round ends."""
        runner = self.runner
        runner.serve(pe.mail, True)
        if runner.leaving:
            self.thisProxy[self.thisIndex].leave()
        if runner.request is None:
            self.finish_round(pe)
        else:
            self.hold(runner.request)

    def finish_round(self, pe: PE) -> None:
        """Record the round; then balance, or begin the next round.

        The first messages of the next round are sent at once, because other PEs may wait for them.
        Then other ready chares run, because their messages may be awaited too.
        """
        before, self.begun = self.step, False
        self.runner.end(pe.auditor)
        self.step, self.at = before + self.count, self.at + 1
        if before == SETUP:
            pe.log.ready()  # the last block of this PE says it last
            self.runner.forget_audits(self.step)
            self.wake_up()
            return
        pe.log.add(self.number, self.at - 1, self.runner.stepper)
        if self.runner.stepper.finished and self.timed:
            self.make_no_more()
        if self.for_a_time and not exists(pe.job.problem, self.place[0], self.step):
            self.runner.drop()
        self.due = self.is_due(pe, before)
        if self.due and self.step < self.segment.stop:
            self.balance(pe)
            return
        if self.step < self.segment.stop and not self.for_a_time:
            self.begin(pe)
            runner = self.runner
            request = runner.request
            if isinstance(request, Post | PostSum):
                pe.mail.post(runner, request)
                if runner.leaving:
                    self.thisProxy[self.thisIndex].leave()
            if isinstance(request, Collect | CollectSum):
                self.hold(request)
                if not self.complete():
                    return
            # A Post needs no answer. A Pause is answered when the others have run.
            elif isinstance(request, Post | PostSum | Pause):
                self.answered = True
        self.wake_up()

    def make_no_more(self) -> None:
        """End the run here: the blocks report that it is finished."""
        self.segment = Segment(self.step, self.step, self.step)

    def balance(self, pe: PE) -> None:
        """Wait until the runtime has balanced the load."""
        self.due = False
        pe.mail.send_staged(self.runner)
        pe.balance(self.step)
        if self.number == 0:
            pe.balance_retired()
        self.AtSync()

    def end_segment(self) -> None:
        """Report that the block has made its steps."""
        self.pe.mail.send_staged(self.runner)
        if self.block is not None:
            self.block.device.synchronize()
        if self.timed:
            self.runner.inbox.advance(self.step)  # raises MessageError if messages are left
        self.contribute(self.step, Reducer.max, self.done)

    def hold(self, request: Any) -> None:
        """Store a request that cannot be answered yet."""
        if isinstance(request, (Collect, CollectSum)):
            self.waiting = request
        elif isinstance(request, AllReduce):
            begun, self.has_begun = self.has_begun, False
            total, self.total = self.total, None
            if not begun:
                self.contribute_to(request)
            elif total is not None:
                self.runner.answer(result_of(total, request.value, request.op))
                self.serve(self.pe)
        elif isinstance(request, Begin):
            self.has_begun = True
            self.contribute_to(request.reduction)
            self.runner.answer(None)
            self.serve(self.pe)
        elif isinstance(request, Pause):
            self.go_on(None)
        elif isinstance(request, Batch):
            self.pe.batch(self, request)
        else:
            raise TypeError(f"block {self.place[1]} yielded {request!r}, which is no request")

    def contribute_to(self, reduction: AllReduce) -> None:
        """Give the runtime the block's value; it calls `reduced` with the result."""
        value = packed_value(reduction.value, reduction.op)
        op = ADDED.get(reduction.op, reduction.op)
        self.reduce(self.thisProxy.reduced, value, getattr(Reducer, op))
