"""What blocks contribute to hashes and to checkpoints, which PEs tell each other.

A PE states what its blocks will write to a checkpoint (`Share`), so that PE 0 can create the file
with room for the whole state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from miniapps.contract import Checkpoint, CheckpointError, Measure, Piece, combine
from miniapps.kernels import state_hash
from miniapps.kernels.state_hash import WORDS

SPARSEST = 16  # ids that a checkpoint has room for, over the number of rows
SPARE_IDS = 1 << 20


class Extent(NamedTuple):
    """One array of a checkpoint: its type, and its shape, or that of a row and the ids of rows.

    ``ids``: the lowest and the highest one; None: the array has no rows with ids.
    """

    dtype: str
    shape: tuple[int, ...]
    ids: tuple[int, int] | None = None
    rows: int = 0

    @classmethod
    def of(cls, piece: Piece) -> Self:
        """The extent that a piece is part of, as far as its block knows."""
        kind = piece.values.dtype.str
        if piece.ids is None:
            return cls(kind, tuple(piece.shape))
        some = (int(piece.ids.min()), int(piece.ids.max())) if len(piece.ids) else (1, 0)
        return cls(kind, piece.values.shape[1:], some, len(piece.ids))

    def joined(self, other: Self, name: str) -> Self:
        """The extent of both. Raises CheckpointError if they do not fit together."""
        if self[:2] != other[:2] or (self.ids is None) != (other.ids is None):
            raise CheckpointError(f"blocks state {name} with different types or shapes")
        if self.ids is None or other.ids is None or not other.rows:
            return self
        if not self.rows:
            return other
        ids = min(self.ids[0], other.ids[0]), max(self.ids[1], other.ids[1])
        return self._replace(ids=ids, rows=self.rows + other.rows)

    def check(self, name: str) -> None:
        """Raise CheckpointError if there are far more ids than rows: the file has room for each."""
        if self.ids is not None and self.span > SPARSEST * self.rows + SPARE_IDS:
            low, high = self.ids
            raise CheckpointError(
                f"checkpoint: {name} has {self.rows} rows with ids from {low} to {high}"
            )

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.shape if self.ids is None else (self.span, *self.shape)

    @property
    def span(self) -> int:
        """The number of rows that have a place, whether they are there or not."""
        assert self.ids is not None
        return self.ids[1] - self.ids[0] + 1


@dataclass
class Share:
    """What the blocks of a PE, or of several, contribute to a checkpoint.

    ``of_state``: the names of the pieces of the state; ``words``: the hash of each piece.
    """

    of_state: set[str] = field(default_factory=set)
    extents: dict[str, Extent] = field(default_factory=dict)
    words: dict[str, np.ndarray] = field(default_factory=dict)
    totals: dict[str, Measure] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Iterable[Any]) -> Self:
        """The share of blocks. Raises CheckpointError if one of them offers no checkpoint."""
        share = cls()
        for block in blocks:
            state = block.state()
            share.of_state |= {piece.name for piece in state}
            more = checkpoint_of(block)
            for piece in (*state, *more.pieces):
                share._add(piece.name, Extent.of(piece), hashed([piece]))
            share.totals = combine(share.totals, more.totals)
        return share

    @classmethod
    def joined(cls, shares: Sequence[Self]) -> Self:
        """The shares of all PEs. Raises CheckpointError if they do not fit together."""
        whole = cls()
        for share in shares:
            whole.of_state |= share.of_state
            for name, extent in share.extents.items():
                whole._add(name, extent, share.words[name])
        whole.totals = combine(*[share.totals for share in shares])
        for name, extent in whole.extents.items():
            extent.check(name)
        return whole

    def _add(self, name: str, extent: Extent, words: np.ndarray) -> None:
        before = self.extents.get(name)
        self.extents[name] = extent if before is None else before.joined(extent, name)
        self.words[name] = self.words.get(name, np.zeros(WORDS, np.uint64)) + words

    def state_words(self) -> np.ndarray:
        """The words of the state hash."""
        return sum((self.words[name] for name in self.of_state), np.zeros(WORDS, np.uint64))


class CheckpointWriter(Protocol):
    """Writes checkpoints. Must be picklable."""

    @property
    def every(self) -> int:
        """Steps between two checkpoints; 0: only times ask for one."""

    def wants(self, before: int, step: int) -> bool:
        """Whether to write one after a round from step ``before`` to ``step``."""

    def create(self, step: int, finished: bool, share: Share) -> None:
        """Create the file, with room for all that ``share``, of all PEs, lists; on PE 0, first.

        ``finished``: whether the blocks report that the run is finished.
        """

    def write(self, pieces: Iterable[Piece]) -> None:
        """Write the pieces of some blocks in place; several PEs may call this concurrently."""

    def flush(self) -> None:
        """Bring to the disk what this PE has written."""

    def finish(self) -> None:
        """Give the file its name, on PE 0, when all PEs have flushed."""


def checkpoint_of(block: Any) -> Checkpoint:
    """What a block adds to a checkpoint. Raises CheckpointError if it offers none."""
    if not hasattr(block, "checkpoint"):
        raise CheckpointError(f"--checkpoint: {block.kind} {block.index} has no method checkpoint")
    found: Checkpoint = block.checkpoint()
    return found


def pieces_of(block: Any) -> list[Piece]:
    """The pieces of a block that a checkpoint contains."""
    return [*block.state(), *checkpoint_of(block).pieces]


def hashed(pieces: list[Piece]) -> np.ndarray:
    """The state hash of one block's pieces: (4,) uint64, to be added over blocks."""
    words = np.zeros(state_hash.WORDS, np.uint64)
    for piece in pieces:
        if piece.ids is not None:
            words += state_hash.hash_rows(piece.name, piece.values, piece.ids)
        elif piece.origin is not None:
            words += state_hash.hash_cells(piece.name, piece.values, piece.origin, piece.shape)
    return words
