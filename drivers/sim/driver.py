"""Runs jobs of the sim driver: one event after the other, in an order that `orders` chooses.

Blocks do not wait for each other between rounds: a block may be a round ahead of its neighbours, as
under the drivers that launch PEs. Before it begins a round, a block may migrate (it is pickled)
together with the messages that have come early. The state has the bits of a serial run.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

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
from miniapps.drivers.audits import Auditor
from miniapps.drivers.engine import Engine, OnRound, Phase, Round, Runner, Transport, nothing
from miniapps.drivers.job import Job, RunError, Watcher
from miniapps.drivers.lives import Lives, exists, require_whole
from miniapps.drivers.orders import Order, Scheduled, order_of
from miniapps.drivers.outcome import Report
from miniapps.drivers.schedule import Event, read_schedule
from miniapps.drivers.serial import fail, run_by  # noqa: F401 - drivers.load needs `fail`
from miniapps.drivers.sim import SimOptions

NEVER_WAIT = {Post, PostSum, Pause, Begin}  # requests that can be answered at once


class Observer(Protocol):
    """Sees what the blocks of a run send and receive."""

    def posted(self, event: Event, sender: Place, message: Any) -> None:
        """A message has been sent; ``event`` is its delivery."""

    def answered(self, runner: Runner, request: Any, answer: Any) -> None:
        """A block gets the answer to a Collect, a CollectSum or an AllReduce."""


class Network(Transport):
    """Keeps messages until they are to be delivered."""

    def __init__(self, pes: int = 2) -> None:
        super().__init__()
        self.count = pes
        self.pes: dict[Place, int] = {}
        self.send: Callable[..., None] = _not_connected
        self.observer: Observer | None = None

    def connect(self, runners: dict[Place, Runner]) -> None:
        """Distribute the blocks over the virtual PEs."""
        super().connect(runners)
        self.pes = {place: n % self.count for n, place in enumerate(runners)}

    def deliver(self, runner: Runner, peer: Any, request: Post | PostSum, message: Any) -> None:
        """Send a message; one to another virtual PE is copied."""
        if self.pes[runner.place] != self.pes[peer.place] and isinstance(message, np.ndarray):
            shared, message = not message.flags.writeable, message.copy()
            message.flags.writeable = not shared
        what = "sum" if type(request) is PostSum else "message"
        event = what, runner.inbox.step, request.phase, peer.place, peer.edge
        if self.observer is not None:
            self.observer.posted(event, runner.place, message)
        self.send(event, runner.place, message)

    def arrive(self, event: Event, sender: Place, message: Any) -> None:
        """Put a message into its receiver's inbox."""
        what, step, phase, place, edge, *_ = event
        inbox = self.places[place].inbox
        if what == "sum":
            inbox.add(step, phase, (edge,), message)
        else:
            inbox.deliver(step, phase, edge, sender, message)


def _not_connected(*_: Any) -> None:
    raise RunError("the network belongs to no engine")


class SimEngine(Engine):
    """Makes one event happen after the other, in the order that ``order`` chooses.

    ``events`` are those that are possible, in the order in which they became so; each maps to the
    function that makes it happen, and its arguments.
    """

    transport: Network

    def __init__(
        self,
        blocks: Sequence[Any],
        traced: bool = False,
        transport: Network | None = None,
        order: Order | None = None,
        auditor: Auditor | None = None,
        lives: Lives | None = None,
    ) -> None:
        super().__init__(blocks, traced, transport or Network(), auditor, lives)
        self.order = order or Order()
        self.events: dict[Event, tuple[Any, ...]] = self.order.table()
        self.kinds = Counter(place[0] for place in self.runners)
        self.reducing = Counter[str]()  # blocks of each kind that have reached an AllReduce
        self.answers = dict.fromkeys(self.places, 0)  # that each block got in its round
        self.current: dict[Place, Round] = {}
        self.finished: dict[int, bool] = {}  # by steps made: whether the blocks end the run there
        edges = [(place, edge) for place, r in self.runners.items() for edge in r.block.neighbors]
        self.order.connect(edges)

    def setup(self) -> Self:
        """Run every block's setup; returns the engine, ready for the first step."""
        self.play(Phase(SETUP, SETUP + 1, lambda step: 1))
        return self

    def round(self, step: int, count: int) -> bool:
        """Advance every block ``count`` steps; True if they report that the run is finished."""
        self.play(Phase(step, step + count, lambda step: count))
        return self.finished[step + count]

    def play(self, phase: Phase, begun: OnRound = nothing, ended: OnRound = nothing) -> int:
        """Make the rounds of a phase, in which no block waits for others to begin a round."""
        self.phase, self.begun, self.ended, self.finished = phase, begun, ended, {}
        self.transport.send = self.send
        made = dict.fromkeys(self.places, phase.start)
        self.made = made
        try:
            for place in self.places:
                self.plan(place, phase.number)
            while self.events:
                event = self.order.pick(self.events)
                happen, *arguments = self.events.pop(event)
                happen(*arguments)
        finally:  # else blocks would stay after the run, in cycles of objects
            self.begun = self.ended = nothing
            self.transport.send = _not_connected
            self.events.clear()
        if any([runner.request is not None for runner in self.runners.values()]):
            raise RunError(f"step {min(made.values())}: {self._waiting()}")
        return max(made.values())

    def possible(self, event: Event, happen: Any, *arguments: Any) -> None:
        """Add an event; a second one of the same name gets another name."""
        while event in self.events:
            event = (*event, "again")
        self.events[event] = (happen, *arguments)

    # Rounds ---------------------------------------------------------------------------------------

    def plan(self, place: Place, number: int) -> None:
        """Let a block begin a round of the phase, unless the phase has ended."""
        phase, step = self.phase, self.made[place]
        if self.lives is not None and phase.start != SETUP:
            number, step = self.next_with_block(self.lives, place, number)
        elif place not in self.runners:
            return
        if step < phase.end and not (phase.may_end and self.finished.get(step)):
            this = Round(number, step, phase.steps(step))
            self.possible(("begin", step, place), self.begin, place, this)

    def next_with_block(self, lives: Lives, place: Place, number: int) -> tuple[int, int]:
        """Number and step of the next round in which there is a block; at the end, of none."""
        phase, step = self.phase, self.made[place]
        while step < phase.end and not exists(lives.problem, place[0], step):
            number, step = number + 1, step + phase.steps(step)
        self.made[place] = step
        return number, step

    def begin(self, place: Place, this: Round) -> None:
        """Begin a block's round, perhaps on another virtual PE."""
        if self.lives is not None and this.step != SETUP:
            require_whole(self.lives.problem, this.step, this.steps)
            if place not in self.runners:
                self.create(self.lives, place, this.step)
        if this.step != SETUP:
            pe = self.order.move(this.step, place, self.transport.count)
            if pe is not None:
                self.move(place, pe)
        runner = self.runners[place]
        self.begun(runner, this)
        self.answers[place], self.current[place] = 0, this
        runner.begin(this.step, this.steps, self.auditor)
        self.look(runner)

    def move(self, place: Place, pe: int) -> None:
        """Move a block, including the messages in its inbox, to a virtual PE."""
        self.runners[place] = pickle.loads(pickle.dumps(self.runners[place]))
        self.places[place] = self.runners[place]
        self.transport.pes[place] = pe

    def end(self, runner: Runner) -> None:
        """End a block's round. Raises RunError unless blocks agree on whether the run ends."""
        this, finished = self.current[runner.place], runner.stepper.finished
        step = self.made[runner.place] = this.step + this.steps
        if self.finished.setdefault(step, finished) != finished:
            raise RunError(
                f"step {step}: some blocks report that the run is finished, others do not"
            )
        runner.end(self.auditor)
        self.ended(runner, this)
        if this.step != SETUP and self.lives is not None:
            if not exists(self.lives.problem, runner.place[0], step):
                self.drop(runner.place)
        self.plan(runner.place, this.number + 1)

    # Requests -------------------------------------------------------------------------------------

    def look(self, runner: Runner) -> None:
        """Find out what a block waits for that has just been resumed."""
        kind = type(runner.request)
        if runner.request is None:
            self.end(runner)
        elif kind in NEVER_WAIT:
            self.possible(self.turn_of(runner), self.turn, runner)
        elif kind is Collect or kind is CollectSum:
            self.wake(runner)
        elif kind is AllReduce:
            self.reducing[runner.place[0]] += 1
            self.offer(runner.place[0])
        elif kind is Batch and ("batch", 0) not in self.events:
            self.possible(("batch", 0), self.work)

    def turn_of(self, runner: Runner) -> Event:
        """The event in which a block's request is answered."""
        return "turn", runner.inbox.step, runner.place, self.answers[runner.place]

    def wake(self, runner: Runner) -> None:
        """Let a block continue if the messages that it waits for are there."""
        event = self.turn_of(runner)
        if event not in self.events and runner.inbox.has(runner.request):
            self.possible(event, self.turn, runner)

    def turn(self, runner: Runner) -> None:
        """Answer a block's request."""
        request, answer = runner.request, None
        if type(request) in (Post, PostSum):
            self.transport.post(runner, request)
        elif type(request) not in NEVER_WAIT:
            answer = self.transport.collect(runner, request)
        self.resume(runner, answer)
        self.look(runner)

    def resume(self, runner: Runner, answer: Any) -> None:
        """Resume a block with the answer to its request."""
        if self.transport.observer is not None:
            self.transport.observer.answered(runner, runner.request, answer)
        self.answers[runner.place] += 1
        runner.answer(answer)

    def work(self) -> None:
        """Run the batches of all blocks that wait for one."""
        waiting = [r for r in self.runners.values() if type(r.request) is Batch]
        self.batch()
        for runner in waiting:
            self.answers[runner.place] += 1
            self.look(runner)

    # Messages and reductions ----------------------------------------------------------------------

    def send(self, event: Event, sender: Place, message: Any) -> None:
        """Let a message arrive at some time."""
        self.possible(event, self.arrive, event, sender, message)

    def arrive(self, event: Event, sender: Place, message: Any) -> None:
        """Deliver a message; its receiver may be able to continue."""
        self.transport.arrive(event, sender, message)
        runner = self.places[event[3]]
        if type(runner.request) in (Collect, CollectSum):
            self.wake(runner)

    def offer(self, kind: str) -> None:
        """Let a reduction happen if all blocks of a kind have reached it."""
        if self.reducing[kind] < self.kinds[kind]:
            return
        runners = self.runners_of(kind)
        steps = {r.inbox.step if type(r.request) is AllReduce else None for r in runners}
        if len(steps) == 1 and None not in steps:
            event = "reduce", steps.pop(), kind, self.answers[runners[0].place]
            if event not in self.events:
                self.possible(event, self.reduce_kind, runners)

    def runners_of(self, kind: str) -> list[Runner]:
        """The blocks of a kind."""
        return [runner for runner in self.runners.values() if runner.place[0] == kind]

    def reduce_kind(self, runners: list[Runner]) -> None:
        """Answer the AllReduce of all blocks of a kind."""
        self.reducing[runners[0].place[0]] = 0
        total = self.total([runner.request for runner in runners])
        for runner in runners:
            self.resume(runner, np.array(total)[()])
        for runner in runners:  # all have been resumed: none still has its old request
            self.look(runner)


def simulated(
    blocks: Sequence[Any], order: Order, pes: int, lives: Lives | None = None
) -> SimEngine:
    """An engine that follows an order, on virtual PEs; ``lives``: of blocks that exist for a time.

    ``blocks``: those that exist always.
    """
    return SimEngine(blocks, False, Network(pes), order, lives=lives)


def order_for(options: SimOptions) -> Order:
    """The order that the options ask for."""
    if options.schedule is not None:
        return Scheduled(read_schedule(options.schedule, "--schedule")[0])
    return order_of(options.order, options.seed)


def run(job: Job[SimOptions], report: Report, watcher: Watcher) -> int:
    """Run a job on this process and report its outcome; returns the exit status."""
    network, order = Network(job.options.pes), order_for(job.options)
    return run_by(partial(SimEngine, transport=network, order=order), job, report, watcher)
