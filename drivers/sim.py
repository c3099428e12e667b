"""The sim driver: all blocks in one process, on virtual PEs, with messages delivered in any order.

Messages arrive in a random order, newest first, or with one edge starved. Blocks take turns in a
random order, and some migrate between steps (pickled). The state has the bits of a serial run.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from drivers.audits import Auditor
from drivers.descriptor import Asked, Driver, Options
from drivers.engine import Engine, Runner, Transport, run_phases, write_state
from drivers.job import Job, Watcher
from drivers.outcome import Part, Report, joined
from drivers.serial import PATH, fail  # noqa: F401 - drivers.load needs both
from miniapps.contract import Collect, CollectSum, Edge, Pause, Place, Post, PostSum
from miniapps.parameters import parameter, require

ORDERS = ("random", "newest", "starved")
Sent = tuple[Place, bool, tuple[Any, ...]]  # receiver, whether summed, arguments for its inbox
SERVED = {Post, PostSum, Collect, CollectSum, Pause}  # requests that a block's turn answers


@dataclass(frozen=True)
class SimOptions(Options):
    """Options of this driver alone."""

    seed: int = parameter("--sim-seed", 0, int, "draws orders of messages and turns, and moves")
    order: str = parameter("--sim-order", "random", str, "how messages arrive", choices=ORDERS)
    pes: int = parameter("--sim-pes", 2, int, "virtual PEs that blocks migrate between")

    def check(self, asked: Asked) -> None:
        """Raise InputError if there is no virtual PE."""
        require(self.pes >= 1, "--sim-pes", self.pes, "must be 1 or more")


DRIVER = Driver(
    name="sim",
    summary="all blocks in this process, messages in any order, blocks that migrate",
    file="drivers.sim",
    without="no check of blocks against other orders of messages",
    example="--driver sim --blocks 2x2 --sim-seed 7",
    options=SimOptions,
    one_process=True,
    one_pe=True,
    waits_alone=True,
)


class Network(Transport):
    """Holds messages back until the engine lets them arrive."""

    def __init__(self, options: SimOptions) -> None:
        super().__init__()
        self.options, self.random = options, Random(options.seed)
        self.pes: dict[Place, int] = {}
        self.starved: tuple[Place, Edge] | None = None
        self.sent: dict[bool, list[Sent]] = {False: [], True: []}  # True: on the starved edge
        self.waiting: set[Place] = set()  # blocks that got no answer, and no message since then

    def connect(self, runners: dict[Place, Runner]) -> None:
        """Distribute the blocks over the virtual PEs."""
        super().connect(runners)
        self.pes = {place: n % self.options.pes for n, place in enumerate(runners)}
        edges = [(place, edge) for place, r in runners.items() for edge in r.block.neighbors]
        if edges and self.options.order == "starved":
            self.starved = self.random.choice(edges)

    def deliver(self, runner: Runner, peer: Any, request: Post | PostSum, message: Any) -> None:
        """Queue a message; a message to another virtual PE is copied."""
        if self.pes[runner.place] != self.pes[peer.place] and isinstance(message, np.ndarray):
            shared, message = not message.flags.writeable, message.copy()
            message.flags.writeable = not shared
        place, edge, summed = peer.place, peer.edge, type(request) is PostSum
        which = ((edge,),) if summed else (edge, runner.place)
        arguments = (runner.inbox.step, request.phase, *which, message)
        self.sent[(place, edge) == self.starved].append((place, summed, arguments))

    def collect(self, runner: Runner, request: Collect | CollectSum) -> Any:
        """The answer to a Collect; None if messages are missing."""
        if (answer := super().collect(runner, request)) is None:
            self.waiting.add(runner.place)
        return answer

    def arrive(self, starved: bool) -> bool:
        """Deliver one message, of the starved edge or of the others; False if there is none."""
        if not (sent := self.sent[starved]):
            return False
        chosen = self.random.randrange(len(sent)) if self.options.order == "random" else -1
        sent[chosen], sent[-1] = sent[-1], sent[chosen]
        receiver, summed, arguments = sent.pop()
        inbox = self.runners[receiver].inbox
        (inbox.add if summed else inbox.deliver)(*arguments)
        self.waiting.discard(receiver)
        return True

    def some_arrive(self) -> bool:
        """Deliver up to half of the messages; False if there is none."""
        count = self.random.randint(1, 1 + len(self.sent[False]) // 2)
        return any([self.arrive(False) for _ in range(count)])


class SimEngine(Engine):
    """Resumes blocks in a random order, and migrates some between steps."""

    transport: Network

    def turns(self) -> list[Runner]:
        """The blocks that may continue, in a new random order."""
        runners, waiting = self.runners.values(), self.transport.waiting
        ready = [r for r in runners if type(r.request) in SERVED and r.place not in waiting]
        return self.transport.random.sample(ready, len(ready))

    def go_on(self) -> bool:
        """Deliver messages, or answer batches or a reduction; which comes first is random."""
        events = [self.transport.some_arrive, self.batch, self.reduce]
        self.transport.random.shuffle(events)
        return any(event() for event in events) or self.transport.arrive(True)

    def migrate(self) -> None:
        """Move some blocks, including the messages in their inboxes, to another virtual PE."""
        network = self.transport
        for place, runner in self.runners.items():
            if network.random.random() < 0.5:
                self.runners[place] = pickle.loads(pickle.dumps(runner))
                network.pes[place] = network.random.randrange(network.options.pes)

    def close(self, done: int) -> None:
        """Deliver all messages. Raises MessageError if a block has not collected one."""
        while self.transport.arrive(False) or self.transport.arrive(True):
            pass
        super().close(done)


def run(job: Job[SimOptions], report: Report, watcher: Watcher) -> int:
    """Run a job on this process and report its outcome; returns the exit status."""
    job.take_device(0)
    jit_s = job.compile()
    blocks = [job.build(index) for _, index in job.layout.numbers]
    engine = SimEngine(blocks, job.traced, Network(job.options), Auditor.of(job))
    log, done = run_phases(job, engine, 0, watcher)
    if job.store is not None:
        write_state(job.store, engine.blocks, False)
    return report(joined(job, [Part.of(job, engine.runners.values(), log, jit_s)], done, {}, PATH))
