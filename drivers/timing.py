"""Timing of rounds and blocks: the same definitions under every driver.

A *round* is one call of a block's ``step``. The *wall* of a round is the time from the moment the
last block of all finished the round before (or the common start) to the moment the last block of
all finished this one, so the walls of all rounds add up to the time that passed. *Compute* is the
time inside blocks. Times are those of the block's device, which on a GPU runs behind the host: its
marks lie in the block's stream, and nobody waits for them before the round is long over. `Stepper`
sets them where a block is resumed, `PELog` reads them and keeps the times per PE. Where a run is
traced, compute is kept in *slices* too: what a block did between two requests, packing where the
second is a Post, else computing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any, NamedTuple

import numpy as np

from drivers.job import RunError
from miniapps.contract import Batch, Life, Pause, Post, PostSum

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

SYNC = np.dtype(
    [
        ("pe", np.int32),
        ("step", np.int32),  # the first after the balancing
        ("begin_s", np.float64),  # the PE's last block began to wait; inf where it had none
        ("end_s", np.float64),  # the first block here went on; inf where none is here
        ("came", np.int32),  # blocks that came here by it
    ]
)


class Spans(NamedTuple):
    """When a round was begun and ended, and the times inside the block: pairs of device marks.

    ``batched_s``: the block's share of the seconds that batches took, measured on the host;
    ``slices``: (kind, begin, end) of what it did between two requests, where that is traced.
    """

    device: Any
    begin: Any
    end: Any
    compute: list[tuple[Any, Any]]
    batched_s: float
    slices: list[tuple[int, Any, Any]]


class Stepper:
    """Runs one block's generator, one round at a time, and marks the time inside it.

    A `PELog` takes the marks at the end of the round: so a block that migrates has none.
    """

    def __init__(self, block: Any, traced: bool = False) -> None:
        self.block, self.traced = block, traced
        # Where the device runs in step with the host, no driver sees these.
        self.answered_here: set[type] = set() if block.device.lag else {Pause, Batch}
        self.generator: Life | None = None
        self.finished = False  # the block said that the whole run is finished
        self._forget()

    def _forget(self) -> None:
        self.begin: Any = None
        self.compute: list[tuple[Any, Any]] = []
        self.batched_s = 0.0
        self.slices: list[tuple[int, Any, Any]] = []

    def set_up(self) -> Any:
        """Begin the block's setup; returns its first request, or None where it has no setup."""
        setup = getattr(self.block, "setup", None)
        return None if setup is None else self._begin(setup())

    def start(self, count: int) -> Any:
        """Begin a round of ``count`` steps; returns the block's first request."""
        return self._begin(self.block.step(count))

    def _begin(self, generator: Life) -> Any:
        self.generator = generator
        self._forget()
        self.begin = self.block.device.mark()
        return self.resume(None)

    def spans(self) -> Spans:
        """The marks of the round that has just ended."""
        device = self.block.device
        taken = Spans(device, self.begin, device.mark(), self.compute, self.batched_s, self.slices)
        self._forget()
        return taken

    def resume(self, answer: Any) -> Any:
        """Answer the block; returns its next request, or None at the end of the round."""
        assert self.generator is not None, "start() comes first"
        mark, send = self.block.device.mark, self.generator.send
        before = begun = mark()
        try:
            request = self._raise(answer) if isinstance(answer, Exception) else send(answer)
            while type(request) in self.answered_here:
                if type(request) is Batch:
                    (answer,) = answers_to(request.function, [request.task])
                    request = self._raise(answer) if isinstance(answer, Exception) else send(answer)
                    continue
                if self.traced:
                    self.slices.append((COMPUTE, begun, begun := mark()))
                request = send(None)
        except StopIteration as stop:
            self.generator, request = None, None
            self.finished = bool(stop.value)
        now = mark()
        self.compute.append((before, now))
        if self.traced:
            packed = type(request) in (Post, PostSum)
            self.slices.append((PACK if packed else COMPUTE, begun, now))
        return request

    def _raise(self, error: Exception) -> Any:
        """Raise an answer in the block that asked; returns its next request."""
        assert self.generator is not None
        return self.generator.throw(error)


def answers_to(function: Callable[[list[Any]], list[Any]], tasks: list[Any]) -> list[Any]:
    """A batch's answers, one for each task. Raises RunError where there are more or fewer."""
    answers = function(tasks)
    if len(answers) != len(tasks):
        raise RunError(f"{function.__name__} gave {len(answers)} answers to {len(tasks)} tasks")
    return answers


def answer_batches(batches: list[tuple[Stepper, Batch]]) -> Iterator[tuple[Stepper, Any]]:
    """Do the work of all batches, one call per function; yields each block's stepper and answer."""
    functions: dict[Any, list[tuple[Stepper, Batch]]] = {}
    for stepper, batch in batches:
        functions.setdefault(batch.function, []).append((stepper, batch))
    for function, asked in functions.items():
        before = perf_counter()
        answers = answers_to(function, [batch.task for _, batch in asked])
        share = (perf_counter() - before) / len(asked)
        for (stepper, _), answer in zip(asked, answers, strict=True):
            stepper.batched_s += share
            yield stepper, answer


@dataclass
class Sync:
    """One balancing as one PE saw it, by its own clock: last to wait, first to go on, come here."""

    begun_s: float = math.inf
    ended_s: float = math.inf
    came: int = 0


class PELog:
    """What one PE did: when each round ended, what each block computed in it, and balancings."""

    def __init__(self, pe: int) -> None:
        self.pe = pe
        self.born = time()  # since the epoch: when this PE was ready to step
        self.start()

    def start(self) -> None:
        """Forget what was; time runs from now."""
        self.origin = perf_counter()
        self.running: deque[tuple[int, int, Spans]] = deque()  # rounds whose times are not read yet
        self.rows: list[tuple[int, int, int, float, float, float]] = []
        self.slices: list[tuple[int, int, int, int, float, float]] = []
        self.syncs: dict[int, Sync] = {}

    def add(self, block: int, number: int, stepper: Stepper) -> None:
        """Note that a block has just finished the round of that number."""
        spans, lag = stepper.spans(), stepper.block.device.lag
        if not lag:
            self._read(block, number, spans)
            return
        self.running.append((block, number, spans))
        if len(self.running) > lag:
            self._read(*self.running.popleft())

    def _read(self, block: int, number: int, spans: Spans) -> None:
        """Keep the times of a round."""
        device, origin = spans.device, self.origin
        begin, end = device.time_of(spans.begin) - origin, device.time_of(spans.end) - origin
        compute = device.total(spans.compute) + spans.batched_s
        self.rows.append((block, self.pe, number, begin, end, compute))
        for kind, *marks in spans.slices:
            times = (device.time_of(mark) - origin for mark in marks)
            self.slices.append((self.pe, block, number, kind, *times))
        if device.lag:
            device.renew(spans.begin)

    def begin_wait(self, step: int) -> None:
        """Note that a block of this PE waits for the balancing before ``step``."""
        self.syncs.setdefault(step, Sync()).begun_s = perf_counter() - self.origin

    def end_wait(self, step: int, came: bool) -> None:
        """Note that a block goes on here after that balancing, and whether it came here by it."""
        sync = self.syncs.setdefault(step, Sync())
        sync.ended_s = min(sync.ended_s, perf_counter() - self.origin)
        sync.came += came

    def tables(self) -> dict[str, np.ndarray]:
        """All rows, slices and balancings, as arrays of `ROW`, `SLICE` and `SYNC`."""
        while self.running:
            self._read(*self.running.popleft())
        syncs = [
            (self.pe, step, sync.begun_s, sync.ended_s, sync.came)
            for step, sync in self.syncs.items()
        ]
        return {
            "blocks": np.array(self.rows, ROW),
            "slices": np.array(self.slices, SLICE),
            "balancing": np.array(syncs, SYNC),
        }


def wall_of_rounds(rows: np.ndarray, rounds: int) -> np.ndarray:
    """Wall seconds of each round (rounds,), from all PEs' rows."""
    ends = np.zeros(rounds)
    np.maximum.at(ends, rows["round"], rows["end_s"])
    return np.diff(ends, prepend=0.0)


def compute_per_pe(rows: np.ndarray, pes: int, rounds: int) -> np.ndarray:
    """Compute seconds of each PE in each round (pes, rounds), from all PEs' rows."""
    compute = np.zeros((pes, rounds))
    np.add.at(compute, (rows["pe"], rows["round"]), rows["compute_s"])
    return compute


def imbalance(compute: np.ndarray) -> float:
    """Slowest over mean PE, of compute (PEs, rounds), over all rounds: what balancing can gain."""
    mean = compute.mean(axis=0).sum()
    return float(compute.max(axis=0).sum() / mean) if mean else 1.0
