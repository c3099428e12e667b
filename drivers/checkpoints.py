"""How PEs write checkpoints, perhaps while steps go on, and how a resumed run begins.

A checkpoint is written by tasks, between which all PEs agree that each of them is ready: every PE
hashes its blocks; PE 0, which knows all hashes, creates the file; every PE writes its blocks; PE 0
gives the file its name. Where steps go on meanwhile, the tasks use copies of what the blocks have,
in a thread, and the PEs agree where they would agree in any case (`drivers.agreements`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from threading import Thread
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from miniapps.contract import Checkpoint, Piece
from miniapps.drivers.job import Job, RunError
from miniapps.drivers.shares import CheckpointWriter, Share, checkpoint_of, hashed, pieces_of
from miniapps.drivers.timing import PELog
from miniapps.kernels.state_hash import WORDS, digest


@dataclass(frozen=True)
class Copied:
    """What a block contributes to a checkpoint, apart from the block, which makes further steps."""

    kind: str
    index: Any
    pieces: list[Piece]
    more: Checkpoint

    @classmethod
    def of(cls, block: Any, room: Iterator[np.ndarray]) -> Copied:
        """A copy; ``room``: arrays that it may use, which saves to have memory made ready."""
        more = checkpoint_of(block)
        pieces = [_copied(piece, room) for piece in block.state()]
        further = [_copied(piece, room) for piece in more.pieces]
        return cls(block.kind, block.index, pieces, Checkpoint(further, deepcopy({**more.totals})))

    def state(self) -> list[Piece]:
        """The pieces of the state."""
        return self.pieces

    def checkpoint(self) -> Checkpoint:
        """What is needed beside the state."""
        return self.more

    def arrays(self) -> Iterator[np.ndarray]:
        """The arrays of the copy."""
        return (piece.values for piece in pieces_of(self))


def _copied(piece: Piece, room: Iterator[np.ndarray]) -> Piece:
    values, into = piece.values, next(room, None)
    if into is None or into.shape != values.shape or into.dtype != values.dtype:
        into = np.empty(values.shape, values.dtype)
    np.copyto(into, values)
    return piece._replace(values=into, ids=None if piece.ids is None else piece.ids.copy())


class Part:
    """The tasks of one PE for the checkpoints of a run, done at once or in a thread."""

    def __init__(self, writer: CheckpointWriter | None, log: PELog) -> None:
        self.writer: Any = writer  # None: nothing is asked of this
        self.log = log
        self.blocks: Sequence[Any] = []  # or copies of them
        self.room: list[np.ndarray] = []  # of the last copies, or for the first ones
        self.share = Share()
        self.behind = False
        self.thread: Thread | None = None
        self.error: BaseException | None = None

    def take(self, blocks: Iterable[Any], behind: bool) -> None:
        """Get to know what to write; ``behind``: while the blocks go on, so that it is copied."""
        self.ready(wait=True)
        self.behind, self.blocks = behind, [*blocks]
        if behind:
            room = iter(self.room)
            copies = [Copied.of(block, room) for block in self.blocks]
            self.room = [array for copy in copies for array in copy.arrays()]
            self.blocks = copies

    def make_room(self, blocks: Iterable[Any]) -> None:
        """Have the system find memory for copies, in a thread: it takes longer than to copy."""
        pieces = [piece for block in blocks for piece in pieces_of(block)]
        self.room = [np.empty(piece.values.shape, piece.values.dtype) for piece in pieces]
        self.thread = Thread(target=self._touch, daemon=True)
        self.thread.start()

    def _touch(self) -> None:
        for array in self.room:
            array.fill(0)

    def begin(self, task: str, *given: Any) -> None:
        """Begin a task, or do it at once. Raises RunError, CheckpointError, as `ready` does."""
        act: Callable[..., None] = getattr(self, task)
        if not self.behind:
            self._timed(act, *given)
            return
        self.thread = Thread(target=self._told, args=(act, *given), daemon=True)
        self.thread.start()

    def ready(self, wait: bool = False) -> bool:
        """Whether the task is done; ``wait``: until it is. Raises the error that ended it."""
        if self.thread is None:
            return True
        self.thread.join(None if wait else 0.0)
        if self.thread.is_alive():
            return False
        self.thread = None
        if self.error is not None:
            raise self.error
        return True

    def _told(self, act: Callable[..., None], *given: Any) -> None:
        try:
            self._timed(act, *given)
        except BaseException as error:
            self.error = error

    def _timed(self, act: Callable[..., None], *given: Any) -> None:
        before = perf_counter()
        act(*given)
        self.log.writing_s += perf_counter() - before

    # Tasks ----------------------------------------------------------------------------------------

    def hash(self) -> None:
        """Find the hashes and extents of what is written."""
        self.share = Share.of(self.blocks)

    def create(self, step: int, finished: bool, shares: Sequence[Share]) -> None:
        """Create the file, on PE 0. ``shares``: of all PEs."""
        self.writer.create(step, finished, Share.joined(shares))

    def write(self) -> None:
        """Bring to the disk what this PE has, and forget it."""
        write_blocks(self.writer, self.blocks)
        self.writer.flush()
        self.blocks = []

    def finish(self) -> None:
        """Give the file its name, on PE 0."""
        self.writer.finish()


class Team(Protocol):
    """All PEs of a run, which do tasks of `Part`."""

    def all(self, task: str) -> None:
        """Let every PE begin a task."""

    def first(self, task: str, *given: Any) -> None:
        """Let PE 0 begin a task."""

    def shares(self) -> list[Share] | None:
        """What all PEs will write, where it is known: on PE 0."""

    def ready(self, wait: bool) -> bool:
        """Whether no PE has a task to do; ``wait``: until it is so."""


class Checkpoints:
    """The checkpoints of a run, of which one at a time may be in the making."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.pending: Iterator[None] | None = None

    def begin(self, step: int, finished: bool) -> None:
        """Begin to write a checkpoint; every `Part` has taken its blocks."""
        self.pending = self._tasks(step, finished)
        self._next()

    def proceed(self) -> None:
        """Begin the next task if all PEs are ready."""
        if self.pending is not None and self.team.ready(wait=False):
            self._next()

    def complete(self) -> float:
        """Wait until no checkpoint is in the making, or make one at once; returns the seconds."""
        if self.pending is None:
            return 0.0
        before = perf_counter()
        while self.pending is not None:
            self.team.ready(wait=True)
            self._next()
        return perf_counter() - before

    def _next(self) -> None:
        assert self.pending is not None
        if next(self.pending, True):
            self.pending = None

    def _tasks(self, step: int, finished: bool) -> Iterator[None]:
        """Write a checkpoint; to be resumed when all PEs are ready."""
        self.team.all("hash")
        yield
        self.team.first("create", step, finished, self.team.shares())
        yield
        self.team.all("write")
        yield
        self.team.first("finish")
        yield


def write_blocks(writer: CheckpointWriter, blocks: Iterable[Any]) -> None:
    """Write the pieces of a PE's blocks to the file that PE 0 has created."""
    writer.write(piece for block in blocks for piece in pieces_of(block))


def words_of_state(blocks: Iterable[Any]) -> np.ndarray:
    """The share of blocks in the state hash: (4,) uint64."""
    return sum((hashed(block.state()) for block in blocks), np.zeros(WORDS, np.uint64))


def require_state(job: Job, words: np.ndarray) -> None:
    """Raise RunError unless all blocks together have resumed the state of the checkpoint."""
    assert job.resumed is not None
    found = digest(words)
    if found != job.resumed.state_hash:
        raise RunError(
            f"--resume {job.resumed.path}: the blocks have state {found[:16]}..., the checkpoint "
            f"has {job.resumed.state_hash[:16]}..."
        )
