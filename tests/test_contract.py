"""The contract in one process: inboxes, messages, engine. test_conformance.py runs all drivers."""

from __future__ import annotations

import itertools
import pickle
import pickletools
from collections.abc import Callable, Generator, Iterator
from functools import partial, reduce
from typing import Any

import numpy as np
import pytest
import support

from miniapps import apps
from miniapps.contract import (
    EXACT,
    REDUCTIONS,
    AllReduce,
    Batch,
    Check,
    Collect,
    CollectSum,
    Exchange,
    Measure,
    MessageError,
    Pause,
    Peer,
    Post,
    PostSum,
    checked_message,
    combine,
)
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.devices.messages import HEADER_BYTES, packed
from miniapps.drivers import sim, timing
from miniapps.drivers.engine import Engine
from miniapps.drivers.inbox import Inbox
from miniapps.drivers.orders import order_of
from miniapps.drivers.reduction import ADDED, packed_value, result_of
from miniapps.drivers.sim.driver import SimEngine
from miniapps.drivers.timing import PELog

Steps = Callable[["Toy", int], Generator[Any, Any, Any]]
ENGINES: list[Callable[[list[Any]], Engine]] = [Engine]  # the last one is used
PERIODIC_GRIDS = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (1, 3)]


class Toy:
    """A block whose step is given from outside."""

    kind = "block"

    def __init__(self, layout: Layout, index: tuple[int, ...], steps: Steps) -> None:
        self.index, self.device = index, Device()
        self.neighbors = layout.neighbors(index)
        self.steps = steps
        self.seen: list[Any] = []

    def step(self, count: int) -> Generator[Any, Any, Any]:
        """What was given."""
        return self.steps(self, count)


def engine_of(*steps: Steps, grid: tuple[int, ...] = (2, 1)) -> Engine:
    """Toys on a periodic grid; one kind of step for all, or one for each."""
    layout = Layout.create((7, 5), (True, True), int(np.prod(grid)), 1, grid)
    every = steps if len(steps) > 1 else steps * layout.pes
    toys = zip(layout.indices(), every, strict=True)
    return ENGINES[-1]([Toy(layout, index, one) for index, one in toys])


def in_a_row(count: int, steps: Steps, device: Device) -> list[Toy]:
    """Toys on a device, on a grid of one row."""
    layout = Layout.create((7, 5), (True, True), count, 1, (count, 1))
    toys = [Toy(layout, index, steps) for index in layout.indices()]
    for toy in toys:
        toy.device = device
    return toys


def simulated(order: str) -> Callable[[list[Any]], Engine]:
    """What makes an engine of the sim driver that delivers messages in some order."""

    def make(blocks: list[Any]) -> Engine:
        chosen = order_of(order, 3)
        chosen.move = lambda *_: None  # type: ignore[method-assign]  # some toys do not pickle
        return SimEngine(blocks, order=chosen)

    return make


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that makes an engine of toys under serial, and under sim in each order."""
    if "engine_of" in metafunc.function.__code__.co_names:
        metafunc.fixturenames.append("driver")
        metafunc.parametrize("driver", ["serial", *sim.ORDERS])


@pytest.fixture(autouse=True)
def _engine_asked_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let `engine_of` make engines of the driver that the test's name says."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("driver")
    ENGINES.append(Engine if name in (None, "serial") else simulated(name))
    yield
    ENGINES.pop()


def messages(toy: Toy, value: float = 1.0) -> dict[Any, np.ndarray]:
    """A small message for every edge."""
    return {edge: np.full(3, value) for edge in toy.neighbors}


def exchange(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """A step as it should be."""
    toy.seen.append((yield from Exchange("halo", messages(toy))))


# 1. Turns and rounds -----------------------------------------------------------------------------


class Behind(Device):
    """A device on which work is not done yet when a kernel has been called."""

    lag = 1


@pytest.mark.parametrize(("behind", "order"), [(True, "aaa bababa bbb"), (False, "abab abab abab")])
def test_others_go_first_where_a_block_would_wait(behind: bool, order: str) -> None:
    """Catches an engine that waits for one block's work before the others have asked for theirs."""
    seen = []

    def waits(toy: Toy, count: int) -> Generator[Any, Any, None]:
        yield AllReduce(1.0, "max")
        for _ in range(2):
            seen.append("a")
            yield Pause()
            seen.append("b")

    toys = in_a_row(3, waits, Behind() if behind else Device())
    Engine(toys).round(0, 1)
    assert "".join(seen) == order.replace(" ", "")


def test_round_tells_when_blocks_are_finished() -> None:
    """Catches a run that goes on after the tolerance is met, and count that does not arrive."""

    def ends(toy: Toy, count: int) -> Generator[Any, Any, bool]:
        yield from Exchange("halo", messages(toy))
        return count == 7

    engine = engine_of(ends)
    assert engine.round(0, 3) is False
    assert engine.round(3, 7) is True


# 2. A yielded array belongs to the driver --------------------------------------------------------


def test_packed_message_is_taken_away_too() -> None:
    """Catches a message with room for a header that stays writable through its own name."""
    array = packed(np.arange(15.0).reshape(5, 3)[:, ::2])
    travelling = checked_message((1, 0), array)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 2.0
    assert travelling.flags.writeable
    assert array.base.nbytes == HEADER_BYTES + array.nbytes


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(4, 3)[:, 1],
        np.arange(12.0).reshape(4, 3).T,
        np.arange(12.0)[::-1],
        np.asfortranarray(np.arange(12.0).reshape(4, 3)),
        [1.0, 2.0],
        1.0,
        b"bytes",
    ],
    ids=["column", "transposed", "reversed", "fortran", "list", "number", "bytes"],
)
def test_only_contiguous_arrays_travel(array: Any) -> None:
    """Catches what Charm4Py 1.1 would corrupt without a word: arrays that are not contiguous."""

    def sends(toy: Toy, count: int) -> Generator[Any, Any, None]:
        yield Post("halo", dict.fromkeys(toy.neighbors, array))

    with pytest.raises(MessageError, match=r"edge \(-1, 0\): must be a C-contiguous numpy array"):
        engine_of(sends).round(0, 1)


# 3. Edges are labelled as the receiver sees them -------------------------------------------------


@pytest.mark.parametrize("grid", PERIODIC_GRIDS)
def test_echo_notices_swapped_edges(grid: tuple[int, int]) -> None:
    """Catches an echo app that would not notice a driver that confuses two edges."""
    problem = support.small_problem(apps.load("echo"), size=(7, 5))
    assert support.solve("echo", problem, grid, 5).failed == set()
    with support.with_fault("echo", "messages: misrouted"):
        assert "wrong messages" in support.solve("echo", problem, grid, 5).failed


def test_echo_tells_all_messages_apart() -> None:
    """Catches an echo app that takes a message of another step, phase, sender or edge for right."""
    block = support.blocks_of("echo", support.small_problem(apps.load("echo")), (2, 3))[0]
    senders, edges = itertools.product((0, 1), (0, 1, 2)), block.neighbors
    messages = set()
    for block.time, *words in itertools.product((0, 1), (0, 1), senders, edges):
        messages.add(block.message(*words).tobytes())
    assert len(messages) == 2 * 2 * 6 * 4


# 4. Messages carry phase and step ----------------------------------------------------------------


@pytest.fixture
def inbox() -> Inbox:
    """The inbox of the middle one of three blocks, waiting in step 5."""
    layout = Layout.create((7, 5), (False, False), 3, 1, (3, 1))
    box = Inbox(Toy(layout, (1, 0), exchange))
    box.advance(5)
    return box


LOW, HIGH = (-1, 0), (1, 0)
BOTH = Collect("halo", (LOW, HIGH))


def test_inbox_hands_over_what_came(inbox: Inbox) -> None:
    """Catches an inbox that is complete too early, mixes edges up, or gives a message twice."""
    assert inbox.take(BOTH) is None
    inbox.deliver(5, "halo", HIGH, ("block", (2, 0)), np.array([2.0]))
    assert inbox.take(BOTH) is None
    inbox.deliver(5, "halo", LOW, ("block", (0, 0)), np.array([0.0]))
    assert inbox.take(Collect("back", (LOW, HIGH))) is None
    assert inbox.take(BOTH) == {LOW: [0.0], HIGH: [2.0]}
    assert inbox.take(BOTH) is None
    inbox.advance(6)


def test_inbox_keeps_what_came_early(inbox: Inbox) -> None:
    """Catches a neighbour's message of the next step or phase that is taken for this one's."""
    inbox.deliver(6, "halo", LOW, ("block", (0, 0)), np.array([6.0]))
    inbox.deliver(5, "back", LOW, ("block", (0, 0)), np.array([55.0]))
    assert inbox.take(Collect("halo", (LOW,))) is None
    inbox.deliver(5, "halo", LOW, ("block", (0, 0)), np.array([5.0]))
    for phase, value in (("halo", 5.0), ("back", 55.0)):
        assert inbox.take(Collect(phase, (LOW,)))[LOW] == [value]
    inbox.advance(6)
    assert inbox.take(Collect("halo", (LOW,)))[LOW] == [6.0]


def test_inbox_collects_edges_one_by_one(inbox: Inbox) -> None:
    """Catches a Collect of some edges that throws the others away; of none is always complete."""
    for edge, sender in ((LOW, (0, 0)), (HIGH, (2, 0))):
        inbox.deliver(5, "halo", edge, ("block", sender), np.array([1.0]))
    assert inbox.take(Collect("halo", ())) == {}
    assert list(inbox.take(Collect("halo", (LOW,)))) == [LOW]
    assert inbox.take(BOTH) is None
    assert list(inbox.take(Collect("halo", (HIGH,)))) == [HIGH]


@pytest.mark.parametrize(
    ("step", "edge", "sender", "word"),
    [
        (4, LOW, (0, 0), "late: the block is at step 5"),
        (5, LOW, (2, 0), "not that neighbour"),
        (5, LOW, (1, 0), "not that neighbour"),
        (5, (0, 1), (1, 0), "not that neighbour"),
        (5, (-1, -1), (0, 0), "not that neighbour"),
    ],
    ids=["old step", "other neighbour", "itself", "edge without neighbour", "corner"],
)
def test_inbox_refuses(inbox: Inbox, step: int, edge: Any, sender: Any, word: str) -> None:
    """Catches a driver that delivers the wrong message: the error names step, phase and edge."""
    with pytest.raises(MessageError) as caught:
        inbox.deliver(step, "halo", edge, ("block", sender), np.array([1.0]))
    text = str(caught.value)
    assert word in text and f"step {step}, phase 'halo', edge {edge}" in text and "(1, 0)" in text


def test_inbox_refuses_to_leave_messages_behind(inbox: Inbox) -> None:
    """Catches a message that no Collect ever asked for."""
    inbox.deliver(5, "halo", LOW, ("block", (0, 0)), np.array([1.0]))
    with pytest.raises(MessageError, match="never collected"):
        inbox.advance(6)


# 5. Between steps a block pickles ----------------------------------------------------------------

VARIANTS: list[dict[str, Any]] = [
    {},
    {"time_tile": 3},
    {"fft": True, "size": (6, 5, 7)},
    {"preconditioner": "sgs"},
    {"pipelined": True},
]


# Of others test_sim.py moves the blocks.
LASTING = [n for n in apps.names() if support.small_problem(apps.load(n)).kinds_at(0) is None]


def cases() -> list[tuple[str, dict[str, Any]]]:
    """Lasting blocks of every app's tiny preset, also with temporal blocking or transforms."""
    names = LASTING
    fields = {name: apps.load(name).Problem.__dataclass_fields__ for name in names}
    return [(n, v) for n, v in itertools.product(names, VARIANTS) if set(v) <= set(fields[n])]


def advanced(blocks: list[Any], steps: int, between: Callable[[Any], Any]) -> list[Any]:
    """Blocks after some steps, each put through ``between`` before every round."""
    step = 0
    Engine(blocks).setup()
    while step < steps:
        blocks = [between(block) for block in blocks]
        count = min(blocks[0].problem.steps_per_round(step), steps - step)
        Engine(blocks).round(step, count)
        step += count
    return blocks


@pytest.mark.parametrize(("app", "values"), cases())
def test_blocks_migrate_between_steps(app: str, values: dict[str, Any]) -> None:
    """Catches state that is lost or shared when a block moves, and messages open between steps.

    Each round begins with new inboxes too, so that nothing may wait in them.
    """
    problem = support.small_problem(apps.load(app), **values)
    grid = support.cut_of(problem)
    stayed = advanced(support.blocks_of(app, problem, grid), 10, lambda block: block)
    moved = advanced(
        support.blocks_of(app, problem, grid), 10, lambda block: pickle.loads(pickle.dumps(block))
    )
    assert support.state_hash_of(moved) == support.state_hash_of(stayed)
    for one, other in zip(moved, stayed, strict=True):
        assert one.measure().keys() == other.measure().keys()
        for a, b in zip(one.measure().values(), other.measure().values(), strict=True):
            assert a.op == b.op and np.array_equal(a.value, b.value)


@pytest.mark.parametrize(("app", "values"), cases())
def test_pickles_hold_nothing_that_cannot_move(app: str, values: dict[str, Any]) -> None:
    """Catches a block that carries a module, a kernel, a generator or a communicator along."""
    problem = support.small_problem(apps.load(app), **values)
    blocks = advanced(
        support.blocks_of(app, problem, support.cut_of(problem)), 4, lambda block: block
    )
    data = pickle.dumps(blocks[0], protocol=0)
    named = {
        argument.split(" ")[0]
        for opcode, argument, _ in pickletools.genops(data)
        if opcode.name == "GLOBAL"
    }
    assert named, "the pickle names no class at all"
    plain = {
        "copy_reg",
        "copyreg",
        "__builtin__",
        "builtins",
        "_codecs",
        "miniapps.devices.backend",
    }
    rest = {name for name in named if name.split(".")[0] != "numpy" and not of_apps(name)}
    assert rest <= plain, rest


def of_apps(module: str) -> bool:
    """Whether a module belongs to an app, or to what all apps share."""
    package, *inside = module.split(".")
    return package == "miniapps" and inside[0] not in apps.PARTS


def held_bytes(holder: Any) -> int:
    """Bytes of the arrays that a block or a part of it takes along, the problem aside."""
    held, state = 0, holder.__getstate__()
    inside = [item for name in ("vectors", "sent") for item in state.get(name, {}).items()]
    for name, value in [*state.items(), *inside]:
        if isinstance(value, np.ndarray):
            held += value.nbytes
        elif of_apps(type(value).__module__) and name != "problem":
            held += held_bytes(value)
    return held


@pytest.mark.parametrize("app", LASTING)
def test_blocks_pickle_small(app: str) -> None:
    """Catches a block that drags the whole problem, its peers or its old messages along."""
    problem = support.small_problem(apps.load(app))
    one, *_ = advanced(support.blocks_of(app, problem, support.cut_of(problem)), 4, lambda b: b)
    assert len(pickle.dumps(one)) < held_bytes(one) + 4000


# 6. Lengths, types, reductions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "value", "result"),
    [
        ("sum", lambda n: n + 1, 10),
        ("min", lambda n: 0.5 - n, -2.5),
        ("max", lambda n: float(n), 3.0),
        ("sum", lambda n: np.array([n, 1, -n]), [6, 4, -6]),
        ("min", lambda n: np.array([[n, -n], [2.0, 7]]), [[0, -3], [2, 7]]),
        ("max", lambda n: np.array([n == 2, n < 0]), [True, False]),
        ("max", lambda n: np.array([n]), [3]),
        ("max", lambda n: np.nan if n == 1 else n, np.nan),
        ("min", lambda n: np.nan if n == 3 else n, np.nan),
    ],
)
def test_allreduce(op: str, value: Callable[[int], Any], result: Any) -> None:
    """Catches a reduction that leaves a block out, counts one twice, or loses a NaN."""

    def reduces_value(toy: Toy, count: int) -> Generator[Any, Any, None]:
        toy.seen.append((yield AllReduce(value(2 * toy.index[0] + toy.index[1]), op)))

    engine = engine_of(reduces_value, grid=(2, 2))
    engine.round(0, 1)
    for toy in engine.blocks:
        assert np.shape(toy.seen[0]) == np.shape(result)
        assert np.array_equal(toy.seen[0], result, equal_nan=True)


@pytest.mark.parametrize(
    ("op", "value"), [("sum", True), ("max", False), ("min", np.uint8(7)), ("max", np.uint64(7))]
)
def test_allreduce_of_many_processes(op: str, value: Any) -> None:
    """Catches 256 times True that add up to False, and unsigned integers without a minimum."""
    total = reduce(REDUCTIONS[op], [packed_value(value, op)] * 256)
    found = result_of(total, value, op)
    assert found == value and found.dtype == np.asarray(value).dtype


@pytest.mark.parametrize("dtype", [">f8", ">f4"])
@pytest.mark.parametrize(("op", "right"), [("sum", 3), ("min", 1), ("max", 2), (EXACT, 3)])
def test_allreduce_of_another_byte_order(op: str, right: float, dtype: str) -> None:
    """Catches bits that are compared in the wrong order: the maximum of 1 and 2 was 1."""
    values = [np.array([n], dtype) for n in (1, 2)]
    one, other = (packed_value(value, op) for value in values)
    total = REDUCTIONS[ADDED.get(op, op)](one, other)
    assert result_of(total, values[0], op).tolist() == [right]


@pytest.mark.parametrize("op", ["product", "mean", "SUM", "", None])
def test_unknown_reduction_is_refused(op: Any) -> None:
    """Catches a misspelt operation that fails only inside a driver, or only in one of them."""
    with pytest.raises(ValueError, match="must be one of sum, min, max"):
        AllReduce(1.0, op)


def test_measures_join_name_by_name() -> None:
    """Catches measures of blocks that overwrite each other instead of being reduced."""
    one = {"n": Measure("sum", 2), "low": Measure("min", -1.0), "modes": Measure("sum", np.ones(2))}
    two = {"n": Measure("sum", 3), "low": Measure("min", np.nan), "new": Measure("max", 7)}
    both = combine(one, two)
    assert both["n"].value == 5 and np.isnan(both["low"].value) and both["new"].value == 7
    assert both["modes"].value.tolist() == [1, 1] and combine({}, one).keys() == one.keys()
    assert one["n"].value == 2


@pytest.mark.parametrize(
    ("value", "limit", "ok"),
    [(0, 0, True), (1e-16, 0, False), (np.nan, 1, False), (np.inf, 1, False), (-1, 0, True)],
)
def test_check_fails_for_nan(value: float, limit: float, ok: bool) -> None:
    """Catches a check of the form "not greater than", which a NaN would pass."""
    assert Check("x", value, limit).ok is ok


@pytest.mark.parametrize("part", [slice(None, -1), slice(1, None)])
def test_field_that_looks_like_a_packed_message(part: slice) -> None:
    """Catches a header written over a block's own field: 8 columns are 64 bytes, as a header is."""
    field = np.ones((5, 8))
    with pytest.raises(MessageError, match="view of other memory"):
        checked_message((1, 0), field[part])
    with pytest.raises(MessageError, match="view of other memory"):
        checked_message((1, 0), np.frombuffer(bytes(64)))


def test_structured_messages_are_refused() -> None:
    """Catches rows of named fields, which Charm4Py 1.1 cannot unpack on the other PE."""
    rows = np.zeros(3, [("x", "f8"), ("id", "i8")])
    for array in (rows, np.array(["text"]), np.array([None])):
        with pytest.raises(MessageError, match="must hold numbers"):
            checked_message((1, 0), array)


# 7. One array to many, and the sum of many -------------------------------------------------------


def test_inbox_adds_each_edge_once(inbox: Inbox) -> None:
    """Catches a sum that takes a message twice, late, or from an edge that is not there."""
    inbox.add(5, "sum", (LOW,), np.array([3]))
    assert inbox.take(CollectSum("sum", (LOW, HIGH))) is None
    for edges, words in (((LOW,), "arrived twice"), (((7, 7),), "not all of these are edges")):
        with pytest.raises(MessageError, match=words):
            inbox.add(5, "sum", edges, np.array([1]))
    with pytest.raises(MessageError, match="late"):
        inbox.add(4, "sum", (HIGH,), np.array([1]))
    inbox.add(5, "sum", (HIGH,), np.array([4]))
    assert inbox.take(CollectSum("sum", (LOW, HIGH))).tolist() == [7]


def test_inbox_leaves_what_it_adds_alone(inbox: Inbox) -> None:
    """Catches a sum that is made in the first message's own array, which others may share."""
    first = np.array([3])
    inbox.add(5, "sum", (LOW,), first)
    inbox.add(5, "sum", (HIGH,), np.array([4]))
    assert first.tolist() == [3]


@pytest.mark.parametrize("grid", PERIODIC_GRIDS)
def test_one_array_may_go_along_all_edges(grid: tuple[int, ...]) -> None:
    """Catches a driver that refuses it, or lets one receiver write what the others read."""

    def tells_all(toy: Toy, count: int) -> Generator[Any, Any, None]:
        told = np.full(3, 1.0 + toy.index[0])
        toy.seen.append((yield from Exchange("all", dict.fromkeys(toy.neighbors, told))))

    engine = engine_of(tells_all, grid=grid)
    engine.round(0, 1)
    for toy in engine.blocks:
        for edge, array in toy.seen[0].items():
            assert array.tolist() == [1.0 + toy.neighbors[edge].block[0]] * 3
            assert not array.flags.writeable


# 8. Several kinds of blocks ----------------------------------------------------------------------


class Kind(Toy):
    """A toy of a given kind, whose neighbours are all blocks of the other kind."""

    def __init__(self, kind: str, others: str, number: int, count: int, steps: Steps) -> None:
        self.kind, self.index, self.device, self.steps = kind, (number,), Device(), steps
        self.neighbors = {(n,): Peer(others, (n,), (number,)) for n in range(count)}
        self.seen = []


def asks(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """Tell all others one thing, reduce among its own kind, and take the sum of the answers."""
    number = np.full(2, 1 + toy.index[0])
    yield Post("question", dict.fromkeys(toy.neighbors, number))
    toy.seen.append((yield AllReduce(1, "sum")))
    toy.seen.append((yield CollectSum("answer", tuple(toy.neighbors))))


def answers(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """Answer each with ten times what it said."""
    came = yield Collect("question", tuple(toy.neighbors))
    yield PostSum("answer", {edge: 10 * said for edge, said in came.items()})


def test_kinds_have_sequences_of_their_own() -> None:
    """Catches a driver that reduces over all kinds, or takes (0,) of one kind for the other's."""
    askers = [Kind("asker", "answerer", n, 2, asks) for n in range(3)]
    engine = Engine([*askers, *(Kind("answerer", "asker", n, 3, answers) for n in range(2))])
    for step in range(2):
        assert engine.round(step, 1) is False
    for number, toy in enumerate(askers):
        assert toy.seen[0] == 3
        assert toy.seen[1].tolist() == [2 * 10 * (1 + number)] * 2


# 9. Work done for many blocks at once ------------------------------------------------------------


@pytest.mark.parametrize(("behind", "calls"), [(True, [[0, 1, 2]]), (False, [[0], [1], [2]])])
def test_batches(behind: bool, calls: list[list[int]]) -> None:
    """Catches answers that go to another block, an error that ends others, and early batches."""
    seen: list[list[int]] = []

    def halves(tasks: list[int]) -> list[Any]:
        seen.append(tasks)
        return [ValueError("odd") if task % 2 else task // 2 for task in tasks]

    def asks_for_half(toy: Toy, count: int) -> Generator[Any, Any, None]:
        yield from Exchange("halo", messages(toy))
        try:
            toy.seen.append((yield Batch(halves, toy.index[0])))
        except ValueError as error:
            toy.seen.append(str(error))
        yield AllReduce(1, "sum")

    toys = in_a_row(3, asks_for_half, Behind() if behind else Device())
    Engine(toys).round(0, 1)
    assert [toy.seen for toy in toys] == [[0], ["odd"], [1]]
    assert sorted(seen) == calls


@pytest.mark.parametrize("is_generator", [True, False])
def test_an_error_names_the_block_and_the_step(is_generator: bool) -> None:
    """Catches an error of another kind than the block's, and one that does not say where."""

    def summed() -> Generator[Any, Any, None]:
        yield AllReduce(1, "sum")

    def fails(toy: Toy, count: int) -> Generator[Any, Any, None]:
        if is_generator:
            return failing(toy)
        fail(toy)
        return summed()

    def failing(toy: Toy) -> Generator[Any, Any, None]:
        yield from summed()
        fail(toy)

    def fail(toy: Toy) -> None:
        if toy.index == (1, 0):
            raise ValueError("no")

    with pytest.raises(ValueError, match="^no") as caught:
        engine_of(fails).round(3, 1)
    assert caught.value.args == ("no",)
    assert caught.value.__notes__ == ["block (1, 0), step 3"]


class Shared(Behind):
    """A device whose blocks share a queue, in which each piece of work takes 8 s."""

    lag = 1
    shares_queue = True
    now = [0.0]  # of all blocks

    def mark(self) -> float:  # type: ignore[override]
        """The time until which the queue works."""
        return self.now[0]

    begin = mark

    def mark_after(self, begin: float) -> float:  # type: ignore[override]
        """The same."""
        return self.now[0]


@pytest.mark.parametrize(
    ("traced", "given", "wanted"),
    [
        (False, (1.0, 1.0), [8.0, 8.0]),
        (False, (3.0, 1.0), [12.0, 4.0]),
        (True, (3.0, 1.0), [8.0] * 2),
    ],
)
def test_time_of_a_batch(traced: bool, given: tuple[float, float], wanted: list[float]) -> None:
    """Catches work for two blocks that counts twice, or as the host's time; a trace without it.

    And shares that are not by weight.
    """
    device, weights = Shared(), {(0, 0): given[0], (1, 0): given[1]}

    def work(tasks: list[Any]) -> list[Any]:
        device.now[0] += 8.0 * len(tasks)
        return tasks

    def asks(toy: Toy, count: int) -> Generator[Any, Any, None]:
        yield Batch(work, toy.index, weights[toy.index])
        device.now[0] += 1.0

    toys = in_a_row(2, asks, device)
    engine, log = Engine(toys, traced), PELog(0)
    engine.round(0, 1)
    for number, runner in enumerate(engine.runners.values()):
        log.add(number, 0, runner.stepper)
    tables = log.tables()
    assert tables["blocks"]["compute_s"].tolist() == [1.0 + seconds for seconds in wanted]
    assert device.now == [18.0]
    device.now[0] = 0.0
    slices = tables["slices"]
    assert (slices["end_s"] - slices["begin_s"]).tolist() == ([8.0, 1.0] * 2 if traced else [])


class Asked(Behind):
    """A device behind the host, on which blocks launch nothing, and batches wait for answers."""

    lag = 1

    def begin(self) -> float:  # type: ignore[override]
        """The same mark as after it."""
        return 0.0

    def mark_after(self, begin: float) -> float:  # type: ignore[override]
        """The mark of `begin`, as nothing was launched."""
        return begin


def test_times_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches rounds without work for the device that have no times, or those of a batch alone."""
    now = [100.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def work(tasks: list[Any]) -> list[Any]:
        now[0] += 8.0 * len(tasks)
        return tasks

    def asks(toy: Toy, count: int) -> Generator[Any, Any, None]:
        now[0] += 1.0
        yield Batch(work, toy.index)
        yield Batch(work, toy.index)
        now[0] += 2.0

    toys = in_a_row(2, asks, Asked())
    for toy in toys:
        toy.setup = partial(asks, toy, 0)  # type: ignore[attr-defined]  # it counts for no round
    engine, log = Engine(toys).setup(), PELog(0)
    for number in range(2):
        engine.round(number, 1)
        for block, runner in enumerate(engine.runners.values()):
            log.add(block, number, runner.stepper)
    blocks = log.tables()["blocks"]
    # A round takes 1 s of each block, two batches of 16 s, and 2 s of each block.
    assert blocks["begin_s"].tolist() == [0.0, 1.0, 38.0, 39.0]
    assert blocks["end_s"].tolist() == [36.0, 38.0, 74.0, 76.0]
    assert blocks["compute_s"].tolist() == [16.0] * 4
