"""Programs whose result depends on the order of events, each by one known mistake.

`RIGHT` is a program of a few lines whose blocks exchange numbers with their neighbours and reduce.
Each other program changes its block, its inbox, its network or its engine in one way.
`python tests/ordering_bugs.py` writes the table of docs/adversary.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from miniapps.contract import AllReduce, CollectSum, Exchange, Piece, Post, PostSum
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.drivers.engine import Runner
from miniapps.drivers.inbox import Inbox, Sum
from miniapps.drivers.orders import Order
from miniapps.drivers.sim.driver import Network, SimEngine
from miniapps.workbench.adversary.locate import Located, explained
from miniapps.workbench.adversary.search import Found, search
from miniapps.workbench.adversary.shrink import shrunk
from miniapps.workbench.adversary.trial import Subject

ROOT = Path(__file__).resolve().parent.parent
STEPS, LIMIT = 4, 400
Life = Generator[Any, Any, bool]


class OneStep:
    """A problem whose rounds are steps."""

    def steps_per_round(self, step: int) -> int:
        """One."""
        return 1


@dataclass
class World:
    """What mistakes let blocks share."""

    turns: int = 0
    values: dict[Any, float] = field(default_factory=dict)
    random: Any = field(default_factory=lambda: np.random.default_rng(1))


class Block:
    """A number, mixed in each step with those of the neighbours; the mixture is not symmetric."""

    kind, world = "block", World()

    def __init__(self, layout: Layout, index: Any) -> None:
        self.problem, self.device = OneStep(), Device()
        self.index, self.neighbors = index, layout.neighbors(index)
        self.number, self.time = layout.numbers["block", index], 0
        self.value = 1.0 + 0.1 * self.number
        self.total = 0
        self.ghosts: dict[Any, float] = dict.fromkeys(self.neighbors, 0.0)

    def step(self, count: int) -> Life:
        """Exchange in two phases; every other step, add up integers and find the largest value."""
        self.mix((yield from Exchange("there", self.messages())), 0.1)
        self.mix((yield from Exchange("back", self.messages())), 0.07)
        if self.time % 2:
            yield PostSum("sum", {e: np.array([self.time, 1]) for e in self.neighbors})
            total = yield CollectSum("sum", tuple(self.neighbors))
            self.total += int(total[0])
            self.value /= yield AllReduce(self.value, "max")
        self.time += count
        return False

    def messages(self) -> dict[Any, np.ndarray]:
        """The value for every neighbour."""
        return {e: np.array([self.value + 0.01 * n]) for n, e in enumerate(self.neighbors)}

    def mix(self, came: Mapping[Any, np.ndarray], weight: float) -> None:
        """Add what came, in the order of the edges."""
        for edge in self.neighbors:
            self.ghosts[edge] = float(came[edge][0])
        for number, edge in enumerate(self.neighbors):
            self.value += weight * (number + 1) * self.ghosts[edge]

    def state(self) -> list[Piece]:
        """Value and total."""
        row = np.array([[self.value, float(self.total), float(self.time)]])
        return [Piece("rows", row, None, (), np.array([self.number]))]


class OnePhase(Block):
    """One exchange per step, and sums for which no block waits for all others."""

    def step(self, count: int) -> Life:
        yield PostSum("sum", {e: np.array([self.time, 1]) for e in self.neighbors})
        self.mix((yield from Exchange("there", self.messages())), 0.1)
        total = yield CollectSum("sum", tuple(self.neighbors))
        self.total = 3 * self.total + int(total[0])
        self.time += count
        return False


class ReducesFirst(Block):
    """A reduction at the begin of each step."""

    def step(self, count: int) -> Life:
        self.value /= yield AllReduce(self.value, "max")
        self.mix((yield from Exchange("there", self.messages())), 0.1)
        self.time += count
        return False


# Mistakes in blocks -------------------------------------------------------------------------------


class LeftBehind(Block):
    """State left behind in a migration."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"total": 0}


class ClockRestarts(Block):
    """A step counter that starts again after a migration."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"time": self.time - self.time % 2}


class TurnsCounted(Block):
    """Blocks that take their number from the order of their turns."""

    def mix(self, came: Mapping[Any, np.ndarray], weight: float) -> None:
        self.world.turns += 1
        super().mix(came, weight)
        self.value += 1e-3 * (self.world.turns % 7) * self.number


class SharedGenerator(Block):
    """One generator of random numbers for all blocks."""

    def mix(self, came: Mapping[Any, np.ndarray], weight: float) -> None:
        super().mix(came, weight)
        self.value += 0.01 * self.world.random.random()


class ReadsNeighbour(Block):
    """A neighbour's memory read in place of its message."""

    def messages(self) -> dict[Any, np.ndarray]:
        self.world.values[self.index] = self.value
        return super().messages()

    def mix(self, came: Mapping[Any, np.ndarray], weight: float) -> None:
        peer = self.neighbors[(1, 0)].block
        super().mix(came, weight)
        self.value += 0.01 * self.world.values[peer]


class SendBuffer(Block):
    """A posted buffer that is used again before it was received."""

    def messages(self) -> dict[Any, np.ndarray]:
        buffers = self.__dict__.setdefault("buffers", {})
        for edge in self.neighbors:
            buffer = buffers.setdefault(edge, np.zeros(1))
            buffer.flags.writeable = True
            buffer[0] = self.value
        return dict(buffers)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "buffers"}


class SharedMessage(Block):
    """A message to all neighbours that a receiver changes."""

    def messages(self) -> dict[Any, np.ndarray]:
        return dict.fromkeys(self.neighbors, np.array([self.value]))

    def mix(self, came: Mapping[Any, np.ndarray], weight: float) -> None:
        for array in came.values():
            if array.base is not None:
                array.base.flags.writeable = True
            array.flags.writeable = True
            array *= 1.01
        super().mix(came, weight)


class ArrivalSum(Block):
    """Floats added in the order in which messages arrive."""

    def mix(self, came: Mapping[Any, np.ndarray], weight: float) -> None:
        self.value += weight * reduce(lambda a, b: a / 3 + b, (float(a[0]) for a in came.values()))


# Mistakes in inboxes ------------------------------------------------------------------------------


class ByArrival(Inbox):
    """Gives messages in the order in which they came."""

    def take(self, request: Any) -> Any:
        messages = self.waiting.get((self.step, getattr(request, "phase", "")), {})
        order = list(messages)
        taken = super().take(request)
        if type(request) is CollectSum or taken is None:
            return taken
        return {edge: taken[edge] for edge in sorted(taken, key=order.index)}


class Stale(Inbox):
    """One receive buffer per edge, which is read even if nothing new has come."""

    def __init__(self, block: Any) -> None:
        super().__init__(block)
        self.last: dict[Any, np.ndarray] = {}

    def deliver(self, step: int, phase: str, edge: Any, sender: Any, array: np.ndarray) -> None:
        self.last[edge] = array

    def has(self, request: Any) -> bool:
        if type(request) is CollectSum:
            return super().has(request)
        return self.last.keys() >= set(request.edges)

    def take(self, request: Any) -> Any:
        if type(request) is CollectSum:
            return super().take(request)
        return {edge: self.last[edge] for edge in request.edges}


class Keyed(Inbox):
    """An inbox that finds messages by a key of its own; messages of one key wait in a queue."""

    newest = False

    def __init__(self, block: Any) -> None:
        super().__init__(block)
        self.queues = defaultdict[Any, list[np.ndarray]](list)

    def key(self, step: int, phase: str, edge: Any) -> Any:
        """What a message is found by."""
        raise NotImplementedError

    def deliver(self, step: int, phase: str, edge: Any, sender: Any, array: np.ndarray) -> None:
        self.queues[self.key(step, phase, edge)].append(array)

    def has(self, request: Any) -> bool:
        if type(request) is CollectSum:
            return super().has(request)
        wanted = Counter(self.key(self.step, request.phase, edge) for edge in request.edges)
        return all(len(self.queues[key]) >= n for key, n in wanted.items())

    def take(self, request: Any) -> Any:
        if type(request) is CollectSum:
            return super().take(request)
        where = -1 if self.newest else 0
        keys = {edge: self.key(self.step, request.phase, edge) for edge in request.edges}
        return {edge: self.queues[key].pop(where) for edge, key in keys.items()}


class PhaseOnly(Keyed):
    """Messages found by phase and edge, without the step."""

    newest = True

    def key(self, step: int, phase: str, edge: Any) -> Any:
        return phase, edge


class StepOnly(Keyed):
    """Messages found by step and edge, without the phase."""

    def key(self, step: int, phase: str, edge: Any) -> Any:
        return step, edge


class InOrder(Keyed):
    """Messages of an edge taken in the order of arrival, as if none overtook another."""

    def key(self, step: int, phase: str, edge: Any) -> Any:
        return edge


class SenderOnly(Keyed):
    """Messages found by sender only, where two edges lead to one block."""

    def key(self, step: int, phase: str, edge: Any) -> Any:
        return step, phase, self.senders[edge]


class AnySender(Keyed):
    """Messages of a phase taken from whichever block they come."""

    def key(self, step: int, phase: str, edge: Any) -> Any:
        return step, phase


class OneBuffer(Inbox):
    """One receive buffer per edge, overwritten by a message that comes early."""

    def __init__(self, block: Any) -> None:
        super().__init__(block)
        self.buffers: dict[Any, np.ndarray] = {}

    def deliver(self, step: int, phase: str, edge: Any, sender: Any, array: np.ndarray) -> None:
        buffer = self.buffers.setdefault(edge, np.empty_like(array))
        buffer[...] = array
        super().deliver(step, phase, edge, sender, buffer)


class DropsEarly(Inbox):
    """A message of a later step is thrown away."""

    def deliver(self, step: int, phase: str, edge: Any, sender: Any, array: np.ndarray) -> None:
        if step == self.step:
            super().deliver(step, phase, edge, sender, array)


class CountsOnly(Inbox):
    """A Collect that counts messages and takes the old values of those that are missing."""

    def __init__(self, block: Any) -> None:
        super().__init__(block)
        self.came, self.last = 0, {}

    def deliver(self, step: int, phase: str, edge: Any, sender: Any, array: np.ndarray) -> None:
        super().deliver(step, phase, edge, sender, array)
        self.came += 1

    def has(self, request: Any) -> bool:
        if type(request) is CollectSum:
            return super().has(request)
        return self.came >= len(request.edges)

    def take(self, request: Any) -> Any:
        if type(request) is CollectSum:
            return super().take(request)
        self.came -= len(request.edges)
        self.last |= self.waiting.pop((self.step, request.phase), {})
        return {edge: self.last.get(edge, np.zeros(1)) for edge in request.edges}

    def advance(self, step: int) -> None:
        self.step = step

    def _late(self, step: int, phase: str, edge: Any) -> Any:
        raise NotImplementedError


class SumsWithoutStep(Inbox):
    """Sums found by phase, without the step."""

    def add(self, step: int, phase: str, edges: Any, array: np.ndarray) -> None:
        found = self.sums.setdefault((0, phase), Sum(set(), np.zeros_like(array)))
        found.total[...] += array

    def has(self, request: Any) -> bool:
        if type(request) is not CollectSum:
            return super().has(request)
        found = self.sums.get((0, request.phase))
        return found is not None and int(found.total[1]) >= len(request.edges)

    def take(self, request: Any) -> Any:
        if type(request) is not CollectSum:
            return super().take(request)
        return self.sums.pop((0, request.phase)).total

    def advance(self, step: int) -> None:
        self.step = step


# Mistakes in networks and engines -----------------------------------------------------------------


class Unchecked(Network):
    """Passes arrays on by reference, without making them read-only."""

    def post(self, runner: Runner, request: Post | PostSum) -> None:
        for edge, message in request.messages.items():
            event = "sum" if type(request) is PostSum else "message"
            peer = runner.block.neighbors[edge]
            key = event, runner.inbox.step, request.phase, peer.place, peer.edge
            if self.observer is not None:
                self.observer.posted(key, runner.place, message)
            self.send(key, runner.place, message)


class LosesInbox(SimEngine):
    """Messages that came early are lost when their receiver migrates."""

    def move(self, place: Any, pe: int) -> None:
        super().move(place, pe)
        self.runners[place].inbox.waiting.clear()


class OldAddress(SimEngine):
    """A message that was sent before its receiver migrated reaches the copy it left."""

    def move(self, place: Any, pe: int) -> None:
        lost = [e for e in self.events if e[0] == "message" and e[3] == place]
        if pe != self.transport.pes[place]:
            for event in lost:
                del self.events[event]
        super().move(place, pe)


class SumsTwice(SimEngine):
    """A contribution to a sum is forwarded and counted twice when the receiver migrates."""

    def move(self, place: Any, pe: int) -> None:
        changed = pe != self.transport.pes[place]
        super().move(place, pe)
        if changed:
            for found in self.runners[place].inbox.sums.values():
                found.total[...] *= 2


class ContributionOrder(SimEngine):
    """A sum of floats in the order in which blocks contribute."""

    def __init__(self, *arguments: Any) -> None:
        self.reached: dict[Any, None] = {}
        super().__init__(*arguments)

    def look(self, runner: Runner) -> None:
        if type(runner.request) is AllReduce:
            self.reached[runner.place] = None
        super().look(runner)

    def total(self, requests: list[AllReduce]) -> Any:
        order, self.reached = list(self.reached), {}
        values = [self.runners[place].request.value for place in order]
        return reduce(lambda a, b: a / 3 + b, values)


class OldReduction(SimEngine):
    """A reduction that answers with the last result if the new one is not complete."""

    last = 1.0

    def look(self, runner: Runner) -> None:
        super().look(runner)
        if type(runner.request) is AllReduce and runner.inbox.step > 1:
            event = self.turn_of(runner)
            if event not in self.events:
                self.possible(event, self.give_up, runner, event)

    def give_up(self, runner: Runner, event: Any) -> None:
        """Answer with what there is."""
        if type(runner.request) is AllReduce and self.turn_of(runner) == event:
            self.resume(runner, np.float64(self.last))
            self.look(runner)

    def offer(self, kind: str) -> None:
        if all(type(r.request) is AllReduce for r in self.runners_of(kind)):
            super().offer(kind)

    def reduce_kind(self, runners: list[Runner]) -> None:
        waiting = [r for r in runners if type(r.request) is AllReduce]
        if waiting:
            self.last = float(self.total([r.request for r in waiting]))
            super().reduce_kind(waiting)


class OpenReduction(SimEngine):
    """A reduction that is open when a block migrates and does not wait for that block.

    Each PE waits for as many contributions as it had blocks when the first block contributed.
    """

    def __init__(self, *arguments: Any) -> None:
        self.expected = Counter[int]()
        super().__init__(*arguments)

    def look(self, runner: Runner) -> None:
        if type(runner.request) is AllReduce and not self.expected:
            self.expected.update(self.transport.pes.values())
        super().look(runner)

    def move(self, place: Any, pe: int) -> None:
        before = self.transport.pes[place]
        if self.expected and before != pe:
            self.expected[before] -= 1
        super().move(place, pe)

    def offer(self, kind: str) -> None:
        """Reduce when every PE has the contributions that it expects."""
        ready = [r for r in self.runners_of(kind) if type(r.request) is AllReduce]
        here = Counter(self.transport.pes[runner.place] for runner in ready)
        event = "reduce", ready[0].inbox.step, kind, self.answers[ready[0].place]
        enough = all(here[pe] >= n for pe, n in self.expected.items())
        if enough and event not in self.events:
            self.possible(event, self.close_reduction, kind)

    def close_reduction(self, kind: str) -> None:
        """Answer those that have contributed; the others get the result when they ask."""
        ready = [r for r in self.runners_of(kind) if type(r.request) is AllReduce]
        self.expected.clear()
        self.reduce_kind(ready)


class SeededByPE(SimEngine):
    """Blocks that draw random numbers from the generator of their PE."""

    def begin(self, place: Any, this: Any) -> None:
        super().begin(place, this)
        if this.step >= 0:
            self.runners[place].block.value *= 1 + 1e-3 * self.transport.pes[place]


@dataclass(frozen=True)
class Bug:
    """A wrong program: the classes that differ from the right one, and its grid of blocks."""

    name: str
    block: type[Block] = Block
    inbox: type[Inbox] = Inbox
    network: type[Network] = Network
    engine: type[SimEngine] = SimEngine
    grid: tuple[int, int] = (3, 3)

    @property
    def what(self) -> str:
        """The mistake: the first line of the docstring of the class that makes it."""
        right = (Block, OnePhase, ReducesFirst, Inbox, Network, SimEngine)
        made = self.block, self.inbox, self.network, self.engine
        own = next(mine for mine in made if mine not in right)
        return str(own.__doc__).splitlines()[0].rstrip(".")

    def subject(self) -> Subject:
        """The program."""
        layout = Layout.create((9, 9), (True, True), self.grid[0] * self.grid[1], 1, self.grid)

        def blocks() -> list[Block]:
            Block.world = World()
            return [self.block(layout, index) for index in layout.indices()]

        def engine(made: Any, order: Order) -> SimEngine:
            engine = self.engine(made, False, self.network(2), order)
            for runner in engine.runners.values():
                runner.inbox = self.inbox(runner.block)
            return engine

        return Subject(blocks, engine, STEPS)


RIGHT = (Bug("right"), Bug("one phase", OnePhase), Bug("reduces first", ReducesFirst))
BUGS = (
    Bug("left behind", LeftBehind),
    Bug("clock restarts", ClockRestarts),
    Bug("turns counted", TurnsCounted),
    Bug("shared generator", SharedGenerator),
    Bug("reads neighbour", ReadsNeighbour),
    Bug("send buffer", SendBuffer, network=Unchecked),
    Bug("shared message", SharedMessage, network=Unchecked),
    Bug("arrival sum", ArrivalSum, inbox=ByArrival),
    Bug("stale buffer", inbox=Stale),
    Bug("phase without step", OnePhase, inbox=PhaseOnly),
    Bug("step without phase", inbox=StepOnly),
    Bug("no overtaking", inbox=InOrder),
    Bug("sender only", inbox=SenderOnly, grid=(2, 2)),
    Bug("any sender", inbox=AnySender),
    Bug("one buffer", inbox=OneBuffer),
    Bug("drops early", inbox=DropsEarly),
    Bug("counts only", inbox=CountsOnly),
    Bug("sums without step", OnePhase, inbox=SumsWithoutStep),
    Bug("loses inbox", engine=LosesInbox),
    Bug("old address", engine=OldAddress),
    Bug("sums twice", OnePhase, engine=SumsTwice),
    Bug("contribution order", engine=ContributionOrder),
    Bug("old reduction", engine=OldReduction),
    Bug("open reduction", ReducesFirst, engine=OpenReduction),
    Bug("seeded by PE", engine=SeededByPE),
)


class Hunted(NamedTuple):
    """The search, the length of the schedule when it was small, the place, and the seconds."""

    found: Found
    length: int
    where: Located
    seconds: float


def hunted(bug: Bug) -> Hunted:
    """Search, shrink and locate."""
    begun, subject = perf_counter(), bug.subject()
    found = search(subject, LIMIT, 60)
    assert found.wrong is not None, bug.name
    small, where = explained(subject, shrunk(subject, found.schedule, found.wrong))
    return Hunted(found, len(small), where, perf_counter() - begun)


def row(bug: Bug, seen: Hunted) -> str:
    """The bug's row in the table of docs/adversary.md, without the time."""
    lengths = f"{len(seen.found.schedule)} | {seen.length}"
    return f"| {bug.what} | {seen.found.tried} | {lengths} | {seen.where.sentence} |"


def main() -> None:
    """Write the table."""
    page = ROOT / "docs/adversary.md"
    lines = ["| mistake | schedules | exceptions | needed | located | s |", "|---|" + "---|" * 5]
    for bug in BUGS:
        seen = hunted(bug)
        lines.append(f"{row(bug, seen)} {seen.seconds:.1f} |")
    text = page.read_text()
    head, _, rest = text.partition("| mistake |")
    _, _, tail = rest.partition("\n\n")
    page.write_text(head + "\n".join(lines) + "\n\n" + tail)


if __name__ == "__main__":
    main()
