"""The sim driver: the bits of a serial run in whatever order messages arrive and blocks move."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any, ClassVar

import numpy as np
import pytest
import support
from hypothesis import given, settings
from hypothesis import strategies as st

import miniapps as apps
from devices.backend import Device
from drivers import sim
from drivers.engine import Engine
from miniapps.contract import AllReduce, Exchange, MessageError, Post
from miniapps.decomposition import Layout

CUTS = {1: (5,), 2: (3, 2), 3: (1, 2, 2)}
PAIRS = pytest.param("leanmd", {"decomposition": "pairs"}, marks=pytest.mark.slow)
CASES = [*((name, {}) for name in apps.names()), PAIRS]
OPTIONS = st.builds(
    sim.SimOptions, st.integers(0, 2**32), st.sampled_from(sim.ORDERS), st.integers(1, 5)
)


def blocks_of(app: str, values: dict[str, Any]) -> list[Any]:
    """The blocks of an app's smallest problem, of all kinds."""
    module = apps.load(app)
    problem = support.small_problem(module, **values)
    grid = (1, 1, 1) if values else CUTS[len(problem.shape)]
    layout = support.layout_of(problem, grid)
    problem = problem.prepared(layout, "cpu")
    return [module.Block(problem, layout, index, Device()) for _, index in layout.numbers]


def ran(engine: Engine, steps: int) -> str:
    """The state hash of blocks after some steps."""
    engine.setup()
    step = 0
    while step < steps:
        count = min(engine.blocks[0].problem.steps_per_round(step), steps - step)
        engine.migrate()
        engine.round(step, count)
        step += count
    engine.close(step)
    assert all(block.measure() is not None for block in engine.blocks)  # what checks need is there
    return support.state_hash_of(engine.blocks)


@pytest.mark.parametrize(("app", "values"), CASES)
def test_bits_of_a_serial_run(app: str, values: dict[str, Any]) -> None:
    """Catches a block whose state depends on the order of messages, turns or migrations."""
    steps = 2 if app == "leanmd" else 5
    right = ran(Engine(blocks_of(app, values)), steps)

    @settings(max_examples=8 if app != "leanmd" else 2)
    @given(OPTIONS)
    def same_bits(options: sim.SimOptions) -> None:
        engine = sim.SimEngine(blocks_of(app, values), False, sim.Network(options))
        assert ran(engine, steps) == right

    same_bits()


class Toy:
    """A block that counts the right messages it has had, with a step given from outside."""

    kind = "block"
    problem = type("", (), {"steps_per_round": lambda self, step: 1})()

    def __init__(self, layout: Layout, index: Any) -> None:
        self.index, self.device, self.neighbors = index, Device(), layout.neighbors(index)
        self.seen = 0

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Exchange messages and count them."""
        sent = {edge: np.full(3, self.seen) for edge in self.neighbors}
        came = yield from Exchange("halo", sent)
        self.seen = 1 + max(int(array[0]) for array in came.values())
        self.look()
        yield AllReduce(1, "sum")
        return False

    def look(self) -> None:
        """Nothing: the messages are all that counts."""


class Forgetful(Toy):
    """Loses its count when it migrates."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"seen": 0}


class Hasty(Toy):
    """Looks at which other blocks had their messages before it."""

    turns: ClassVar[list[Any]] = []

    def look(self) -> None:
        """Count them, whoever they are."""
        self.turns.append(self.index)
        self.seen += 10 * self.turns.index(self.index)


class Talkative(Toy):
    """Posts what nobody collects."""

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Exchange, and say one thing more."""
        yield Post("more", {edge: np.zeros(1) for edge in self.neighbors})
        return (yield from super().step(count))


def toys(kind: type[Toy]) -> list[Toy]:
    """Six of them on a periodic grid."""
    layout = Layout.create((7, 5), (True, True), 6, 1, (3, 2))
    return [kind(layout, index) for index in layout.indices()]


def counts(kind: type[Toy], options: sim.SimOptions | None) -> list[int]:
    """What toys have counted after four steps."""
    Hasty.turns.clear()
    blocks = toys(kind)
    engine = Engine(blocks)
    if options is not None:
        engine = sim.SimEngine(blocks, False, sim.Network(options))
    for step in range(4):
        engine.migrate()
        engine.round(step, 1)
    engine.close(4)
    return [block.seen for block in engine.blocks]


@pytest.mark.parametrize("order", sim.ORDERS)
@pytest.mark.parametrize("kind", [Forgetful, Hasty])
def test_wrong_blocks_are_caught(kind: type[Toy], order: str) -> None:
    """Catches a driver that neither migrates blocks nor changes the order of their turns."""
    options = [sim.SimOptions(seed, order, 3) for seed in range(3)]
    assert all(counts(Toy, one) == counts(Toy, None) == [4] * 6 for one in options)
    assert any(counts(kind, one) != counts(kind, None) for one in options)


@pytest.mark.parametrize("order", sim.ORDERS)
def test_messages_left_over_are_caught(order: str) -> None:
    """Catches a driver that forgets messages which are still on their way at the end."""
    with pytest.raises(MessageError, match="never collected|late"):
        counts(Talkative, sim.SimOptions(1, order, 2))


def test_orders_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches orders and seeds that are all the same, and an edge that is not starved."""
    seen: list[Any] = []
    right = sim.Network.arrive

    def arrive(network: sim.Network, starved: bool) -> bool:
        before = list(network.sent[starved])
        came = right(network, starved)
        gone = [s for s in before if not any(s is t for t in network.sent[starved])]
        for receiver, _, (_, _, edge, *_) in gone:
            seen.append((receiver, edge))
            assert (seen[-1] == network.starved) == starved
            assert not starved or not network.sent[False]
        return came

    monkeypatch.setattr(sim.Network, "arrive", arrive)
    orders = set()
    for options in [sim.SimOptions(n, "random", 2) for n in (1, 2)] + [
        sim.SimOptions(1, order, 2) for order in sim.ORDERS[1:]
    ]:
        seen.clear()
        counts(Toy, options)
        assert len(seen) == 4 * 6 * 4
        orders.add(tuple(seen))
    assert len(orders) == 4


def test_command_line_without_mpi_and_charm(tmp_path: Any) -> None:
    """Catches a driver that cannot be asked for, or needs another runtime."""
    hide = "import sys\nfor name in ('mpi4py', 'charm4py'): sys.modules[name] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hide)
    words = "jacobi2d --size 17x11 --initial noise --steps 6 --blocks 3x2".split()
    records = [
        support.run_record(*words, "--driver", driver, env={"PYTHONPATH": str(tmp_path)})
        for driver in ("sim", "serial")
    ]
    assert records[0]["driver"] == "sim" and records[0]["valid"]
    assert records[0]["state_hash"] == records[1]["state_hash"]
    assert "mpi4py" not in sys.modules or sys.modules["mpi4py"] is not None
