"""One benchmark on one rank: first every byte is checked, then it is timed in several trials."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from miniapps.communication.actions import NONE, Action, Function, Split, Touch, listed, plain
from miniapps.communication.buffers import Data, as_bytes, kind_of
from miniapps.communication.catalogue import ALL as ALL_RANKS
from miniapps.communication.catalogue import LARGE, OVERLAP, Benchmark
from miniapps.communication.movement import MOVEMENTS, Place, partner
from miniapps.communication.pattern import WrongByte, difference, expected, sent
from miniapps.communication.progress import ALL, COMPUTES, Progress, in_collective, with_rank
from miniapps.communication.settings import Settings
from miniapps.communication.timing import (
    CHUNK,
    Overlap,
    Sample,
    Times,
    Work,
    cost_of,
    joined,
    overlapped,
    timed,
)

CHECKED = 2  # iterations of the check: one cannot show that the second sends what is new
CHECKED_BYTES = 64 << 20  # of messages that are checked at once, each with memory of its own
HEARTBEAT_S = 0.1  # between two reports of progress, where iterations are slow
BARRIERS = 100  # that are timed, or fewer where there are fewer iterations


def most_bytes(benchmark: Benchmark, settings: Settings) -> int:
    """The memory for the messages to or from one rank that there are at once, at most."""
    return max(size * _at_once(size, benchmark, settings) for size in settings.sizes(benchmark))


def least_bytes(benchmark: Benchmark, settings: Settings, ranks: int) -> int:
    """The memory that all messages of the first and the last rank need at least."""
    size = max(settings.sizes(benchmark))
    window = _at_once(size, benchmark, settings)
    both = (Place(rank, ranks, size, window) for rank in (0, ranks - 1))
    moved = map(MOVEMENTS[benchmark.movement], both)
    return sum(block.size for mine in moved for block in (*mine.sends, *mine.receives))


def _at_once(size: int, benchmark: Benchmark, settings: Settings) -> int:
    """How many messages of a window have memory of their own."""
    if not benchmark.windowed:
        return 1
    if settings.touch != NONE:
        return settings.window
    return 1 if settings.no_check else min(settings.window, max(1, CHECKED_BYTES // max(size, 1)))


class World(Protocol):
    """What a runtime offers to a rank."""

    rank: int
    ranks: int
    local_rank: int  # the number of this rank on its host
    versions: dict[str, str]  # of the runtime, for the record

    def barrier(self) -> None:
        """Wait for all ranks."""

    def gather(self, value: Any) -> list[Any] | None:
        """The values of all ranks on rank 0, None elsewhere."""

    def share(self, value: Any) -> Any:
        """Rank 0's value."""

    def repeat(self, function: Function) -> bool:
        """Call a function from time to time while this rank waits; False: use a thread."""

    def actions(self, benchmark: Benchmark, data: Data) -> list[Action]:
        """What this rank does in one iteration of a benchmark; nothing if it only waits."""


class Dissected(World, Protocol):
    """A world whose runtime can take its calls apart."""

    def anatomy(self, settings: Settings, progress: Progress) -> dict[str, Any]:
        """What `communication.anatomy.rows` takes. Raises WrongData."""


class WrongData(Exception):
    """A received message has a wrong byte."""


class Session:
    """One benchmark on this rank."""

    def __init__(
        self, world: World, benchmark: Benchmark, settings: Settings, progress: Progress
    ) -> None:
        self.world, self.benchmark, self.settings = world, benchmark, settings
        self.progress, self.part, self.doing = progress, -1, ""
        self.iterates = self._iterates()
        self.sizes = settings.sizes(benchmark)
        self.kind = kind_of(settings.buffer, benchmark.reduces, world.local_rank)

    def check(self) -> None:
        """Check every byte of all sizes, unless that is not wanted.

        Raises WrongData on all ranks if a rank has received a wrong byte.
        """
        if not self.settings.no_check:
            for size in self.sizes:
                self._begin(f"check of {size} B")
                self._agree(size, self._checked(size))

    def measure(self) -> dict[str, Any]:
        """Time all sizes; on rank 0 returns the trials, elsewhere something empty."""
        trials, barriers = [], []
        barrier_count = min(BARRIERS, self.settings.iterations or BARRIERS)
        order = random.Random(self.settings.seed)
        for trial in range(self.settings.trials):
            with self.progress.doing(ALL):
                self.world.barrier()
                barriers.append(cost_of(self.world.barrier, barrier_count))
            for size in order.sample(self.sizes, len(self.sizes)):
                self._begin(f"{size} B in trial {trial + 1}")
                found = self._trial(size)
                trials.append({"trial": trial, "size": size} | found)
        return {"measured": trials, "barrier_us": float(np.median(barriers)) * 1e6}

    # Progress ------------------------------------------------------------------------------------

    def _begin(self, doing: str) -> None:
        self.part += 1
        self.doing = doing
        self._heartbeat()

    def _heartbeat(self) -> None:
        self.progress(self.part, self.doing)

    def _iterates(self) -> str:
        """What this rank does in iterations; that it computes, if it may also do that."""
        benchmark, world = self.benchmark, self.world
        if self.settings.touch != NONE or benchmark.measures == OVERLAP:
            return COMPUTES
        if benchmark.ranks == ALL_RANKS:
            return in_collective(benchmark.name)
        return with_rank(partner(world.rank, world.ranks))

    def _barrier(self) -> None:
        """Wait for all ranks."""
        with self.progress.doing(ALL):
            self.world.barrier()

    # Data ----------------------------------------------------------------------------------------

    def _data(self, size: int, window: int, shared: bool, first: int = 0) -> Data:
        window = window if self.benchmark.windowed else 1
        place = Place(self.world.rank, self.world.ranks, size, window, first)
        movement = MOVEMENTS[self.benchmark.movement](place)
        apart = self.settings.pickle is not None
        return Data(self.benchmark, movement, self.kind, apart, shared)

    # Check ---------------------------------------------------------------------------------------

    def _checked(self, size: int) -> WrongByte | None:
        """Make some iterations and compare every byte; returns the first wrong one.

        The messages of a large window are checked one part after the other.
        """
        window = self.settings.window if self.benchmark.windowed else 1
        most = max(1, CHECKED_BYTES // max(size, 1))
        parts = range(0, window, most)
        found = [self._checked_part(size, first, min(most, window - first)) for first in parts]
        return next((wrong for wrong in found if wrong is not None), None)

    def _checked_part(self, size: int, first: int, window: int) -> WrongByte | None:
        """The same of some messages of a window, from the slot ``first`` on."""
        wrong = None
        with self._data(size, window, shared=False, first=first) as data:
            actions = self.world.actions(self.benchmark, data)
            for iteration in range(CHECKED):
                fill(data, iteration)
                self._barrier()
                with self.progress.doing(self.iterates):
                    received = received_by(actions, data)
                self._barrier()  # until it is there where this rank was not asked
                wrong = wrong or wrong_byte(data, received, self.world.rank, iteration)
                self._heartbeat()
        return wrong

    def _agree(self, size: int, wrong: WrongByte | None) -> None:
        """Raise WrongData on all ranks, with the first of their wrong bytes."""
        with self.progress.doing(ALL):
            found = self.world.gather(wrong)
            first = found and next((str(one) for one in found if one is not None), None)
            words = self.world.share(first)
        if words is not None:
            raise WrongData(f"{self.benchmark.name}, {size} B: {words}")

    # Times ---------------------------------------------------------------------------------------

    def _trial(self, size: int) -> dict[str, Any]:
        """Time one size once; returns what all ranks have measured together, on rank 0.

        If buffers are touched, ``unchanged`` is the value of the same without touching.
        """
        touching = self.settings.touch != NONE
        found = self._once(size, touching)
        if touching and not self.settings.touch_only:
            plain = self._once(size, touching=False)
            found |= {"unchanged": plain["value"]} if plain else {}
        return found

    def _once(self, size: int, touching: bool) -> dict[str, Any]:
        """The same with touched buffers or with unchanged ones."""
        with self._data(size, self.settings.window, shared=not touching) as data:
            actions = self.world.actions(self.benchmark, data)
            fill(data, CHECKED)
            self._barrier()
            touch = Touch(data, self.settings.touch) if touching else None
            with self.progress.doing(self.iterates):
                sample = self._sample(size, actions, touch)
            if touch is None and not self.settings.no_check:
                self._agree(size, self._left(size, actions, data))
        with self.progress.doing(ALL):
            samples = self.world.gather(sample)
        if samples is None:
            return {}
        percentiles = self.settings.percentiles
        asked = percentiles.values if percentiles else ()
        return joined(self.benchmark, size, self.settings.window, samples, asked)

    def _left(self, size: int, actions: Sequence[Action], data: Data) -> WrongByte | None:
        """The first wrong byte of what the timed iterations have left in the buffers.

        Where a rank is given objects, which are not kept, all ranks make one more iteration.
        """
        with self.progress.doing(ALL):
            self.world.barrier()
            gives = self.world.gather(_gives(actions))
            given = self.world.share(gives and any(gives))
        received = data.receives
        if given:
            with self.progress.doing(self.iterates):
                received = received_by(actions, data)
        times = self._made(size) if data.movement.adds_to else 1
        return wrong_byte(data, received, self.world.rank, CHECKED, times)

    def _made(self, size: int) -> int:
        """How many iterations a trial makes, warm-ups included."""
        iterations = self.settings.iterations_of(self.benchmark, size)
        return iterations + self.settings.warmups_of(self.benchmark)

    def _sample(self, size: int, actions: Sequence[Action], touch: Touch | None) -> Sample:
        """Warm up and time; the data of collectives are touched while the clock does not run."""
        iterations = self.settings.iterations_of(self.benchmark, size)
        warmups = self.settings.warmups_of(self.benchmark)
        functions = [plain(action) for action in actions]
        between: Function | None = None
        chunk = CHUNK if self.settings.percentiles is None else 1
        if self.benchmark.ranks == ALL_RANKS:
            chunk, between = 1, self.world.barrier
        if touch is not None and self.benchmark.touched_between:
            chunk = 1
            functions, between = self._touched_between(actions, touch)
        elif touch is not None:
            functions = [made for action in actions for made in touch.around(action)]
        warm = timed(functions, warmups, 1 if size > LARGE else chunk, between, self._heartbeat)
        if warm.mean_s > 0:
            chunk = max(1, min(chunk, int(HEARTBEAT_S / warm.mean_s)))
        self._barrier()
        begun_s = touch.spent_s if touch else 0.0
        times = timed(functions, iterations, chunk, between, self._heartbeat)
        touch_s = (touch.spent_s - begun_s) / iterations if touch else 0.0
        self._barrier()
        clock_s = self._clock_cost(touch, iterations)
        overlap = None
        if self.benchmark.measures == OVERLAP:
            overlap = self._overlap(actions, times, iterations, between)
        return Sample(times, touch_s, clock_s, overlap)

    def _touched_between(
        self, actions: Sequence[Action], touch: Touch
    ) -> tuple[list[Function], Function]:
        """Functions to time, and one that touches their data and then waits for all ranks."""
        last: list[Any] = []

        def keep(run: Function) -> None:
            last[:] = listed(run())

        def between() -> None:
            touch.read(last) if last else touch.read_all()
            touch.write_all()
            self.world.barrier()

        runs = [(plain(action), action.gives) for action in actions]
        return [partial(keep, run) if gives else run for run, gives in runs], between

    def _clock_cost(self, touch: Touch | None, iterations: int) -> float:
        """Mean seconds per iteration that calling and timing a ping-pong's touches adds to them."""
        if touch is None or self.benchmark.touched_between:
            return 0.0
        begun_s = touch.spent_s
        whole = timed(touch.alone(), iterations, CHUNK, None, self._heartbeat)
        return whole.mean_s - (touch.spent_s - begun_s) / iterations

    def _overlap(
        self, actions: Sequence[Action], pure: Times, iterations: int, between: Function | None
    ) -> Overlap:
        """Compute while the collective is under way, for about as long as it takes alone."""
        (split,) = actions
        assert isinstance(split, Split) and between is not None
        means = self.world.gather(pure.mean_s)
        work = Work()
        work.last(self.world.share(means and float(np.mean(means))))
        compute = timed([work], iterations, 1, None, self._heartbeat)
        between()
        overall, begin_s, wait_s = overlapped(split, work, iterations, between, self._heartbeat)
        return Overlap(pure.mean_s, compute.mean_s, overall, begin_s, wait_s)


def _gives(actions: Sequence[Action]) -> bool:
    """Whether actions return received objects."""
    return any(action.gives for action in actions)


def fill(data: Data, iteration: int) -> None:
    """Write what is sent in an iteration, and something else in every byte that will be received.

    If the messages of a window share memory, they are all as the last.
    """
    moved, kind = data.movement, data.kind
    for part, block in data.distinct(data.sends, moved.sends):
        kind.write(part, sent(block.sources[0], block, iteration))
    for part, block in data.distinct(data.receives, moved.receives):
        kind.write(part, ~expected(block, iteration))
    for part, block in zip(data.receives, moved.adds_to, strict=False):
        kind.write(part, sent(block.sources[0], block, iteration))


def received_by(actions: Sequence[Action], data: Data) -> list[Any]:
    """Make one iteration; returns what was received, block by block."""
    given = []
    for action in actions:
        result = plain(action)()
        if action.gives:
            given += listed(result)
    return given if _gives(actions) else data.receives


def wrong_byte(
    data: Data, received: Sequence[Any], rank: int, iteration: int, times: int = 1
) -> WrongByte | None:
    """The first wrong byte of what a rank has received, block by block.

    ``times``: how often it was added, if it is added to memory.
    """
    blocks = data.movement.receives
    if len(received) < len(blocks):
        return WrongByte(rank, iteration, blocks[len(received)], "is missing")
    in_place = received is data.receives
    pairs = data.distinct(received, blocks) if in_place else zip(received, blocks, strict=True)
    shown, right = None, np.empty(0, np.uint8)
    for found, block in pairs:
        like = blocks[-1] if data.one_for_all else block
        if like != shown:
            shown, right = like, expected(like, iteration, times)
        words = difference(data.kind.read(found) if in_place else as_bytes(found), right)
        if words is not None:
            return WrongByte(rank, iteration, block, words)
    return None
