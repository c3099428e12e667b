"""Steps of toy blocks: some keep the contract and check every answer, others break a rule.

A script is one kind of step for all blocks, or several that blocks take by number. Scripts called
``late_...`` run on a device that, like a GPU, is behind the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from fractions import Fraction
from math import fsum, prod
from typing import Any

import numpy as np

from miniapps.contract import (
    EXACT,
    AllReduce,
    Batch,
    Begin,
    Collect,
    CollectSum,
    Edge,
    Exchange,
    Pause,
    Post,
    PostSum,
)
from miniapps.devices.messages import packed
from miniapps.kernels import exact_sum

Life = Generator[Any, Any, Any]
SCRIPTS: dict[str, tuple[Callable[[Any], Life], ...]] = {}


def script(step: Callable[[Any], Life]) -> Callable[[Any], Life]:
    """Register a step under its name, for all blocks."""
    SCRIPTS[step.__name__] = (step,)
    return step


def label(toy: Any, sender: Any, receiver: Any, edge: Edge) -> list[int]:
    """What a message says: who sends it to whom, at which edge of the receiver, and when."""
    return [*sender, *receiver, *edge, toy.time]


def labels(toy: Any) -> dict[Edge, np.ndarray]:
    """A message for every edge, each another one."""
    return {
        edge: np.array(label(toy, toy.index, peer.block, peer.edge))
        for edge, peer in toy.neighbors.items()
    }


def check(toy: Any, came: dict[Edge, np.ndarray]) -> None:
    """Check messages that `labels` made."""
    for edge, array in came.items():
        peer = toy.neighbors[edge]
        toy.expect(array.tolist() == label(toy, peer.block, toy.index, edge))


def edges(toy: Any) -> tuple[Edge, ...]:
    """All edges of a block."""
    return tuple(toy.neighbors)


# Scripts that keep the contract -------------------------------------------------------------------


@script
def exchange(toy: Any) -> Life:
    """Send a message along each edge, and write to what came."""
    came = yield from Exchange("halo", labels(toy))
    check(toy, came)
    for array in came.values():
        array[...] = 0


@script
def phases_in_another_order(toy: Any) -> Life:
    """Post three phases, and collect them last first, the first edge by edge."""
    for phase in "abc":
        yield Post(phase, {edge: packed(m) for edge, m in labels(toy).items()})
    check(toy, (yield Collect("c", edges(toy))))
    check(toy, (yield Collect("b", edges(toy)[::-1])))
    for edge in edges(toy)[::-1]:
        check(toy, (yield Collect("a", (edge,))))


@script
def one_array_to_all(toy: Any) -> Life:
    """Send one array along all edges; its receivers share it."""
    mine = np.array([*toy.index, toy.time])
    came = yield from Exchange("all", dict.fromkeys(toy.neighbors, mine))
    for edge, array in came.items():
        toy.expect(array.tolist() == [*toy.neighbors[edge].block, toy.time])


@script
def sums(toy: Any) -> Life:
    """Send integers along all edges, and collect the sum of what comes, and messages between."""
    yield Post("halo", labels(toy))
    yield PostSum("sum", {edge: np.full(3, 1 + toy.number) for edge in toy.neighbors})
    yield PostSum("more", {edge: np.full(2, toy.time) for edge in toy.neighbors})
    check(toy, (yield Collect("halo", edges(toy))))
    more = yield CollectSum("more", edges(toy))
    total = yield CollectSum("sum", edges(toy))
    rows, columns = toy.grid
    right = sum(
        1 + (p.block[0] % rows) * columns + p.block[1] % columns for p in toy.neighbors.values()
    )
    toy.expect(total.tolist() == [right] * 3 and more.tolist() == [4 * toy.time] * 2)


@script
def reductions(toy: Any) -> Life:
    """Reduce while messages are on their way."""
    blocks = prod(toy.grid)
    yield Post("halo", labels(toy))
    toy.expect((yield AllReduce(1, "sum")) == blocks)
    toy.expect(
        (yield AllReduce(np.array([toy.number, -1.5]), "max")).tolist() == [blocks - 1, -1.5]
    )
    check(toy, (yield Collect("halo", edges(toy))))
    toy.expect((yield AllReduce(0.5 - toy.number, "min")) == 1.5 - blocks)
    for odd in (0, blocks - 1):
        for op in ("min", "max"):
            toy.expect(np.isnan((yield AllReduce(np.nan if toy.number == odd else 1.0, op))))
    some = yield AllReduce(np.array([[toy.number == 0, False]]), "max")
    toy.expect(some.dtype == bool and some.tolist() == [[True, False]])
    toy.expect((yield AllReduce(np.uint64(3 + toy.number), "min")) == 3)


def addend(number: int) -> float:
    """What a block adds to an exact sum: the rounded sum of three depends on the order."""
    return (1e17, 1 / 3, -1e17)[number % 3] / (1 + number // 3)


@script
def exact_sums(toy: Any) -> Life:
    """Add floats so that the result has the same bits in any order."""
    addends = [addend(number) for number in range(prod(toy.grid))]
    mine, right = addend(toy.number), fsum(addends)
    toy.expect((yield AllReduce(mine, EXACT)) == right)
    yield Post("halo", labels(toy))
    some = yield AllReduce(np.array([[mine, -0.0], [1e308, np.inf if toy.number else 1.0]]), EXACT)
    check(toy, (yield Collect("halo", edges(toy))))
    last = np.inf if len(addends) > 1 else 1.0
    many = np.inf if len(addends) > 1 else 1e308
    toy.expect(some.tolist() == [[right, 0.0], [many, last]])
    single = yield AllReduce(np.float32(mine), EXACT)
    singles = sum(Fraction(float(np.float32(one))) for one in addends)
    near = np.float32(float(singles))  # rounded twice: these are not near the middle of two floats
    toy.expect(single.dtype == np.float32 and single == near)
    cells = [[1e17 * (-1) ** number, 0.1] for number in range(len(addends))]
    words = exact_sum.accumulated(np.array(cells[toy.number])).sum(axis=0)
    toy.expect((yield AllReduce(words, EXACT)) == fsum(sum(cells, [])))


@script
def begun_reductions(toy: Any) -> Life:
    """Begin to reduce, and wait for messages; block 0 sends its own only when it has begun."""
    sums = [addend(number) for number in range(prod(toy.grid))]
    reduction = AllReduce(addend(toy.number), EXACT)
    if toy.number == 0:
        yield Begin(reduction)
    yield Post("halo", labels(toy))
    check(toy, (yield Collect("halo", edges(toy))))
    if toy.number:
        yield Begin(reduction)
    check(toy, (yield from Exchange("later", labels(toy))))
    toy.expect((yield reduction) == fsum(sums))
    largest = AllReduce(np.array([toy.number, toy.time]), "max")
    yield Begin(largest)
    toy.expect((yield largest).tolist() == [len(sums) - 1, toy.time])
    toy.expect((yield AllReduce(1, "sum")) == len(sums))


def doubled(tasks: list[int]) -> list[Any]:
    """Twice each task, an error for 3."""
    return [ValueError("three") if task == 3 else 2 * task for task in tasks]


@script
def batches(toy: Any) -> Life:
    """Let the driver do work of many blocks at once; an error reaches the block that asked."""
    yield Pause()
    toy.expect((yield Batch(doubled, 4 + toy.number)) == 8 + 2 * toy.number)
    yield from exchange(toy)
    try:
        yield Batch(doubled, 3)
    except ValueError as error:
        toy.expect(str(error) == "three")
    else:
        toy.expect(False)


SCRIPTS["late_batches"] = (batches,)


# Longer than the mpi driver's first buffer, empty, shorter again, and longer than ever.
SHAPES = ((3,), (0,), (600,), (40, 30), (1,), (0, 4), (2, 3, 5, 4), (30000,), (7,))
TYPES = (np.float64, np.int64, np.float32, np.uint8, np.complex128)
PAUSED = Counter[int]()  # how many blocks of this process have, by step


def any_array(toy: Any, phase: int, sender: Any, edge: Edge) -> np.ndarray:
    """What a sender's message to an edge of the receiver must be."""
    turn = toy.time + 3 * edge[0] + edge[1] + 5 * phase
    value = 1 + (7 * toy.time + 5 * sender[0] + 3 * sender[1] + turn) % 200
    return np.full(SHAPES[turn % len(SHAPES)], value, TYPES[turn % len(TYPES)])


def any_arrays(toy: Any, phase: int) -> dict[Edge, np.ndarray]:
    """A message for every edge."""
    peers = toy.neighbors.items()
    return {edge: any_array(toy, phase, toy.index, peer.edge) for edge, peer in peers}


def check_arrays(toy: Any, phase: int, came: dict[Edge, np.ndarray]) -> None:
    """Check messages that `any_arrays` made; then write to them, as is allowed."""
    for edge, peer in toy.neighbors.items():
        right = any_array(toy, phase, peer.block, edge)
        toy.expect(came[edge].dtype == right.dtype and np.array_equal(came[edge], right))
        came[edge][...] = 0


@script
def late_any_arrays(toy: Any) -> Life:
    """Exchange arrays of any length and type, with corners too, and reduce between two parts."""
    check_arrays(toy, 0, (yield from Exchange("whole", any_arrays(toy, 0))))
    yield Post("in two parts", {edge: packed(m) for edge, m in any_arrays(toy, 1).items()})
    came = dict((yield Collect("in two parts", edges(toy)[1::2])))
    blocks = prod(toy.grid)
    array = yield AllReduce(np.array([[toy.number, 1.0], [-toy.number, toy.time]]), "sum")
    triangle = blocks * (blocks - 1) / 2
    toy.expect(array.tolist() == [[triangle, blocks], [-triangle, blocks * toy.time]])
    array[...] = 0  # must be nobody else's
    toy.expect((yield AllReduce(np.array([toy.number]), "max")).tolist() == [blocks - 1])
    came |= yield Collect("in two parts", edges(toy)[::2])
    check_arrays(toy, 1, came)
    yield AllReduce(0, "max")  # now all are as far
    PAUSED[toy.time] += 1
    yield Pause()
    toy.expect(PAUSED[toy.time] >= toy.here)
    yield AllReduce(0, "max")  # now all have looked
    PAUSED.pop(toy.time, None)


@script
def ends_early(toy: Any) -> Life:
    """End the run after three steps."""
    yield from exchange(toy)
    return toy.time == 2


RIGHT = tuple(SCRIPTS)


# Scripts that break a rule ------------------------------------------------------------------------


@script
def opposite_edges(toy: Any) -> Life:
    """Send each message along the opposite edge."""
    swapped = {tuple(-d for d in edge): message for edge, message in labels(toy).items()}
    check(toy, (yield from Exchange("halo", swapped)))


@script
def collects_first(toy: Any) -> Life:
    """Wait for messages that nobody has posted yet."""
    yield Collect("halo", edges(toy))
    yield Post("halo", labels(toy))


def collects_another_phase(toy: Any) -> Life:
    """Wait for a phase that the others do not post."""
    yield Post("halo", labels(toy))
    yield Collect("back", edges(toy))


def does_nothing(toy: Any) -> Life:
    """Take no part."""
    yield from ()


def reduces(toy: Any) -> Life:
    """Reduce by addition."""
    yield AllReduce(1.0, "sum")


def reduces_by_max(toy: Any) -> Life:
    """Reduce by another operation."""
    yield AllReduce(1.0, "max")


def reduces_two(toy: Any) -> Life:
    """Reduce more values."""
    yield AllReduce(np.ones(2), "sum")


def reduces_exactly(toy: Any) -> Life:
    """Reduce floats by an exact sum."""
    yield AllReduce(1.0, EXACT)


def reduces_singles(toy: Any) -> Life:
    """Reduce float32 by an exact sum."""
    yield AllReduce(np.float32(1), EXACT)


def reduces_accumulators(toy: Any) -> Life:
    """Reduce two accumulators at once."""
    yield AllReduce(exact_sum.accumulator(2), EXACT)


@script
def exact_sum_of_integers(toy: Any) -> Life:
    """Reduce what has an exact sum anyway."""
    yield AllReduce(1, EXACT)


@script
def requests_another(toy: Any) -> Life:
    """Begin a reduction and request another one, though with the same value."""
    yield Begin(AllReduce(1, "sum"))
    yield AllReduce(1, "sum")


@script
def begins_two(toy: Any) -> Life:
    """Begin a second reduction before the first has ended."""
    yield Begin(AllReduce(1, "sum"))
    yield Begin(AllReduce(2, "sum"))


@script
def only_begins(toy: Any) -> Life:
    """Begin a reduction whose result nobody wants."""
    yield Begin(AllReduce(1, "sum"))


SCRIPTS["exact_and_max"] = reduces_exactly, reduces_by_max
SCRIPTS["exact_of_other_types"] = reduces_exactly, reduces_singles
SCRIPTS["exact_of_other_sizes"] = reduces_exactly, reduces_accumulators
SCRIPTS["another_phase"] = exchange, collects_another_phase
SCRIPTS["one_does_nothing"] = exchange, does_nothing
SCRIPTS["one_does_not_reduce"] = reduces, does_nothing
SCRIPTS["one_reduces"] = reduces, exchange
SCRIPTS["another_operation"] = reduces, reduces_by_max
SCRIPTS["another_size"] = reduces, reduces_two


@script
def nonsense(toy: Any) -> Life:
    """Yield what is no request."""
    yield "halo"


@script
def never_collects(toy: Any) -> Life:
    """Post messages that nobody collects."""
    yield Post("halo", labels(toy))


@script
def posts_twice(toy: Any) -> Life:
    """Post two messages of one phase."""
    yield Post("halo", labels(toy))
    yield Post("halo", labels(toy))
    yield Collect("halo", edges(toy))


@script
def one_ends(toy: Any) -> Life:
    """End the run for one block alone."""
    yield from exchange(toy)
    return toy.number == 0


@script
def raises(toy: Any) -> Life:
    """Fail while messages are on their way."""
    yield Post("halo", labels(toy))
    raise ZeroDivisionError("physics")


@script
def writes_after_posting(toy: Any) -> Life:
    """Change messages while they travel."""
    sent = labels(toy)
    yield Post("halo", sent)
    for array in sent.values():
        array[0] = 2


@script
def posts_a_view(toy: Any) -> Life:
    """Post a row of the block's own field."""
    yield Post("halo", {edge: np.ones((4, 3))[2] for edge in toy.neighbors})


@script
def posts_columns(toy: Any) -> Life:
    """Post arrays that are not contiguous."""
    yield Post("halo", {edge: np.ones((4, 3)).T for edge in toy.neighbors})


@script
def sums_of_floats(toy: Any) -> Life:
    """Ask for sums whose bits depend on their order."""
    yield PostSum("sum", {edge: np.ones(3) for edge in toy.neighbors})


@script
def sums_of_other_shapes(toy: Any) -> Life:
    """Ask for sums of arrays of several shapes."""
    shapes = {edge: 3 + (edge[0] > 0) for edge in toy.neighbors}
    yield PostSum("sum", {edge: np.ones(n, np.int64) for edge, n in shapes.items()})
    yield CollectSum("sum", edges(toy))


@script
def sums_of_other_types(toy: Any) -> Life:
    """Ask for sums of arrays of several types, of which only some orders of additions work."""
    types = {edge: np.int32 if edge[0] > 0 else np.int64 for edge in toy.neighbors}
    yield PostSum("sum", {edge: np.ones(3, kind) for edge, kind in types.items()})
    yield CollectSum("sum", edges(toy))


@script
def sums_never_collected(toy: Any) -> Life:
    """Post sums that nobody collects."""
    yield PostSum("sum", {edge: np.ones(3, np.int64) for edge in toy.neighbors})


def forgets(tasks: list[int]) -> list[int]:
    """One answer too few."""
    return tasks[1:]


@script
def too_few_answers(toy: Any) -> Life:
    """Ask for work whose answer is forgotten."""
    yield Batch(forgets, 1)


SCRIPTS["late_too_few_answers"] = (too_few_answers,)
WRONG = tuple(name for name in SCRIPTS if name not in RIGHT)
