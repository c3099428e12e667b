"""The header of a message that travels to another process, in the `HEADER_BYTES` before its array.

It says what the message is, so that a receiver can refuse another one.
"""

from __future__ import annotations

import math
import struct
import zlib
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from miniapps.contract import Edge
from miniapps.devices.messages import HEADER_BYTES, Envelope, envelope_of, packed

HEAD = struct.Struct("<q56s")  # step, then the part that many messages share
KIND = struct.Struct("<Iii4xB7s4q")  # phase (CRC-32), sender's rank, tag, axes, dtype, shape
assert (HEAD.size, KIND.size) == (HEADER_BYTES, 56)
NO_AXES = (0, 0, 0, 0)
TAGS = 1 << 15  # of a kind of blocks


class Kind(NamedTuple):
    """What a header says but for the step: phase, sender, edge, and the array that follows."""

    code: int
    rank: int
    tag: int
    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int


def tag_of(edge: Edge, kind: int = 0) -> int:
    """A tag for an edge of up to three axes; below the 2^15 that MPI guarantees.

    Offsets count modulo 32, so edges that differ by a multiple of it must lead to different ranks.
    ``kind``: the number of the block's kind; tags of further kinds are above that.
    """
    tag = 0
    for offset in edge:
        tag = tag * 32 + (offset + 16) % 32
    return tag + kind * TAGS


@cache
def phase_code(phase: str, summed: bool) -> int:
    """The code of a phase in a header; ``summed``: for messages of a PostSum."""
    return zlib.crc32(phase.encode(), int(summed))


@lru_cache(1024)
def kind_of(code: int, rank: int, tag: int, shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The header of a message without its step."""
    axes = len(shape)
    padded = shape + NO_AXES[axes:]
    return KIND.pack(code, rank, tag, axes, dtype.str.encode(), *padded)


@lru_cache(1024)
def read_kind(kind: bytes) -> Kind:
    """Decode a `kind_of`."""
    code, rank, tag, axes, name, *shape = KIND.unpack(kind)
    dtype, used = np.dtype(name.rstrip(b"\0").decode()), tuple(shape[:axes])
    return Kind(code, rank, tag, used, dtype, math.prod(used) * dtype.itemsize)


def enveloped(array: np.ndarray) -> np.ndarray:
    """A buffer with a message and space for its header; a copy unless it was `packed`."""
    envelope = envelope_of(array)
    if type(envelope) is not Envelope:
        envelope = envelope_of(packed(array))
        assert envelope is not None
    return envelope
