"""The bytes of every message, and the check that they have arrived.

A message's bytes depend on its sender, its receiver, its size, its slot, the iteration and the
position in it. So a byte that is changed, missing, of an earlier iteration, of another message or
from another rank differs, but for one chance in 256 per byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from miniapps.communication.catalogue import WORD
from miniapps.communication.movement import ACK, Block
from miniapps.drivers import audits
from miniapps.plain_hash import GOLDEN, mixed

BYTES = 8  # of a word of the generator


class WrongByte(NamedTuple):
    """The first wrong byte of a received message."""

    rank: int
    iteration: int
    block: Block
    text: str  # which byte, what it is and what it must be

    def __str__(self) -> str:
        sources, slot = self.block.sources, self.block.slot
        what = "the answer" if slot == ACK else "the message"
        whose = f"from rank {sources[0]}"
        if len(sources) > 1:
            whose = f"from ranks {', '.join(map(str, sources))}"
        number = f", number {slot} of its window" if slot > 0 else ""
        where = f"rank {self.rank}, iteration {self.iteration}"
        return f"{where}: {what} {whose}{number} {self.text}"


def _seed(parts: Iterable[int]) -> int:
    """One integer of 64 bits from several."""
    seed = 0
    for part in parts:
        seed = audits.mixed(seed + (part + 2) * int(GOLDEN))
    return seed


def sent(source: int, block: Block, iteration: int) -> np.ndarray:
    """The bytes (size,) that rank ``source`` contributes to a block in an iteration."""
    seed = _seed((source, block.to, block.size, block.slot, iteration))
    words = np.arange(-(-block.size // BYTES), dtype=np.uint64)
    words *= GOLDEN
    words += np.uint64(seed)
    return mixed(words).view(np.uint8)[: block.size]


def expected(block: Block, iteration: int, times: int = 1) -> np.ndarray:
    """The bytes (size,) of a received block: those of its source, or the sum of all sources.

    Sums are of unsigned integers of `WORD` bytes and wrap. ``times``: how often the first source
    was added, if the block is added to memory.
    """
    first, *others = block.sources
    if not others:
        return sent(first, block, iteration)
    words = sent(first, block, iteration).view(f"u{WORD}") * np.uint32(times)
    for source in others:
        words += sent(source, block, iteration).view(f"u{WORD}")
    return words.view(np.uint8)


def difference(found: np.ndarray, right: np.ndarray) -> str | None:
    """The first difference of received bytes from the right ones, in words; None if there is none.

    A byte is named by its position, counted from 0.
    """
    if found.size != right.size:
        return f"has {found.size} B, must have {right.size}"
    (wrong,) = np.nonzero(found != right)
    if not wrong.size:
        return None
    at = int(wrong[0])
    return f"has 0x{found[at]:02x} in byte {at} of {right.size}, must have 0x{right[at]:02x}"
