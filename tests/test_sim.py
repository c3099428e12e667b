"""The sim driver: the bits of a serial run in whatever order messages arrive and blocks move."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from typing import Any, ClassVar

import numpy as np
import pytest
import support
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from miniapps import apps
from miniapps.contract import AllReduce, Exchange
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.drivers import sim
from miniapps.drivers.engine import Engine, Phase
from miniapps.drivers.job import Job
from miniapps.drivers.lives import Lives
from miniapps.drivers.orders import Order, Recorder, Scheduled, Starved, order_of
from miniapps.drivers.schedule import Schedule, read_schedule
from miniapps.drivers.sim.driver import Network, SimEngine

PAIRS = pytest.param("leanmd", {"decomposition": "pairs"}, marks=pytest.mark.slow)
FFT = {"fft": True, "size": (6, 5, 7)}
OF_CG: list[dict[str, Any]] = [{"preconditioner": "sgs"}, {"pipelined": True}]
CASES = [
    *((name, {}) for name in apps.names()),
    ("transpose", FFT),
    *(("cg", values) for values in OF_CG),
    PAIRS,
]
ORDERS = st.builds(order_of, st.sampled_from(sim.ORDERS), st.integers(0, 2**32))


def blocks_of(app: str, values: dict[str, Any]) -> tuple[list[Any], Lives | None]:
    """The blocks of an app's smallest problem, of all kinds; or when they exist."""
    module = apps.load(app)
    problem = support.small_problem(module, **values)
    grid = (1, 1, 1) if "decomposition" in values else support.cut_of(problem)
    layout = support.layout_of(problem, grid)
    problem = problem.prepared(layout, "cpu")
    job: Job[Any] = Job(app, problem, layout, steps=1)
    return job.lasting_blocks(), Lives.of(job, layout.numbers)


def ran(engine: Engine, steps: int) -> str:
    """The state hash of blocks after some steps, of which a block may make one before others."""
    engine.setup()
    phase = Phase(0, steps, lambda step: engine.first.block.problem.steps_per_round(step))
    done = engine.play(phase, lambda *_: None, lambda *_: None)
    engine.close(done)
    assert all(block.measure() is not None for block in engine.blocks)  # what checks need is there
    return support.state_hash_of(engine.blocks)


@pytest.mark.slow
@pytest.mark.parametrize(("app", "values"), CASES)
def test_bits_of_a_serial_run(app: str, values: dict[str, Any]) -> None:
    """Catches a block whose state depends on the order of messages, turns or migrations."""
    steps = 2 if app == "leanmd" else 5
    blocks, lives = blocks_of(app, values)
    right = ran(Engine(blocks, lives=lives), steps)

    @examples(8 if app != "leanmd" else 2)
    @given(ORDERS, st.integers(1, 5))
    def same_bits(order: Order, pes: int) -> None:
        blocks, lives = blocks_of(app, values)
        engine = SimEngine(blocks, False, Network(pes), order, lives=lives)
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
        self.seen = 1 + min(int(array[0]) for array in came.values())
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


class Free(Toy):
    """Waits for its neighbours only."""

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Exchange messages."""
        yield from Exchange("halo", {edge: np.zeros(3) for edge in self.neighbors})
        return False


def toys(kind: type[Toy]) -> list[Toy]:
    """Six of them on a periodic grid."""
    layout = Layout.create((7, 5), (True, True), 6, 1, (3, 2))
    return [kind(layout, index) for index in layout.indices()]


def simulated(kind: type[Toy], order: Order, pes: int = 3) -> list[int]:
    """What toys have counted after four steps in an order of events."""
    Hasty.turns.clear()
    engine = SimEngine(toys(kind), False, Network(pes), order)
    engine.play(FOUR, lambda *_: None, lambda *_: None)
    engine.close(4)
    return [block.seen for block in engine.blocks]


FOUR = Phase(0, 4, lambda step: 1)


@pytest.mark.parametrize("order", sim.ORDERS)
@pytest.mark.parametrize("kind", [Forgetful, Hasty])
def test_wrong_blocks_are_caught(kind: type[Toy], order: str) -> None:
    """Catches a driver that neither migrates blocks nor changes the order of their turns."""
    right = simulated(kind, Order())
    assert simulated(Toy, Order()) == [4] * 6
    assert all(simulated(Toy, order_of(order, seed)) == [4] * 6 for seed in range(3))
    assert any(simulated(kind, order_of(order, seed)) != right for seed in range(3))


def test_orders_differ() -> None:
    """Catches orders and seeds that are all the same."""
    made = set()
    for name, seed in [("random", 1), ("random", 2), *((name, 1) for name in sim.ORDERS[1:])]:
        recorder = Recorder(order_of(name, seed))
        simulated(Toy, recorder)
        assert sum(event[0] == "message" for event in recorder.events) == 4 * 6 * 4
        made.add(tuple(recorder.events))
    assert len(made) == 1 + len(sim.ORDERS)


def test_a_block_may_be_a_round_ahead() -> None:
    """Catches a driver in which all blocks begin a round together, as none that launches PEs is."""
    recorder = Recorder(order_of("pct", 3))
    simulated(Free, recorder)
    steps = [event[1] for event in recorder.events if event[0] == "begin"]
    assert steps != sorted(steps)


def test_the_starved_edge_waits() -> None:
    """Catches an edge that is not starved: its messages come when nothing else can happen."""
    order = Starved(5)
    alone = []
    pick = order.pick

    def picked(events: Any) -> Any:
        event = pick(events)
        if order.delayed(event):
            alone.append(all(order.delayed(other) for other in events))
        return event

    order.pick = picked  # type: ignore[method-assign]
    simulated(Toy, order)
    assert alone == [True] * 4


@pytest.mark.parametrize("name", sim.ORDERS)
def test_a_recorded_schedule_repeats_the_run(name: str, tmp_path: Any) -> None:
    """Catches a schedule that loses a decision, before or after it was a file."""
    first = Recorder(order_of(name, 7))
    simulated(Toy, first)
    schedule = first.schedule()
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps({"schedule": 1, **schedule.plain()}))
    assert read_schedule(path, "--schedule")[0] == schedule
    again = Recorder(Scheduled(schedule))
    simulated(Toy, again)
    assert again.events == first.events and again.moves == first.moves
    usual = Recorder(Scheduled(Schedule()))
    simulated(Toy, usual)
    assert usual.events != first.events and not usual.moves and not len(usual.schedule())


WRONG_FILES = {
    "nothing": "",
    "a list": "[[",
    "deep": "[" * 100_000,
    "text": '"schedule"',
    "another version": '{"schedule": 2, "holds": [], "moves": []}',
    "no holds": '{"schedule": 1, "moves": []}',
    "no list": '{"schedule": 1, "holds": {"a": 1}, "moves": []}',
    "half a pair": '{"schedule": 1, "holds": [[["batch", 0]]], "moves": []}',
    "no event": '{"schedule": 1, "holds": [[["batch", 0], ["fly", 1]]], "moves": []}',
    "too short": '{"schedule": 1, "holds": [[["batch"], ["batch", 1]]], "moves": []}',
    "an object": '{"schedule": 1, "holds": [[["batch", 0], ["batch", {}]]], "moves": []}',
    "unhashable": '{"schedule": 1, "holds": [[[["batch"], 0], ["batch", 1]]], "moves": []}',
    "no place": '{"schedule": 1, "holds": [], "moves": [[0, ["block", "x"], 1]]}',
    "a fraction": '{"schedule": 1, "holds": [], "moves": [[0.5, ["block", [0]], 1]]}',
    "true": '{"schedule": 1, "holds": [], "moves": [[true, ["block", [0]], 1]]}',
    "no PE": '{"schedule": 1, "holds": [], "moves": [[0, ["block", [0]], null]]}',
    "null": "null",
    "an empty event": '{"schedule": 1, "holds": [[[], ["batch", 1]]], "moves": []}',
    "a number for a pair": '{"schedule": 1, "holds": [1], "moves": []}',
    "NaN": '{"schedule": 1, "holds": [], "moves": [[NaN, ["block", [0]], 1]]}',
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_files_that_are_no_schedules(name: str, tmp_path: Any) -> None:
    """Catches a traceback from a damaged schedule, and what Python says of a program."""
    path = tmp_path / "schedule.json"
    path.write_text(WRONG_FILES[name])
    said = support.refused(["run", "echo", "--driver", "sim", "--schedule", path])
    assert "--schedule" in said
    assert not support.OF_PYTHON.search(said), said


@pytest.mark.slow
def test_command_line_without_mpi_and_charm(tmp_path: Any) -> None:
    """Catches a driver that cannot be asked for, or needs another runtime."""
    hide = "import sys\nfor name in ('mpi4py', 'charm4py'): sys.modules[name] = None\n"
    words = "jacobi2d --size 17x11 --initial noise --steps 6 --pe-grid 3x2"
    runs = [f"{words} --driver {driver}" for driver in ("sim", "serial")]
    records = support.records_of(runs, env=support.in_every_process(tmp_path, hide))
    assert records[0]["driver"] == "sim" and records[0]["valid"]
    assert records[0]["state_hash"] == records[1]["state_hash"]
    assert "mpi4py" not in sys.modules or sys.modules["mpi4py"] is not None
