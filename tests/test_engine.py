"""The engine by itself: errors of blocks, order of calls in a run, and what its parts are told."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support
from test_contract import Toy, messages

from miniapps import apps
from miniapps.contract import SETUP, AllReduce, Collect, Exchange, MessageError, Pause, Post
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.devices.messages import DeviceMessage
from miniapps.drivers import engine, serial
from miniapps.drivers.agreements import Agreements, Wish
from miniapps.drivers.engine import (
    Engine,
    Phase,
    Runner,
    Transport,
    audits_before,
    run_phases,
    take_snapshot,
)
from miniapps.drivers.job import Job, RunError, Segment
from miniapps.drivers.timing import PELog, Stepper
from miniapps.workbench.run.progress_file import NoProgressFile


class Told(Transport):
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def begin(self) -> None:
        """Note it."""
        self.calls.append("begin")

    def flush(self, runner: Runner) -> None:
        """Note what leaves."""
        self.calls += [f"flush {departure.phase}" for departure in runner.departures()] or ["flush"]

    def close(self) -> None:
        """Note it."""
        self.calls.append("close")


def toys(*steps: Any) -> list[Toy]:
    """Two blocks beside each other, periodic."""
    layout = Layout.create((7, 5), (True, True), 2, 1, (2, 1))
    every = zip(layout.indices(), steps * (3 - len(steps)), strict=False)
    return [Toy(layout, index, step) for index, step in every]


def exchanges(toy: Toy, count: int) -> Generator[Any, Any, bool]:
    """One exchange; block (1, 0) alone is finished after a round of two steps, all after three."""
    yield from Exchange("halo", messages(toy))
    return count == 3 or (count == 2 and toy.index == (1, 0))


def waits(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """Waits for messages that nobody sends."""
    yield Collect("halo", list(toy.neighbors))


def sums(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """Adds, or in block (1, 0) takes the largest."""
    yield AllReduce(1.0, "max" if toy.index == (1, 0) else "sum")


def asks_nonsense(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """Yields no request in block (1, 0)."""
    yield 5 if toy.index == (1, 0) else Collect("halo", list(toy.neighbors))


@pytest.mark.parametrize(
    ("steps", "count", "said"),
    [
        ((exchanges,), 2, "^step 4: some blocks report that the run is finished, others do not$"),
        ((waits,), 1, "^step 4: every block waits: .*block"),
        ((waits, sums), 1, "^step 4: every block waits: "),
        ((sums,), 1, "^blocks reduce by different operations: every block waits"),
        ((asks_nonsense,), 1, r"^step 4: block \(1, 0\) yielded 5, which is no request$"),
    ],
)
def test_blocks_that_cannot_go_on(steps: tuple[Any, ...], count: int, said: str) -> None:
    """Catches a run that hangs, or goes on with another answer, where blocks contradict."""
    with pytest.raises(RunError, match=said):
        Engine(toys(*steps)).round(4, count)


def collects_elsewhere(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """Waits on an edge that the block does not have."""
    yield Collect("halo", [*toy.neighbors, "up"])


def posts_elsewhere(toy: Toy, count: int) -> Generator[Any, Any, None]:
    """Posts on such an edge."""
    yield Post("halo", messages(toy) | {"up": np.zeros(1)})


@pytest.mark.parametrize("step", [collects_elsewhere, posts_elsewhere])
def test_an_edge_that_a_block_does_not_have_is_named(step: Any) -> None:
    """Catches a KeyError."""
    with pytest.raises((RunError, MessageError), match="on edge 'up', which it does not have"):
        Engine(toys(step)).round(4, 1)


@pytest.mark.parametrize("answer", [None, True])
def test_a_step_without_yield_is_refused(answer: Any) -> None:
    """Catches a step whose time would not be measured."""
    said = r"^step is no generator function: it has no yield\nblock \(0, 0\), step 4$"
    with pytest.raises(TypeError, match=said):
        Engine(toys(lambda toy, count: answer)).round(4, 1)


def test_a_setup_without_requests() -> None:
    """Catches an engine that needs a generator where a plain method does the work."""
    done: list[Any] = []
    blocks = toys(exchanges)
    for toy in blocks:
        toy.setup = partial(done.append, toy.index)
    Engine(blocks).setup().round(0, 1)
    assert done == [toy.index for toy in blocks]


@pytest.mark.parametrize(("may_end", "end"), [(True, 6), (False, 9)])
def test_rounds_of_a_phase(may_end: bool, end: int) -> None:
    """Catches rounds after the end, a block that is not told, and numbers that begin anew."""
    begun, ended, transport = [], [], Told()
    engine = Engine(toys(exchanges), transport=transport)
    phase = Phase(0, 9, lambda step: {0: 1, 1: 1, 2: 1, 3: 3, 6: 3}[step], may_end, number=5)
    done = engine.play(
        phase, lambda r, this: begun.append((r.place, *this)), lambda r, this: ended.append(this)
    )
    assert done == end
    rounds = [(5, 0, 1), (6, 1, 1), (7, 2, 1), (8, 3, 3), (9, 6, 3)][: 4 if may_end else 5]
    assert [(number, step, steps) for _, number, step, steps in begun[::2]] == rounds
    assert [tuple(this) for this in ended[1::2]] == rounds and len(begun) == 2 * len(rounds)
    assert {place for place, *_ in begun} == set(engine.runners)
    assert {runner.inbox.step for runner in engine.runners.values()} == {rounds[-1][1]}
    engine.close(done)
    assert {runner.inbox.step for runner in engine.runners.values()} == {end}
    assert transport.calls == ["begin"] * len(rounds) + ["close"]


def test_messages_of_devices_leave_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches messages that stay on a device, a copy that is not asked for, and empty sends."""
    transport, copied = Told(), []
    engine = Engine(toys(sums), transport=transport)
    runner = engine.first
    monkeypatch.setattr(Device, "stage", lambda _, found: copied.append(found))
    on_device = object.__new__(DeviceMessage)
    for copy in (True, False):
        runner.begin(0, 1)
        runner.stage(Post("halo", {}), [("peer", on_device), ("peer", b"host")], copy)
        assert [departure.phase for departure in runner.leaving] == ["halo"]
        assert copied == [[on_device]]
        assert not any(runner.serve(transport) for _ in range(2))  # it waits for the other block
    assert transport.calls == ["flush halo"] * 2


class Auditor:
    """An auditor that audits every round of two steps, which takes no time."""

    last = 99

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []

    def begin(self, block: Any, place: Any, step: int, count: int) -> Any:
        """A witness."""
        self.begun.append((step, count))
        return SimpleNamespace(
            audited=SimpleNamespace(step=step, count=count),
            seconds=0.5,
            answered=lambda _: None,
            requested=lambda _: None,
        )

    def end(self, block: Any, witness: Any, finished: bool) -> None:
        """Nothing to keep."""


def test_witnesses_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a witness that sees the next round, too, and a setup that counts as a step."""
    auditor: Any = Auditor()
    readings = count(10.0, 0.25)
    monkeypatch.setattr(engine, "perf_counter", lambda: next(readings))

    def idles(toy: Toy, count: int) -> Generator[Any, Any, None]:
        yield Pause()

    made = Engine(toys(idles), auditor=auditor).setup()
    assert auditor.begun == [(SETUP, 0)] * 2
    made.round(0, 2)
    assert auditor.begun[2:] == [(0, 2)] * 2
    assert [runner.stepper.witness for runner in made.runners.values()] == [None] * 2
    runners = [*made.runners.values()]
    assert [runner.audit_s[2] for runner in runners] == [0.25] * 2  # the end of an audit
    audited = {SETUP: 2.0, 0: 1.5, 2: 0.5, 9: 0.0}  # of both blocks
    assert {step: audits_before(runners, step) for step in audited} == audited
    assert [runner.stepper.witness for runner in runners] == [None] * 2
    made.forget_audits(2)
    assert audits_before(runners, 2) == 0


@pytest.mark.parametrize(
    ("due", "stopping", "wish", "agreed", "stopped", "last"),
    [
        (False, Wish.NOTHING, Wish.CHECKPOINT, False, Wish.NOTHING, []),
        (True, Wish.SIGNAL, Wish.NOTHING, True, Wish.SIGNAL, []),
        (True, Wish.NOTHING, Wish.NOTHING, False, Wish.NOTHING, []),
        (True, Wish.NOTHING, Wish.CHECKPOINT, True, Wish.NOTHING, []),
        (True, Wish.NOTHING, Wish.TIME_LIMIT, False, Wish.NOTHING, [7]),
    ],
)
def test_agreements(due, stopping, wish, agreed, stopped, last):
    """Catches a checkpoint that no PE wants, a stop without one, and a last round not audited."""
    found: Any = SimpleNamespace(
        due=lambda _: due, stopping=stopping, stopped=Wish.NOTHING, wish=lambda: wish,
        agree=lambda most: most,
    )  # fmt: skip
    lasts: list[int] = []
    segment: Any = SimpleNamespace(stop=7)
    assert Agreements.after(found, segment, lambda wish: wish, lasts.append) is agreed
    assert found.stopped == stopped and lasts == last


# Whole runs ---------------------------------------------------------------------------------------


class Watched(NoProgressFile):
    """A watcher that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def heartbeat(self, pe: int, step: int) -> None:
        """Note the step."""
        self.told.append(step)

    def attend(self, pe: int, waits: Any, threaded: bool = True) -> None:
        """Note that it may ask."""
        self.told.append("attend")

    def finish(self, pe: int) -> None:
        """Note the end."""
        self.told.append("finish")


def job_of(warmup: int, steps: int, resumed: Any = None, **values: Any) -> Job:
    """A run on three blocks."""
    problem = support.small_problem(apps.load("jacobi2d"), time_tile=1, **values)
    layout = support.layout_of(problem, (3, 1))
    prepared, store = problem.prepared(layout, "cpu"), support.Gather()
    return Job("jacobi2d", prepared, layout, steps, warmup, "cpu", store, resumed=resumed)


def run(warmup: int, steps: int, **values: Any) -> tuple[list[Any], int]:
    """What a run on three blocks tells its watcher, and the number of steps that it made."""
    job = job_of(warmup, steps, **values)
    watcher, outcomes = Watched(), []
    serial.run(job, lambda outcome: outcomes.append(outcome) or 0, watcher)
    return watcher.told, outcomes[0].steps_done


def test_calls_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a clock that starts or stops while a device works, or before others are ready."""
    calls: list[str] = []

    def note(owner: Any, name: str) -> None:
        right = getattr(owner, name)
        noted = lambda *given: calls.append(name) or right(*given)  # noqa: E731
        monkeypatch.setattr(owner, name, noted)

    for owner, names in ((PELog, ("start", "stop")), (Transport, ("barrier",))):
        for name in names:
            note(owner, name)
    for owner, name in ((Device, "synchronize"), (Engine, "close")):
        note(owner, name)
    assert run(2, 3) == (["attend", 0, 1, 2, 3, 4, "finish"], 5)
    ready = ["synchronize"] * 3 + ["barrier"]
    # The first start is that of a new log.
    phase = [*ready, "start", *ready, "stop"]
    assert calls == ["start", *phase, *phase, "close"]


def test_a_run_may_end_in_its_timed_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a warm-up that ends at a tolerance, and steps or checkpoints after the end."""
    agreed: list[int] = []
    written: list[int] = []
    noted: list[None] = []

    def singly(agreements: Any, start: int, end: int) -> Iterator[Segment]:
        return (Segment(step, step + 1, end, step - start) for step in range(start, end))

    def agree_to_all(_: Any, segment: Segment, *calls: Any) -> bool:
        agreed.append(segment.stop)
        return True

    def note(_: Any, part: Any, engine: Any, step: int, *more: bool) -> None:
        written.append(step)

    monkeypatch.setattr(Agreements, "segments", singly)
    monkeypatch.setattr(Agreements, "after", agree_to_all)
    monkeypatch.setattr(engine, "take_checkpoint", note)
    monkeypatch.setattr(Agreements, "wrote", lambda _: noted.append(None))
    told, done = run(2, 4, tolerance=1e9, check_every=1)
    assert done == 3 and told == ["attend", 0, 1, 2, "finish"]
    assert agreed == written == [1, 2] and len(noted) == 2


def test_snapshots_are_asked_for_after_each_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a state of the beginning or of the end that is not stored."""
    segments: list[Any] = []
    monkeypatch.setattr(engine, "take_snapshot", lambda *given: segments.append(given[-1]))
    run(2, 3)
    assert [(one.start, one.stop) for one in segments] == [(SETUP, 0), (0, 2), (2, 5)]


@pytest.mark.parametrize(("last", "wanted", "kept"), [(None, True, 0), (3, False, 0), (3, True, 1)])
def test_snapshots_that_are_due(last: int | None, wanted: bool, kept: int) -> None:
    """Catches a snapshot that nobody asked for, and none where one is due."""
    calls: list[Any] = []
    job: Any = SimpleNamespace(
        wants_snapshot=lambda before, step: (before, step) == (3, 4) and wanted,
        keep=lambda *given: calls.append("keep"),
    )
    log: Any = SimpleNamespace(
        pe=0, snapshots_s=1.0, rested=lambda audits: 5.0, go_on=lambda end: 2 * end
    )
    transport = SimpleNamespace(barrier=lambda: calls.append("barrier"), all_reduce=max_of_two)
    engine: Any = SimpleNamespace(blocks=[], places={}, transport=transport)
    take_snapshot(job, engine, log, Segment(0, 4, 9, last=last))
    assert calls == ["keep", "barrier"] * kept and log.snapshots_s == 1 + 12 * kept


def max_of_two(value: float, op: str) -> float:
    """What is reduced with a PE that comes a second later."""
    assert op == "max"
    return value + 1


def test_a_run_goes_on_from_a_saved_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a state that is not taken up, or is not the one that was saved."""
    saved: Any = SimpleNamespace(step=3, for_block=lambda number: f"saved {number}")
    taken: list[Any] = []
    checked: list[Any] = []
    job = job_of(2, 4, saved)
    blocks = [job.build(index) for index in job.layout.indices()]
    made = Engine(blocks)
    monkeypatch.setattr(Stepper, "set_up", lambda _, state: taken.append(state))
    monkeypatch.setattr(engine, "words_of_state", lambda _: 7)
    monkeypatch.setattr(engine, "require_state", lambda _, words: checked.append(words))
    _, end = run_phases(job, made, 0, Watched())
    assert taken == [f"saved {number}" for number in range(3)]
    assert checked == [7] and end.step == 6
