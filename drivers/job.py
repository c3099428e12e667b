"""The input of a driver: the job, and the interfaces of watchers and stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

from miniapps import apps, kernels
from miniapps.audit import AuditPlan, BaseAudit, audit_of
from miniapps.contract import SETUP, Index, Piece, Place
from miniapps.decomposition import Layout
from miniapps.devices import backend as device
from miniapps.devices.backend import Backend
from miniapps.drivers.descriptor import Options
from miniapps.drivers.shares import CheckpointWriter
from miniapps.saved import SavedState

if TYPE_CHECKING:
    from miniapps.drivers.waits import Wait

Own = TypeVar("Own", bound=Options)


class RunError(RuntimeError):
    """The run failed; the message names the PE or block, and the step."""


class Segment(NamedTuple):
    """Consecutive rounds of a phase, up to where something may follow, or to the end of the phase.

    ``start``, ``stop``, ``end`` and ``last`` are steps.
    """

    start: int
    stop: int
    end: int  # of the phase
    number: int = 0  # of the first round in the phase
    last: int | None = None  # where its last round begins, if a snapshot or checkpoint follows


class Watcher(Protocol):
    """Receives the progress of each PE. Must be picklable."""

    def heartbeat(self, pe: int, step: int) -> None:
        """Record that PE ``pe`` begins the round at ``step``; called in every round."""

    def finish(self, pe: int) -> None:
        """Record that PE ``pe`` has made its last step."""

    def attend(self, pe: int, waits: Callable[[], list[Wait]], threaded: bool = True) -> None:
        """Answer with ``waits()``, from a thread or in `answer`, what the blocks of a PE wait for.

        The launching process asks when the run makes no progress.
        """

    def answer(self, pe: int) -> None:
        """Answer now, if asked; for PEs whose other threads cannot run."""

    def signalled(self) -> bool:
        """Whether a signal asks the run to write a checkpoint and stop."""

    def fail(self, error: Exception) -> None:
        """Report the error that ends this process."""


class Store(Protocol):
    """Stores the global state, block by block. Must be picklable."""

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The steps between two snapshots, of each writer that takes any during the run."""

    def wants(self, before: int, step: int) -> bool:
        """Whether to store a snapshot after a round from step ``before`` to ``step``.

        The setup is a round from step -1 to 0.
        """

    def keep(self, pe: int, before: int, step: int, pieces: list[Piece]) -> None:
        """Store a block's pieces of a snapshot; several PEs may call this concurrently."""

    def create(self, pieces: list[Piece]) -> None:
        """Create the datasets of the final state from any block's pieces; called once, first."""

    def write(self, pieces: list[Piece]) -> None:
        """Store one block's pieces of the final state; never called by two PEs concurrently."""


@dataclass(frozen=True)
class Job(Generic[Own]):
    """A run: the problem, its decomposition and the number of steps."""

    app: str
    problem: Any
    layout: Layout
    steps: int  # that are timed
    warmup: int = 0  # steps before those; both advance the physics
    device: str = "cpu"
    store: Store | None = None
    traced: bool = False  # record the slices of work of each block between two requests
    gpus_per_host: int | None = None  # the first ones, which its processes share; None: all
    options: Own = cast(Any, Options())  # the driver's own
    audit: AuditPlan | None = None  # None: no audit
    resumed: SavedState | None = None  # the checkpoint from which the run continues
    checkpoint_writer: CheckpointWriter | None = None
    checkpoint_every_s: float = 0.0  # after the last checkpoint another one; 0: never
    time_limit_s: float = 0.0  # the age of its processes at which the run stops; 0: never
    checkpoint_async: bool = False  # write checkpoints while steps go on

    def take_device(self, local_rank: int, one_queue: bool = False) -> Backend:
        """Open the device of this process, which has number ``local_rank`` on its host.

        ``one_queue``: see `Backend`.
        """
        backend = device.open_backend(self.device, local_rank, self.gpus_per_host)
        backend.one_queue = one_queue
        return backend

    def compile(self) -> float:
        """Compile the app's kernels, or load them from numba's cache; returns the seconds."""
        before = perf_counter()
        if self.problem.app is not None:
            kernels.load(self.problem.app, self.device)
        return perf_counter() - before

    def build(self, index: Index) -> Any:
        """Create one block."""
        app = apps.load(self.app)
        return app.Block(self.problem, self.layout, index, device.get(self.device))

    def lasting_blocks(self) -> list[Any]:
        """Create all blocks; none if they exist for a time: `drivers.lives` has those made."""
        if self.problem.kinds_at(0) is not None:
            return []
        return [self.build(index) for _, index in self.layout.numbers]

    def new_audit(self) -> BaseAudit | None:
        """An audit of the run, the same in every process; None if the run is not audited."""
        if self.audit is None:
            return None
        return audit_of(apps.load(self.app), self.problem, self.layout, self.audit)

    def keep(self, pe: int, segment: Segment, blocks: Iterable[Any]) -> None:
        """Pass the state of a PE's blocks to the store, for the snapshot at the segment's end."""
        assert self.store is not None and segment.last is not None
        for block in blocks:
            self.store.keep(pe, segment.last, segment.stop, block.state())

    def saved_for(self, place: Place) -> SavedState | None:
        """What a block takes up instead of its setup; None if the run begins."""
        return self.resumed and self.resumed.for_block(self.layout.numbers[place])

    @property
    def start(self) -> int:
        """The first step that this run makes."""
        return 0 if self.resumed is None else self.resumed.step

    @property
    def timed(self) -> int:
        """The first step that is timed."""
        return max(self.start, self.warmup)

    def phases(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Warm-up and timed phase: (first step, end) of each. Only the second may end early."""
        return (self.start, self.timed), (self.timed, self.warmup + self.steps)

    def setup(self) -> Segment:
        """The setup as a segment, after which a snapshot of step 0 may be due."""
        due = self.resumed is None and self.wants_snapshot(SETUP, 0)
        return Segment(SETUP, 0, 0, last=SETUP if due else None)

    def wants_snapshot(self, before: int, step: int) -> bool:
        """Whether a snapshot is due after the round from step ``before`` to ``step``."""
        return self.store is not None and self.store.wants(before, step)

    def wants_checkpoint(self, before: int, step: int) -> bool:
        """Whether a checkpoint is due after the round from step ``before`` to ``step``."""
        writer = self.checkpoint_writer
        return writer is not None and before >= 0 and writer.wants(before, step)

    def ends_with_checkpoint(self, segment: Segment) -> bool:
        """Whether a checkpoint is due after the last round of a segment."""
        return segment.last is not None and self.wants_checkpoint(segment.last, segment.stop)

    def segments(
        self, start: int, end: int, is_long: Callable[[int], bool] | None = None
    ) -> Iterator[Segment]:
        """A phase cut after each round with a snapshot or checkpoint; else one segment.

        ``is_long``: whether a segment of so many rounds is cut, too.
        """
        first, number = start, 0
        if self.checkpoint_writer is not None or (self.store is not None and self.store.snapshots):
            for at, (step, count) in enumerate(self.rounds(start, end)):
                after = step, step + count
                long = is_long is not None and is_long(at + 1 - number)
                due = self.wants_snapshot(*after) or self.wants_checkpoint(*after)
                if due or long:
                    yield Segment(first, step + count, end, number, step if due else None)
                    first, number = step + count, at + 1
        if first < end or start == end:
            yield Segment(first, end, end, number)

    def count(self, step: int, end: int) -> int:
        """Number of steps in the round that begins at ``step``, in a phase ending at ``end``."""
        return min(self.problem.steps_per_round(step), end - step)

    def rounds(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The rounds from step ``start`` to ``end``: (first step, number of steps)."""
        step = start
        while step < end:
            count = self.count(step, end)
            yield step, count
            step += count
