"""How PEs write checkpoints, and how a resumed run begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from drivers.job import Job, RunError
from drivers.shares import CheckpointWriter, hashed, pieces_of
from kernels.state_hash import WORDS, digest


def write_blocks(writer: CheckpointWriter, blocks: Iterable[Any]) -> None:
    """Write the pieces of a PE's blocks to the file that PE 0 has created."""
    writer.write(piece for block in blocks for piece in pieces_of(block))


def words_of_state(blocks: Iterable[Any]) -> np.ndarray:
    """The share of blocks in the state hash: (4,) uint64."""
    words = np.zeros(WORDS, np.uint64)
    for block in blocks:
        words += hashed(block.state())
    return words


def require_state(job: Job, words: np.ndarray) -> None:
    """Raise RunError unless all blocks together have resumed the state of the checkpoint."""
    assert job.resumed is not None
    found = digest(words)
    if found != job.resumed.state_hash:
        raise RunError(
            f"--resume {job.resumed.path}: the blocks have state {found[:16]}..., the checkpoint "
            f"has {job.resumed.state_hash[:16]}..."
        )
