"""Blocks that exist for a time: a host that is always there, and guests in some steps.

Launched drivers are tried with the app amr, in test_amr.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from miniapps import audit
from miniapps.audit import AuditedRound
from miniapps.contract import SETUP, AllReduce, Collect, MessageError, Peer, Piece, Post, PostSum
from miniapps.devices.backend import Device
from miniapps.drivers import sim
from miniapps.drivers.engine import Engine, Phase, Runner
from miniapps.drivers.headers import tag_of
from miniapps.drivers.job import RunError
from miniapps.drivers.lives import EarlyInbox, Lives
from miniapps.drivers.orders import order_of
from miniapps.drivers.outcome import Part
from miniapps.drivers.ranks import OfPlaces
from miniapps.drivers.sim.driver import Network, SimEngine
from miniapps.drivers.timing import PELog
from miniapps.workbench.run.record import _blocks_seen, _unusual

Life = Generator[Any, Any, Any]
HOST, GUEST = "host", "guest"
PLACES = [(HOST, (0,)), (HOST, (1,)), (GUEST, (0, 0)), (GUEST, (0, 1))]
BESIDE, VISIT = (1,), (0, 0)  # edges: to the other host, and between host and guest
CASES = {"serial": None} | {order: order for order in sim.ORDERS}


def greets(block: Any) -> Life:
    """Hosts greet each other and their guests, who answer; all count right greetings."""
    there = GUEST in PROBLEM.kinds_at(block.time)
    edges = [e for e, peer in block.neighbors.items() if there or peer.kind == HOST]
    mine = np.array([*block.index, block.time])
    yield Post("greeting", {edge: mine + 0 for edge in edges})
    came = yield Collect("greeting", tuple(edges))
    for edge, words in came.items():
        block.right += words.tolist() == [*block.neighbors[edge].block, block.time]


class Toy:
    """A block that makes such steps."""

    def __init__(self, index: Any, step: Callable[[Any], Life] = greets) -> None:
        self.index, self.device, self.make = index, Device(), step
        self.kind = HOST if len(index) == 1 else GUEST
        at = index[-1]
        self.neighbors = {VISIT: Peer(*PLACES[at], VISIT)}
        if self.kind == HOST:
            self.neighbors = {BESIDE: Peer(HOST, (1 - at,), BESIDE)}
            self.neighbors[VISIT] = Peer(GUEST, (0, at), VISIT)
        self.right = self.prepared = 0

    def begins(self, step: int) -> None:
        self.first = self.time = step
        MADE.append((self.kind, self.index, step))

    def setup(self) -> Life:
        self.prepared += 1
        return
        yield

    def step(self, count: int) -> Life:
        yield from self.make(self)
        self.time += count
        return False

    def state(self) -> list[Piece]:
        return [Piece(f"of {self.kind}", np.array([self.right]), self.index[-1:], (2,))]

    def measure(self) -> dict[str, Any]:
        return {}


class Problem:
    """Guests are there in steps 1 and 2, 5 and 6, and so on."""

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def kinds_at(self, step: int) -> frozenset[str]:
        return frozenset([HOST, GUEST] if step % 4 in (1, 2) and step > 0 else [HOST])

    def steps_per_round(self, step: int) -> int:
        return self.count


PROBLEM = Problem()
MADE: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()


def engine_of(
    order: str | None = None, step: Callable[[Any], Life] = greets, start: int = 0, count: int = 1
) -> Engine:
    """An engine of all places, under sim with an order, or as serial has it."""
    lives = Lives(Problem(count), PLACES, lambda index: Toy(index, step), start)
    if order is None:
        return Engine([], lives=lives)
    return SimEngine([], False, Network(2), order_of(order, 3), lives=lives)


def played(engine: Engine, steps: int, start: int = 0, count: int = 1) -> list[tuple[Any, int]]:
    """Make steps; returns which block ended a round at which step, sorted."""
    ended: list[tuple[Any, int]] = []

    def note(runner: Runner, this: Any) -> None:
        ended.append((runner.place, this.step))

    made = engine.play(Phase(start, steps, lambda step: count), ended=note)
    assert made == steps
    engine.close(made)
    return sorted(ended, key=lambda one: (one[1], PLACES.index(one[0])))


@pytest.mark.parametrize("case", CASES)
def test_blocks_come_and_go(case: str) -> None:
    """Catches a block that is kept, made twice, set up late, or missing in a step."""
    engine = engine_of(CASES[case]).setup()
    ended = played(engine, 8)
    there = {step: PROBLEM.kinds_at(step) for step in range(8)}
    assert ended == [(p, step) for step in range(8) for p in PLACES if p[0] in there[step]]
    guests = [(GUEST, (0, n), step) for step in (1, 5) for n in (0, 1)]
    assert sorted(MADE) == sorted([(HOST, (0,), 0), (HOST, (1,), 0), *guests])
    assert [(b.kind, b.right, b.prepared) for b in engine.blocks] == [(HOST, 12, 1)] * 2
    assert all(runner.block is None for runner in [*engine.places.values()][2:])


@pytest.mark.parametrize("case", CASES)
def test_blocks_that_exist_at_the_end(case: str) -> None:
    """Catches a run that ends without the state of a guest, and one that keeps it too long."""
    for steps, kinds in ((2, [HOST, HOST, GUEST, GUEST]), (3, [HOST, HOST]), (1, [HOST, HOST])):
        engine = engine_of(CASES[case]).setup()
        played(engine, steps)
        assert sorted(block.kind for block in engine.blocks) == sorted(kinds)
        assert all(block.right == 1 for block in engine.blocks if block.kind == GUEST)


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_goes_on_begins_with_the_blocks_between_two_steps(case: str) -> None:
    """Catches a resumed run that lacks a guest, or makes one that begins in its first step."""
    for start, guests in ((1, 0), (2, 2), (3, 0)):
        engine = engine_of(CASES[case], start=start).setup()
        assert [block.kind for block in engine.blocks].count(GUEST) == guests
        assert {block.first for block in engine.blocks} == {start}


class Asks:
    """Steps in which one host asks for these, whatever the step."""

    def __init__(self, *requests: Any) -> None:
        self.requests = requests

    def __call__(self, block: Any) -> Life:
        if block.index == (0,):
            yield from self.requests


WRONG = {
    "posts": ([Post("a", {VISIT: np.zeros(1)})], "posts to guest (0, 0) on edge (0, 0)"),
    "collects": ([Collect("a", (VISIT,))], "collects from guest (0, 0) on edge (0, 0)"),
    "reduces": ([AllReduce(1.0, "sum")], "yields AllReduce, but blocks of this problem exist for"),
    "adds up": ([PostSum("a", {BESIDE: np.zeros(1, int)})], "yields PostSum, but blocks of this"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("case", CASES)
def test_requests_to_blocks_that_do_not_exist(case: str, wrong: str) -> None:
    """Catches a message to nobody, a wait for it, and a sum over blocks that come and go."""
    requests, said = WRONG[wrong]
    engine = engine_of(CASES[case], Asks(*requests)).setup()
    with pytest.raises(MessageError) as caught:
        played(engine, 1)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.__notes__ == ["block (0,), step 0"]


@pytest.mark.parametrize("case", CASES)
def test_a_round_across_a_change(case: str) -> None:
    """Catches rounds in which blocks would have to begin or end."""
    engine = engine_of(CASES[case], count=2).setup()
    with pytest.raises(RunError, match=r"a round of 2 steps begins at step \d, but other"):
        played(engine, 4, count=2)
    engine = engine_of(CASES[case], Asks(), start=1, count=2)
    assert played(engine, 3, start=1, count=2) == [(place, 1) for place in PLACES]


def test_messages_that_come_before_the_block() -> None:
    """Catches an early message that is lost, or not checked when the block is there."""
    for sender, edge, error in (((HOST, (0,)), VISIT, ""), ((HOST, (1,)), VISIT, "sent by")):
        inbox = EarlyInbox((GUEST, (0, 0)))
        inbox.advance(SETUP)
        inbox.deliver(1, "a", edge, sender, np.zeros(1))
        inbox.deliver(5, "a", VISIT, (HOST, (0,)), np.ones(1))
        if error:
            with pytest.raises(MessageError, match=error):
                inbox.meet(Toy((0, 0)))
            continue
        inbox.meet(Toy((0, 0)))
        inbox.advance(1)
        assert inbox.take(Collect("a", (VISIT,)))[VISIT].tolist() == [0]
        inbox.leave()
        inbox.meet(Toy((0, 0)))
        inbox.advance(5)
        assert inbox.take(Collect("a", (VISIT,)))[VISIT].tolist() == [1]


def test_blocks_are_met_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches memory of blocks that have ended, and links that are made too late or never."""
    engine, met = engine_of().setup(), list[Any]()
    monkeypatch.setattr(engine.transport, "meet", lambda runner: met.append(runner.place))
    played(engine, 2)
    guest = weakref.ref(engine.runners[PLACES[2]].block)
    played(engine, 3, start=2)
    assert met == PLACES[2:] and guest() is None


@pytest.mark.parametrize("traced", [True, False])
def test_a_run_keeps_the_audits_of_blocks_that_ended(traced: bool) -> None:
    """Catches audits that are lost with their blocks, and bytes of blocks that are not there."""
    engine = engine_of().setup()
    for runner in engine.places.values():
        runner.audits.append(AuditedRound(1, 1))
        runner.audit_s[1] = 0.25
    job: Any = SimpleNamespace(
        new_audit=lambda: None, layout=Counted(), traced=traced, device="cpu"
    )
    part = Part.of(job, engine.places.values(), PELog(0), 0.0)
    assert [(one.step, one.blocks) for one in part.audits] == [(1, len(PLACES))]
    assert part.audit_s == {1: 0.25 * len(PLACES)}
    assert part.tables["sizes"]["block"].tolist() == [0, 1] * traced  # the hosts


class Counted:
    """A layout of the places."""

    numbers = {place: number for number, place in enumerate(PLACES)}

    def counts(self) -> dict[str, int]:
        return {HOST: 2, GUEST: 2}


def test_audited_rounds_have_the_blocks_of_their_step() -> None:
    """Catches a guest that was not audited, and rounds without guests that count as incomplete."""
    layout: Any = Counted()
    rounds = [AuditedRound(0, 1, blocks=2), AuditedRound(1, 1, blocks=2)]
    rounds += [AuditedRound(2, 1, blocks=4)]
    assert audit.missing(rounds, {0, 1, 2}, layout, PROBLEM.kinds_at) == {1}


def test_blocks_finish_the_rounds_in_which_they_exist() -> None:
    """Catches a check of missing blocks that no run passes, and one that each run passes."""
    rounds = [(step, 1) for step in range(4)]
    rows = [n for step in range(4) for n, p in enumerate(PLACES) if p[0] in PROBLEM.kinds_at(step)]
    spec: Any = SimpleNamespace(layout=Counted(), problem=PROBLEM)
    for some, seen in ((rows, 4), (rows[:-1], 3), ([*rows, 2], 3)):
        blocks = np.array([(n,) for n in some], [("block", int)])
        outcome: Any = SimpleNamespace(blocks=blocks, rounds=rounds)
        assert _blocks_seen(spec, outcome) == seen


def test_a_record_says_that_blocks_existed_for_a_time() -> None:
    """Catches a file of such a run that is refused because rows of blocks are missing."""
    outcome: Any = SimpleNamespace(stopped=None)
    assert _unusual(PROBLEM, outcome) == {"for_a_time": True}


def test_ranks_have_one_block_of_a_kind() -> None:
    """Catches two receivers with the same kind, edge and rank, whose messages would be mixed up."""
    layout: Any = Counted()
    transport = OfPlaces(1, layout)
    with pytest.raises(RunError, match="rank 1 has several blocks of one kind: host, host, guest"):
        transport.connect(dict.fromkeys(PLACES[:3]))
    transport.connect(dict.fromkeys(PLACES[1:3]))


def test_tags_of_kinds_differ() -> None:
    """Catches edges of two kinds with the same tag, and other tags than before where one is."""
    edges = [(), (0,), (1, -1), (-16, -16, -16), (15, 15, 15)]
    tags = {tag_of(edge, kind) for edge in edges[3:] for kind in range(3)}
    assert len(tags) == 6 and all(tag_of(edge) == tag_of(edge, 0) < 1 << 15 for edge in edges)
    assert max(tag_of(edge, 1) for edge in edges) < min(tag_of(edge, 2) for edge in edges)
