"""The engine that the drivers share: it resumes blocks, answers their requests and runs the rounds.

A driver adds a transport, which moves messages between processes. In every driver a `Runner` runs
each block. `Engine` resumes all blocks of a process in turn. The charm driver does not use it,
because there the runtime decides which block is resumed next. docs/contract.md explains the
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np

from miniapps.audit import AuditedRound
from miniapps.contract import (
    SETUP,
    AllReduce,
    Batch,
    Begin,
    Collect,
    CollectSum,
    Edge,
    MessageError,
    Pause,
    Place,
    Post,
    PostSum,
    checked_messages,
)
from miniapps.devices.messages import DeviceMessage
from miniapps.drivers import garbage
from miniapps.drivers.agreements import Agreements, End
from miniapps.drivers.audits import Auditor
from miniapps.drivers.checkpoints import Checkpoints, Part, require_state, words_of_state
from miniapps.drivers.inbox import Inbox
from miniapps.drivers.job import Job, RunError, Segment, Store, Watcher
from miniapps.drivers.lives import (
    CheckedStepper,
    EarlyInbox,
    Lives,
    exists,
    outlasts,
    require_whole,
)
from miniapps.drivers.reduction import ADDED, of_process, result_of
from miniapps.drivers.shares import Share
from miniapps.drivers.timing import PELog, Stepper, answer_batches
from miniapps.drivers.waits import NO_EDGE, Wait, sentences, wait_of
from miniapps.saved import SavedState

REQUESTS = Post | PostSum | Collect | CollectSum | AllReduce | Begin | Pause | Batch


class Departure(NamedTuple):
    """The messages of one Post that are still in device memory; a copy to the host may have begun.

    ``messages`` are pairs (target, message); the type of the target depends on the transport.
    """

    step: int
    phase: str
    messages: list[tuple[Any, Any]]

    def on_host(self) -> list[tuple[Any, Any]]:
        """The pairs with their messages in host memory; waits for the copies to finish."""
        copies = {id(message): message.on_host() for _, message in self.messages}
        return [(target, copies[id(message)]) for target, message in self.messages]


class Transport:
    """Moves the messages of one process's blocks.

    This base class serves drivers that have all blocks in one process: it puts messages into the
    receivers' inboxes by reference.
    """

    def __init__(self) -> None:
        self.places: dict[Place, Runner] = {}

    def connect(self, runners: dict[Place, Runner]) -> None:
        """Store the runners of this process's places, some of which may have no block yet."""
        self.places = runners

    def meet(self, runner: Runner) -> None:
        """Get to know a block that exists for a time and has just been made."""

    def post(self, runner: Runner, request: Post | PostSum) -> None:
        """Send a block's messages. Raises MessageError for a message that breaks the contract."""
        neighbors = runner.block.neighbors
        for edge, message in checked_messages(request).items():
            if edge not in neighbors:
                raise unknown_edge(runner, request, edge)
            self.deliver(runner, neighbors[edge], request, message)

    def deliver(self, runner: Runner, peer: Any, request: Post | PostSum, message: Any) -> None:
        """Put one message into the inbox of a block of this process."""
        kind, index, edge = peer
        inbox, step = self.places[kind, index].inbox, runner.inbox.step
        if type(request) is PostSum:
            inbox.add(step, request.phase, (edge,), message)
        else:
            inbox.deliver(step, request.phase, edge, runner.place, message)

    def collect(self, runner: Runner, request: Collect | CollectSum) -> Any:
        """The answer to a Collect; None if messages are missing."""
        return runner.inbox.take(request)

    def wait(self) -> bool:
        """Wait a little where no block can go on; False if no message can come any more."""
        return False

    def missing(self, runner: Runner) -> list[Edge] | None:
        """The edges whose messages a block waits for; None if its inbox shows them."""
        return None

    def flush(self, runner: Runner) -> None:
        """Send the messages that `Runner.stage` has queued."""

    def all_reduce(self, value: Any, op: str) -> Any:
        """Combine this process's value with those of all others."""
        return np.array(value)[()]

    def begin_reduction(self, runner: Runner, reduction: AllReduce) -> bool:
        """Begin to combine a block's value with others; False if the driver has to do it."""
        return True  # all values are here once the last block requests the result

    def gather(self, value: Any) -> list[Any] | None:
        """The values of all processes, in the first of them; None in others."""
        return [value]

    def begin(self) -> None:
        """Begin a round. Raises MessageError if a message of the last round was not collected."""

    def barrier(self) -> None:
        """Wait until all processes have reached this call."""

    def close(self) -> None:
        """End all communication. Raises MessageError if a message was not collected."""


def unknown_edge(runner: Runner, request: Post | PostSum, edge: Edge) -> MessageError:
    """That a block posts on an edge that it does not have."""
    what = f"block {runner.block.index}: phase {request.phase!r} is posted on edge"
    return MessageError(f"{what} {edge!r}, {NO_EDGE}")


class Runner:
    """Runs one block. Holds its stepper, its inbox, and its current request."""

    def __init__(self, block: Any, traced: bool = False) -> None:
        self.block, self.place = block, (block.kind, tuple(block.index))
        self.stepper, self.inbox = Stepper(block, traced), Inbox(block)
        self.request: Any = None  # None: the round has ended
        self.saved: SavedState | None = None  # what the block takes up instead of its setup
        self.leaving: list[Departure] = []
        self.audits: list[AuditedRound] = []  # what the block contributed to them
        self.audit_s: dict[int, float] = {}  # spent on audits, by the first step of the round

    def begin(self, step: int, count: int, auditor: Auditor | None = None) -> None:
        """Begin the round of ``count`` steps at ``step``, or the block's setup."""
        self.inbox.advance(step)
        stepper = self.stepper
        stepper.step = step
        if auditor is not None:
            begun = perf_counter()
            stepper.witness = auditor.begin(self.block, self.place, step, count)
            if stepper.witness is not None:
                self._audited(step, perf_counter() - begun)
        self.request = stepper.set_up(self.saved) if step == SETUP else stepper.start(count)

    def end(self, auditor: Auditor | None) -> None:
        """End the round, whose last request was answered."""
        stepper = self.stepper
        if auditor is not None and stepper.witness is not None:
            begun, witness = perf_counter(), stepper.witness
            audited = auditor.end(self.block, witness, stepper.finished)
            self.audits += [] if audited is None else [audited]
            stepper.witness = None
            self._audited(witness.audited.step, witness.seconds)
            self._audited(witness.audited.step + witness.audited.count, perf_counter() - begun)

    def forget_audits(self, step: int) -> None:
        """Forget the seconds that audits took between the last round and ``step``: no clock ran."""
        self.audit_s.pop(step, None)

    def _audited(self, step: int, seconds: float) -> None:
        """Add seconds to those that audits took in the round that begins at ``step``."""
        self.audit_s[step] = self.audit_s.get(step, 0.0) + seconds

    def answer(self, value: Any) -> None:
        """Resume the block with the answer to its request."""
        self.request = self.stepper.resume(value)

    def serve(self, transport: Any, answered: bool = False) -> bool:
        """Answer requests until the block has to wait or its round ends; True if any was answered.

        A Pause is answered only if it is the first request of the call, so that other blocks run
        first. ``answered``: whether the caller has answered a request already.
        """
        while True:
            request = self.request
            kind = type(request)
            if kind is Post or kind is PostSum:
                transport.post(self, request)
                answer = None
            else:
                if self.leaving:
                    transport.flush(self)
                if kind is Collect or kind is CollectSum:
                    answer = transport.collect(self, request)
                    if answer is None:
                        return answered
                elif kind is Pause and not answered:
                    answer = None
                elif kind is Begin and transport.begin_reduction(self, request.reduction):
                    answer = None
                else:
                    return answered
            self.request = self.stepper.resume(answer)
            answered = True

    def stage(self, request: Post | PostSum, messages: list[tuple[Any, Any]], copy: bool) -> None:
        """Queue messages in device memory for sending; ``copy``: begin to copy them to the host.

        They are those of a Post, as a PostSum has none in device memory.
        """
        if copy:
            on_device = [m for _, m in messages if isinstance(m, DeviceMessage)]
            self.block.device.stage(on_device)
        self.leaving.append(Departure(self.inbox.step, request.phase, messages))

    def departures(self) -> list[Departure]:
        """Remove and return the queued messages."""
        leaving, self.leaving = self.leaving, []
        return leaving


class PlaceRunner(Runner):
    """Runs the blocks of a place, one after the other, which exist for a time."""

    def __init__(self, place: Place, problem: Any, traced: bool) -> None:
        self.place, self.problem, self.traced = place, problem, traced
        self.block: Any = None
        self.inbox: Any = EarlyInbox(place)
        self.request: Any = None
        self.saved: SavedState | None = None
        self.leaving: list[Departure] = []
        self.audits: list[AuditedRound] = []
        self.audit_s: dict[int, float] = {}

    def create(self, block: Any, step: int) -> None:
        """Run a block from now on, which begins in a step."""
        block.begins(step)
        self.block, self.stepper = block, CheckedStepper(block, self.traced, self.problem)
        self.inbox.meet(block)

    def drop(self) -> None:
        """Let the block go."""
        del self.stepper
        self.block = None
        self.inbox.leave()


class Round(NamedTuple):
    """A round of a phase: its number in the phase, its first step, and how many steps it has."""

    number: int
    step: int
    steps: int


class Phase(NamedTuple):
    """The rounds from step ``start`` to ``end``; ``may_end``: blocks may end the run earlier.

    ``steps(step)`` is the number of steps in the round that begins at ``step``.
    """

    start: int
    end: int
    steps: Callable[[int], int]
    may_end: bool = True
    number: int = 0  # of the first round


OnRound = Callable[[Runner, Round], None]


def nothing(runner: Runner, this: Round) -> None:
    """Do nothing: for rounds that nobody looks at."""


class Engine:
    """Runs the blocks of one process in turn."""

    def __init__(
        self,
        blocks: Sequence[Any],
        traced: bool = False,
        transport: Transport | None = None,
        auditor: Auditor | None = None,
        lives: Lives | None = None,
    ) -> None:
        self.auditor, self.lives = auditor, lives
        self.transport = Transport() if transport is None else transport
        runners = [Runner(block, traced) for block in blocks]
        self.runners = {runner.place: runner for runner in runners}  # those with a block
        self.places = self.runners
        if lives is not None:
            every = [PlaceRunner(place, lives.problem, traced) for place in lives.places]
            self.places = {runner.place: runner for runner in every}
        self.transport.connect(self.places)
        if lives is not None:
            self._create(lives, outlasts, lives.start)

    @property
    def blocks(self) -> list[Any]:
        """The blocks of this process."""
        return [runner.block for runner in self.runners.values()]

    def setup(self) -> Self:
        """Run every block's setup; returns the engine, ready for the first step."""
        self._advance(SETUP, 0)
        return self

    def round(self, step: int, count: int) -> bool:
        """Advance every block ``count`` steps; True if they report that the run is finished."""
        self._advance(step, count)
        finished = {runner.stepper.finished for runner in self.runners.values()}
        if len(finished) > 1:
            raise RunError(
                f"step {step}: some blocks report that the run is finished, others do not"
            )
        return True in finished

    @property
    def first(self) -> Runner:
        """The first block's runner."""
        return next(iter(self.runners.values()))

    @property
    def is_finished(self) -> bool:
        """Whether the first block reports that the run is finished; False if there is no block."""
        return bool(self.runners) and self.first.stepper.finished

    def play(self, phase: Phase, begun: OnRound = nothing, ended: OnRound = nothing) -> int:
        """Make the rounds of a phase; returns the number of steps made since the run began.

        Calls ``begun`` before a block begins a round, and ``ended`` when the block has ended it.
        """
        number, step = phase.number, phase.start
        while step < phase.end:
            this = Round(number, step, phase.steps(step))
            for runner in self.runners.values():
                begun(runner, this)
            finished = self.round(step, this.steps)
            for runner in self.runners.values():
                ended(runner, this)
            number, step = number + 1, step + this.steps
            self.drop_before(step)
            if finished and phase.may_end:
                break
        return step

    def forget_audits(self, step: int) -> None:
        """See `Runner.forget_audits`."""
        for runner in self.runners.values():
            runner.forget_audits(step)

    def close(self, done: int) -> None:
        """End the run after step ``done``. Raises MessageError if a message is left."""
        for runner in self.runners.values():
            runner.inbox.advance(done)
        self.transport.close()

    def _advance(self, step: int, count: int) -> None:
        """Begin a round and answer requests until all blocks have ended it."""
        if self.lives is not None and step != SETUP:
            self.begin_lives(self.lives, step, count)
        self.transport.begin()
        for runner in self.runners.values():
            runner.begin(step, count, self.auditor)
        left = list(self.runners.values())
        while left:
            moved = [runner.serve(self.transport) for runner in left]
            left = [runner for runner in left if runner.request is not None]
            if left and not any(moved) and not self.go_on():
                raise RunError(f"step {step}: {self._waiting()}")
        for runner in self.runners.values():
            runner.end(self.auditor)

    # Blocks that exist for a time -----------------------------------------------------------------

    def begin_lives(self, lives: Lives, step: int, count: int) -> None:
        """Make the blocks of this process that begin with the ``count`` steps at ``step``."""
        require_whole(lives.problem, step, count)
        self._create(lives, exists, step)

    def _create(self, lives: Lives, there: Callable[[Any, str, int], bool], step: int) -> None:
        """Make the blocks that are not there and should be."""
        for place in self.places:
            if place not in self.runners and there(lives.problem, place[0], step):
                self.create(lives, place, step)

    def create(self, lives: Lives, place: Place, step: int) -> None:
        """Make the block of a place, which begins in a step."""
        runner: Any = self.places[place]
        runner.create(lives.build(place[1]), step)
        self.runners[place] = runner
        self.transport.meet(runner)

    def drop_before(self, step: int) -> None:
        """Let blocks go that do not exist in the round that begins at ``step``."""
        if self.lives is None:
            return
        for place in [*self.runners]:
            if not exists(self.lives.problem, place[0], step):
                self.drop(place)

    def drop(self, place: Place) -> None:
        """Let the block of a place go."""
        runner: Any = self.runners.pop(place)
        runner.drop()

    def go_on(self) -> bool:
        """When no block can continue, run batches or a reduction; False if neither is possible."""
        return self.batch() or self.reduce() or self.transport.wait()

    def batch(self) -> bool:
        """Answer all waiting Batch requests, one call per function; False if there is none."""
        asked = [(r, r.request) for r in self.runners.values() if isinstance(r.request, Batch)]
        for runner, answer in answer_batches(asked):
            runner.answer(answer)
        return bool(asked)

    def reduce(self) -> bool:
        """Answer each AllReduce that all blocks of a kind have reached; False if there is none."""
        kinds: dict[str, list[Runner]] = {}
        for runner in self.runners.values():
            kinds.setdefault(runner.place[0], []).append(runner)
        return any([self._reduce_kind(runners) for runners in kinds.values()])

    def _reduce_kind(self, runners: list[Runner]) -> bool:
        requests = [runner.request for runner in runners]
        if not all(isinstance(request, AllReduce) for request in requests):
            return False
        total = self.total(requests)
        for runner in runners:
            runner.answer(np.array(total)[()])
        return True

    def total(self, requests: list[AllReduce]) -> Any:
        """The result of an AllReduce. Raises RunError if the blocks name several operations."""
        if len({request.op for request in requests}) != 1:
            raise RunError(f"blocks reduce by different operations: {self._waiting()}")
        op, values = requests[0].op, [request.value for request in requests]
        total = self.transport.all_reduce(*of_process(values, op))
        return result_of(total, values[0], op) if op in ADDED else total

    def waits(self) -> list[Wait]:
        """What each block of this process does or waits for."""
        return [wait_of(r, self.transport.missing(r)) for r in self.runners.values()]

    def _waiting(self) -> str:
        """Describe, for an error message, what each block waits for."""
        wrong = [r for r in self.runners.values() if not isinstance(r.request, REQUESTS | None)]
        if wrong:
            return f"block {wrong[0].block.index} yielded {wrong[0].request!r}, which is no request"
        return f"every block waits: {'; '.join(sentences(self.waits()))}"


@garbage.rare()
def run_phases(job: Job, engine: Engine, pe: int, watcher: Watcher) -> tuple[PELog, End]:
    """Run setup, warm-up and timed steps on PE ``pe``; returns timings and the end of the run.

    Raises RunError, MessageError and any error of a block.
    """
    watcher.attend(pe, engine.waits)
    for place, runner in engine.runners.items():
        runner.saved = job.saved_for(place)
    engine.setup()
    if job.resumed is not None:
        words = engine.transport.all_reduce(words_of_state(engine.blocks), "sum")
        require_state(job, words)
    log, done, agreements = PELog(pe), job.start, Agreements(job, watcher.signalled)
    part, checkpoints = checkpoints_of(job, engine, log)
    largest = partial(largest_of, engine, checkpoints, log)
    take_snapshot(job, engine, log, job.setup())

    def begun(runner: Runner, this: Round) -> None:
        if runner is engine.first:
            watcher.heartbeat(pe, this.step)

    def ended(runner: Runner, this: Round) -> None:
        log.add(job.layout.numbers[runner.place], this.number, runner.stepper)

    def end_after(step: int) -> None:
        if engine.auditor is not None:
            engine.auditor.last = step

    for start, end in job.phases():
        for block in engine.blocks:
            block.device.synchronize()
        engine.transport.barrier()
        log.start()
        engine.forget_audits(start)
        may_end, count = start == job.timed, partial(job.count, end=end)
        for segment in agreements.segments(start, end):
            phase = Phase(segment.start, segment.stop, count, may_end, segment.number)
            done = engine.play(phase, begun, ended)
            finished = may_end and engine.is_finished
            if done == segment.stop:
                take_snapshot(job, engine, log, segment)
                agreed = not finished and agreements.after(segment, largest, end_after)
                if agreed or job.ends_with_checkpoint(segment):
                    last = finished or done == agreements.end or bool(agreements.stopped)
                    behind = job.checkpoint_async and not last
                    take_checkpoint(checkpoints, part, engine, done, finished, behind)
                    agreements.wrote()
            if finished:
                break
        for block in engine.blocks:
            block.device.synchronize()
        engine.transport.barrier()
        log.stop()
    log.waiting_s += checkpoints.complete()
    engine.close(done)
    watcher.finish(pe)
    return log, End(done, agreements.stopped)


def checkpoints_of(job: Job, engine: Engine, log: PELog) -> tuple[Part, Checkpoints]:
    """What writes the checkpoints of this process's blocks, and has all PEs do it together."""
    part = Part(job.checkpoint_writer, log)
    if job.checkpoint_async:
        part.make_room(engine.blocks)
    return part, Checkpoints(EngineTeam(engine.transport, part, log.pe))


def largest_of(
    engine: Engine, checkpoints: Checkpoints, log: PELog, wish: np.ndarray
) -> np.ndarray:
    """The largest of all PEs' wishes; if all have done a task of a checkpoint, they begin another.

    Called when the PEs agree.
    """
    before = perf_counter()
    most: np.ndarray = engine.transport.all_reduce(wish, "max")
    checkpoints.proceed()
    log.agreeing_s.append(perf_counter() - before)
    return most


def take_snapshot(job: Job, engine: Engine, log: PELog, segment: Segment) -> None:
    """Store a snapshot of all blocks, if one is due after a segment.

    The clock stands still meanwhile, on all PEs.
    """
    if segment.last is None or not job.wants_snapshot(segment.last, segment.stop):
        return
    end_s = stopped(engine, log, segment.stop)
    job.keep(log.pe, segment, engine.blocks)
    engine.transport.barrier()
    log.snapshots_s += log.go_on(end_s)


class EngineTeam:
    """The PEs of a run, as each of them sees it: all do the same; a `drivers.checkpoints.Team`."""

    def __init__(self, transport: Transport, part: Part, pe: int) -> None:
        self.transport, self.part, self.pe = transport, part, pe

    def all(self, task: str) -> None:
        """Begin this PE's task."""
        self.part.begin(task)

    def first(self, task: str, *given: Any) -> None:
        """Begin a task if this is PE 0."""
        if self.pe == 0:
            self.part.begin(task, *given)

    def shares(self) -> list[Share] | None:
        """What all PEs will write, on PE 0."""
        return self.transport.gather(self.part.share)

    def ready(self, wait: bool) -> bool:
        """Whether no PE has a task to do; ``wait``: until it is so."""
        mine = self.part.ready(wait)
        if not wait:
            return not self.transport.all_reduce(float(not mine), "max")
        self.transport.barrier()
        return True


def take_checkpoint(
    checkpoints: Checkpoints, part: Part, engine: Engine, step: int, finished: bool, behind: bool
) -> None:
    """Write a checkpoint of all blocks; the clock stands still meanwhile, on all PEs.

    ``finished``: whether the blocks report that the run is finished; ``behind``: whether they go on
    when they have been copied. Waits for an earlier checkpoint that is still being written.
    """
    log = part.log
    end_s = stopped(engine, log, step)
    log.waiting_s += checkpoints.complete()
    part.take(engine.blocks, behind)
    checkpoints.begin(step, finished)
    if behind:
        engine.transport.barrier()
    else:
        checkpoints.complete()
    log.checkpoints_s += log.go_on(end_s)


def stopped(engine: Engine, log: PELog, step: int) -> float:
    """When the clock of all PEs stops, s: the last one has ended the round before ``step``."""
    end_s = log.rested(audits_before(engine.places.values(), step))
    return float(engine.transport.all_reduce(end_s, "max"))


def audits_before(runners: Iterable[Runner], step: int) -> float:
    """The seconds that the blocks of a PE have audited after the round before ``step``."""
    return sum(runner.audit_s.get(step, 0.0) for runner in runners)


def write_state(store: Store, blocks: Iterable[Any], created: bool) -> bool:
    """Write the final state of a process's blocks; a process may have no blocks.

    ``created``: whether an earlier process has created the store. Returns whether it exists now.
    """
    for block in blocks:
        pieces = block.state()
        if pieces and not created:
            store.create(pieces)
            created = True
        store.write(pieces)
    return created
