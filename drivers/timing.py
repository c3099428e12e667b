"""Timing of rounds and blocks: the same definitions under every driver.

A *round* is one call of a block's ``step``. The *wall* time of a round is the time between two
moments: when the last of all blocks finished the previous round (or the common start), and when the
last of all blocks finished this one. So the wall times of all rounds add up to the elapsed time.
*Compute* is the time inside blocks. Times are those of the block's device. A GPU runs behind the
host: its marks are events in the block's stream, and the host reads them only long after the round.
`Stepper` sets marks when it resumes a block; `PELog` reads them and keeps the times per PE. In a
traced run, compute is also recorded in *slices*: the work of a block between two requests, which
counts as packing if the second request is a Post, else as computing.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter, time
from types import GeneratorType
from typing import Any, NamedTuple

import numpy as np

from miniapps.contract import (
    SETUP,
    AllReduce,
    Batch,
    Begin,
    MessageError,
    Pause,
    Place,
    Post,
    PostSum,
    Requests,
)
from miniapps.devices.backend import Clock
from miniapps.drivers import machine
from miniapps.drivers.audits import Witness
from miniapps.drivers.exits import error_of
from miniapps.drivers.job import RunError
from miniapps.drivers.waits import step_name
from miniapps.saved import SavedState

ROW = np.dtype(
    [
        ("block", np.int32),  # Layout.number of the block's index
        ("pe", np.int32),
        ("round", np.int32),
        ("begin_s", np.float64),  # when the block began the round, from the PE's common start
        ("end_s", np.float64),
        ("compute_s", np.float64),
    ]
)

BLOCKS = (
    "a row per block and timed round, in no order. block: its index in C order over the grid of "
    "blocks; round: row of rounds; begin_s, end_s: when the block began and finished the round, "
    "since its PE's start of timing; compute_s: time inside the block"
)

KINDS = COMPUTE, PACK = 0, 1  # of slices
KIND_NAMES = ("compute", "pack")
SLICE = np.dtype(
    [
        ("pe", np.int32),
        ("block", np.int32),
        ("round", np.int32),
        ("kind", np.uint8),
        ("begin_s", np.float64),  # as in ROW
        ("end_s", np.float64),
    ]
)

SLICES = (
    "a row per slice, which is the work of a block between two requests, in no order. kind: index "
    "into the attribute kinds; begin_s, end_s: since the PE's start of timing; block, round: as in "
    "blocks"
)

SYNC = np.dtype(
    [
        ("pe", np.int32),
        ("step", np.int32),  # the first step after the load-balancing step
        ("begin_s", np.float64),  # the PE's last block began to wait; inf if it had none
        ("end_s", np.float64),  # the first block here continued; inf if there is none
        ("came", np.int32),  # blocks that migrated to this PE
    ]
)
BALANCING = (
    "a row per PE and load-balancing step. step: the step before which blocks were balanced; "
    "begin_s: when the PE's last block began to wait, end_s: when the first one continued, since "
    "the PE's start of timing, infinite if it had none; came: blocks that migrated to the PE"
)

SENT = np.dtype(
    [
        ("block", np.int32),  # the sender
        ("to", np.int32),  # the receiver, numbered in the same way
        ("round", np.int32),
        ("messages", np.int32),
        ("bytes", np.int64),
    ]
)
MESSAGES = (
    "a row per block, receiver and timed round in which the block sent it something, in no order. "
    "block, to: numbers of sender and receiver; round: row of rounds; messages: how many, one per "
    "edge and request; bytes: of all these arrays"
)

SIZE = np.dtype([("block", np.int32), ("bytes", np.int64)])
SIZES = (
    "a row per block, in no order. bytes: its size as it migrates, that is pickled, at the end of "
    "the run"
)

LOAD = np.dtype(
    [
        ("pe", np.int32),
        ("step", np.int32),  # as in SYNC
        ("block", np.int32),
        ("load_s", np.float64),
    ]
)
LOADS = (
    "a row per block and load-balancing step, in the runtime's order on each PE. pe: where the "
    "block was before; step: as in balancing; load_s: the load that the runtime had measured since "
    "the previous load-balancing step, from which its balancer chose the block's next PE"
)


class Spans(NamedTuple):
    """Device marks of one round: pairs around the work inside the block."""

    device: Clock
    begun_s: float  # of the round on the host, if the device may lag behind it; else 0
    ended_s: float
    compute: list[tuple[Any, Any, float]]  # begin, end, and the block's share of that work
    batched_s: float  # the block's share of the seconds that batches took, measured there
    slices: list[tuple[int, Any, Any]]  # kind, begin, end: work between two requests, if traced
    sent: Sequence[tuple[Place, int]] = ()  # receiver and bytes of each message, if traced


class Stepper:
    """Runs one block's generator, one round at a time, and marks the time inside it.

    A `PELog` takes the marks at the end of the round, so a migrating block carries none.
    """

    def __init__(self, block: Any, traced: bool = False) -> None:
        self.block, self.traced, self.lag = block, traced, block.device.lag
        # On a device that runs in step with the host, the stepper answers these requests itself.
        self.answered_here: set[type] = set() if self.lag else {Pause, Batch}
        if traced:
            self.launch_alone()
        self.generator: Requests | None = None
        self.witness: Witness | None = None  # of the messages in an audited round
        self.begun: AllReduce | None = None  # by a Begin
        self.step = SETUP  # the first of the round
        self.finished = False  # the block reported that the whole run is finished
        self._forget()

    def launch_alone(self) -> None:
        """Let the block launch its own work from now on, so that its own time can be measured."""
        if self.block.device.shares_queue:
            self.answered_here.add(Batch)

    def _forget(self) -> None:
        self.begun_s = self.ended_s = 0.0
        self.compute: list[tuple[Any, Any, float]] = []
        self.batched_s = 0.0
        self.slices: list[tuple[int, Any, Any]] = []
        self.sent: list[tuple[Place, int]] = []

    def set_up(self, saved: SavedState | None = None) -> Any:
        """Begin the block's setup; returns its first request, or None if it makes none.

        ``saved``: what the block takes up instead.
        """
        setup = getattr(self.block, "setup", lambda: None)
        generator = self._called(setup if saved is None else partial(self.block.resume, saved))
        return None if generator is None else self._begin(generator)

    def start(self, count: int) -> Any:
        """Begin a round of ``count`` steps; returns the block's first request."""
        generator = self._called(partial(self.block.step, count))
        if not isinstance(generator, GeneratorType):
            raise self._placed(TypeError("step is no generator function: it has no yield"))
        return self._begin(generator)

    def _called(self, method: Callable[[], Requests | None]) -> Requests | None:
        """The generator of a method, or None if it is a plain one, which has done its work."""
        try:
            return method()
        except BaseException as raised:
            raise self._placed(raised)  # noqa: B904 - as in `resume`

    def _begin(self, generator: Requests) -> Any:
        self.generator = generator
        self._forget()
        if self.lag:
            self.begun_s = perf_counter()
        return self.resume(None)

    def spans(self) -> Spans:
        """Take the marks of the round that has just ended."""
        taken = Spans(
            self.block.device,
            self.begun_s,
            self.ended_s,
            self.compute,
            self.batched_s,
            self.slices,
            self.sent,
        )
        self._forget()
        return taken

    def resume(self, answer: Any) -> Any:
        """Answer the block; returns its next request, or None at the end of the round."""
        assert self.generator is not None, "start() comes first"
        if self.witness is not None:
            self.witness.answered(answer)
        device, send = self.block.device, self.generator.send
        before = begun = device.begin()
        try:
            request = self._raise(answer) if isinstance(answer, Exception) else send(answer)
            while type(request) in self.answered_here:
                answer = None
                if type(request) is Batch:
                    (answer,) = answers_to(request.function, [request.task])
                if self.traced:
                    self.slices.append((COMPUTE, begun, begun := device.mark()))
                request = self._raise(answer) if isinstance(answer, Exception) else send(answer)
        except StopIteration as stop:
            self.generator, request = None, None
            if self.lag:
                self.ended_s = perf_counter()
            self.finished = bool(stop.value)
        except BaseException as raised:
            raise self._placed(raised)  # noqa: B904 - it has its cause, or is what was raised
        if type(request) is Begin or self.begun is not None:
            self._note_begun(request)
        now = device.mark_after(before)
        if now is not before:  # else there was no work for the device
            self.compute.append((before, now, 1.0))
            if self.traced:
                packed = type(request) in (Post, PostSum)
                self.slices.append((PACK if packed else COMPUTE, begun, now))
        if self.traced and type(request) in (Post, PostSum):
            self._note_sent(request.messages)
        if self.witness is not None:
            self.witness.requested(request)
        return request

    def _note_begun(self, request: Any) -> None:
        """Raise MessageError unless an AllReduce that was begun is the next one of this step."""
        kind = type(request)
        if request is self.begun:
            self.begun = None
        elif self.begun is not None and (request is None or kind in (Begin, AllReduce)):
            verb = {Begin: "begins another one", AllReduce: "requests another one"}
            does = verb.get(kind, "ends its round")
            raise self._placed(MessageError(f"{does} before the AllReduce that it has begun"))
        if kind is Begin:
            self.begun = request.reduction

    def _note_sent(self, messages: Any) -> None:
        """Record the messages of a request, which the driver has not checked yet."""
        if isinstance(messages, Mapping):
            peers = self.block.neighbors if messages else {}
            self.sent += [
                (peers[edge].place, int(getattr(message, "nbytes", 0)))
                for edge, message in messages.items()
                if edge in peers
            ]

    def _placed(self, raised: BaseException) -> Exception:
        """An error for what a block raised, with the block and its step."""
        error = error_of(raised)
        error.add_note(f"block {self.block.index}, {step_name(self.step)}")
        return error

    def _raise(self, error: Exception) -> Any:
        """Raise an error in the block as the answer to its request; returns its next request."""
        assert self.generator is not None
        return self.generator.throw(error)


def answers_to(function: Callable[[list[Any]], list[Any]], tasks: list[Any]) -> list[Any]:
    """Call a batch function: one answer per task. Raises RunError for any other number."""
    answers = function(tasks)
    if len(answers) != len(tasks):
        raise RunError(f"{function.__name__} gave {len(answers)} answers to {len(tasks)} tasks")
    return answers


def answer_batches(batches: Sequence[tuple[Any, Batch]]) -> Iterator[tuple[Any, Any]]:
    """Run all batches, one call per function; yields each runner, or chare, and its answer.

    Each block bears a share of the time, by its weight: by marks if all blocks share a queue, else
    by the host's clock, for functions that wait for their answers.
    """
    functions: dict[Any, list[tuple[Any, Batch]]] = {}
    for runner, batch in batches:
        functions.setdefault(batch.function, []).append((runner, batch))
    for function, asked in functions.items():
        queue, whole = asked[0][0].block.device, sum([batch.weight for _, batch in asked])
        before = perf_counter()
        begin = queue.begin() if queue.shares_queue else None
        answers = answers_to(function, [batch.task for _, batch in asked])
        end = queue.mark_after(begin) if queue.shares_queue else None
        seconds = perf_counter() - before
        for (runner, batch), answer in zip(asked, answers, strict=True):
            share = batch.weight / whole
            if end is None:
                runner.stepper.batched_s += share * seconds
            else:
                runner.stepper.compute.append((begin, end, share))
            yield runner, answer


@dataclass
class Sync:
    """One load-balancing step on one PE: last block to wait, first to continue, blocks received."""

    begun_s: float = math.inf
    ended_s: float = math.inf
    came: int = 0


class PELog:
    """Timings of one PE: begin, end and compute time of each block and round; load balancing."""

    def __init__(self, pe: int) -> None:
        self.pe = pe
        self.snapshots_s = self.checkpoints_s = 0.0  # in which the clock stood still
        self.agreeing_s: list[float] = []  # each agreement: to write a checkpoint, or to stop
        self.writing_s = 0.0  # checkpoints, perhaps while steps went on
        self.waiting_s = 0.0  # for a checkpoint that was still being written
        self.ready()

    def ready(self) -> None:
        """Note that this PE is ready to step: its blocks are there, and set up."""
        self.born = time()  # since the epoch
        self.start()

    def start(self) -> None:
        """Discard earlier timings and set the time origin to now."""
        self.opened = self.closed = machine.reading()
        self.kept_s = self.stood_s
        self.origin = perf_counter()
        self.end_s = 0.0  # of the last round whose times were read
        self.running: deque[tuple[int, int, Spans]] = deque()  # rounds whose times are not read yet
        self.rows: list[tuple[int, int, int, float, float, float]] = []
        self.counted = 0  # rows that `computed` has added up
        self.slices: list[tuple[int, int, int, int, float, float]] = []
        self.sent: list[tuple[int, Place, int, int, int]] = []
        self.loads: list[tuple[int, int, int, float]] = []
        self.syncs: dict[int, Sync] = {}

    def add(self, block: int, number: int, stepper: Stepper) -> None:
        """Record that a block has just finished round ``number``."""
        spans = stepper.spans()
        if not stepper.lag or not spans.compute:
            self._read(block, number, spans)
            return
        self.running.append((block, number, spans))
        if len(self.running) > stepper.lag:
            self._read(*self.running.popleft())

    def _read(self, block: int, number: int, spans: Spans) -> None:
        """Read a round's marks and store its times."""
        device, origin = spans.device, self.origin
        first, last, compute = spans.begun_s, spans.ended_s, 0.0
        if spans.compute:
            first, last, compute = device.read(spans.compute)
        begin, end, compute = first - origin, last - origin, compute + spans.batched_s
        self.rows.append((block, self.pe, number, begin, end, compute))
        self.end_s = max(self.end_s, end)
        for kind, *marks in spans.slices:
            first, last = (device.time_of(mark) - origin for mark in marks)
            self.slices.append((self.pe, block, number, kind, first, last))
        if spans.sent:
            self._add_up(block, number, spans.sent)

    def _add_up(self, block: int, number: int, sent: Sequence[tuple[Place, int]]) -> None:
        """Store what a block sent in a round to each receiver."""
        messages, nbytes = Counter[Place](), Counter[Place]()
        for place, size in sent:
            messages[place] += 1
            nbytes[place] += size
        self.sent += [(block, to, number, count, nbytes[to]) for to, count in messages.items()]

    def stop(self) -> None:
        """End the time in which disturbances by other programs are measured."""
        self.closed = machine.reading()

    @property
    def stood_s(self) -> float:
        """The seconds in which the clock stood still so far."""
        return self.snapshots_s + self.checkpoints_s

    def passed_s(self) -> tuple[float, float]:
        """The seconds between `start` and `stop`, without those for snapshots, by two clocks."""
        kept_s = self.stood_s - self.kept_s
        before, after = self.opened, self.closed
        return after.now_s - before.now_s - kept_s, after.second_s - before.second_s - kept_s

    def disturbance(self) -> machine.Disturbance:
        """What disturbed this PE between `start` and `stop`."""
        return machine.disturbance(self.opened, self.closed)

    def last_end(self) -> float:
        """When the last round of this PE ended, s; waits for its device."""
        self._drain()
        return self.end_s

    def rested(self, audits_s: float) -> float:
        """When this PE ended its last round and what it audited after it, s; waits for its device.

        Later rounds pay for these ``audits_s``, as they do where no snapshot comes between. Blocks
        of a PE that end their rounds in turn may have audited before the last of them.
        """
        return min(self.last_end() + audits_s, perf_counter() - self.origin)

    def go_on(self, end_s: float) -> float:
        """Continue at ``end_s``, when the last PE was `rested`, as if no time had passed.

        Returns how long the clock has stood still, s, which the caller adds to what it stood for.
        """
        now = perf_counter()
        stood_s = now - self.origin - end_s
        self.origin = now - end_s
        return stood_s

    def begin_wait(self, step: int) -> None:
        """Record that a block of this PE waits for the load-balancing step before ``step``."""
        self.syncs.setdefault(step, Sync()).begun_s = perf_counter() - self.origin

    def end_wait(self, step: int, came: bool) -> None:
        """Record that a block continues here after that load-balancing step, and if it ``came``."""
        sync = self.syncs.setdefault(step, Sync())
        sync.ended_s = min(sync.ended_s, perf_counter() - self.origin)
        sync.came += came

    def note_loads(self, step: int, loads: Sequence[tuple[int, float]]) -> None:
        """Record the runtime's loads, (block, s), before the load-balancing step before ``step``.

        They are in the runtime's order.
        """
        self.loads += [(self.pe, step, block, load_s) for block, load_s in loads]

    def computed(self) -> dict[int, float]:
        """The seconds that each block has computed since the last call; waits for the device."""
        self._drain()
        seconds: dict[int, float] = defaultdict(float)
        for block, *_, compute_s in self.rows[self.counted :]:
            seconds[block] += compute_s
        self.counted = len(self.rows)
        return seconds

    def _drain(self) -> None:
        """Read the times of all rounds."""
        while self.running:
            self._read(*self.running.popleft())

    def messages(self, numbers: Mapping[Place, int]) -> np.ndarray:
        """What blocks of a traced run sent, as an array of `SENT`; ``numbers``: of all blocks."""
        self._drain()
        return np.array([(block, numbers[to], *what) for block, to, *what in self.sent], SENT)

    def tables(self) -> dict[str, np.ndarray]:
        """All rows, slices, load-balancing steps and the loads that the runtime saw.

        They are arrays of `ROW`, `SLICE`, `SYNC` and `LOAD`.
        """
        self._drain()
        syncs = [
            (self.pe, step, sync.begun_s, sync.ended_s, sync.came)
            for step, sync in self.syncs.items()
        ]
        return {
            "blocks": np.array(self.rows, ROW),
            "slices": np.array(self.slices, SLICE),
            "balancing": np.array(syncs, SYNC),
            "loads": np.array(self.loads, LOAD),
        }


def wall_of_rounds(rows: np.ndarray, rounds: int) -> np.ndarray:
    """Wall seconds of each round (rounds,), from all PEs' rows.

    0 where an earlier round ends later: its last block may have been in no later one.
    """
    ends = np.zeros(rounds)
    np.maximum.at(ends, rows["round"], rows["end_s"])
    return np.diff(np.maximum.accumulate(ends), prepend=0.0)


def compute_per_pe(rows: np.ndarray, pes: int, rounds: int) -> np.ndarray:
    """Compute seconds of each PE in each round (pes, rounds), from all PEs' rows."""
    compute = np.zeros((pes, rounds))
    np.add.at(compute, (rows["pe"], rows["round"]), rows["compute_s"])
    return compute


def imbalance(compute: np.ndarray) -> float:
    """Maximum over mean PE compute time, from (PEs, rounds), over all rounds: the ideal gain."""
    mean = compute.mean(axis=0).sum()
    return float(compute.max(axis=0).sum() / mean) if mean else 1.0


def balancing_summary(
    rounds: Sequence[tuple[int, int]], syncs: np.ndarray, compute: np.ndarray
) -> list[dict[str, Any]]:
    """The effect of each load-balancing step, in order, from rows of `SYNC`, one per PE.

    ``rounds``: first step and number of steps of each; ``compute``: (PEs, rounds), s. ``step`` is
    the first step after it. ``seconds``, its cost, is the shortest wait of any PE, because the PE
    that came last waited for the balancing only. The imbalances are those of the rounds since the
    previous load-balancing step, and until the next one.
    """
    firsts, counts = np.array(rounds).reshape(-1, 2).T
    steps = np.unique(syncs["step"]).tolist()
    slowest = compute.max(axis=0)
    cuts = [0, *np.searchsorted(firsts, steps).tolist(), len(firsts)]
    entries = []
    for n, step in enumerate(steps):
        seen = syncs[syncs["step"] == step]
        both = seen[np.isfinite(seen["begin_s"] + seen["end_s"])]
        seconds = float(np.min(both["end_s"] - both["begin_s"])) if len(both) else 0.0
        before, after = slice(cuts[n], cuts[n + 1]), slice(cuts[n + 1], cuts[n + 2])
        usual = slowest[before].sum() / counts[before].sum()
        moved = int(seen["came"].sum())
        paid = paid_after(seconds, usual, slowest[after], counts[after]) if moved else None
        entries.append(
            {
                "step": step,
                "moved": moved,
                "imbalance_before": imbalance(compute[:, before]),
                "imbalance_after": imbalance(compute[:, after]),
                "seconds": seconds,
                "paid_after": paid,
            }
        )
    return entries


def paid_after(seconds: float, usual: float, slowest: np.ndarray, counts: np.ndarray) -> int | None:
    """Steps until a load-balancing step has saved its cost; None if it has not by the next one.

    It saves the difference between ``usual``, the slowest PE's compute time per step before it, and
    that after it: ``slowest`` (rounds,), of ``counts`` steps each.
    """
    saved = np.cumsum(usual * counts - slowest)
    enough = np.flatnonzero(saved >= seconds)
    return int(counts[: enough[0] + 1].sum()) if enough.size else None
