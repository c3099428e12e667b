"""The state hash a second time, in plain NumPy: audits and references compare with it.

It shares no code with `kernels.state_hash`. The bits of an element are mixed with its place, which
is its number in the global array, or id times columns plus column. SplitMix64's finalizer (Steele,
Lea, Flood, OOPSLA 2014) mixes. The four words are sums modulo 2^64.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from random import Random

import numpy as np

from miniapps.contract import Piece

RUNS = 1, 64, 1 << 14  # elements along the last axis, or of particles, in each sample
GOLDEN, ADDED, MULTIPLIED = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xD1342543DE82EF95, 0x2545F4914F6CDD1D)
)
STEPS = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Scatter each bit of 64-bit numbers over all bits."""
    for shift, factor in STEPS:
        numbers = numbers ^ (numbers >> np.uint64(shift))
        numbers *= np.uint64(factor)
    return numbers


def uniform(numbers: np.ndarray, bits: int = 53) -> np.ndarray:
    """Random numbers of so many bits from 0 to below 1, by points' numbers from 0 on: float64."""
    places = numbers.astype(np.uint64) + np.uint64(1)
    return (mixed(places * GOLDEN) >> np.uint64(64 - bits)) / 2.0**bits


def words_of(piece: Piece) -> np.ndarray:
    """The four words of a piece of the state: (4,) uint64."""
    values = np.ascontiguousarray(piece.values)
    bits = values.view(f"u{values.itemsize}").reshape(-1).astype(np.uint64)
    places = mixed(_numbers(piece).astype(np.uint64) * GOLDEN + np.uint64(_seed(piece.name)))
    elements = bits ^ places
    words = (
        mixed(elements),
        mixed(elements + places * ADDED),
        mixed(elements * MULTIPLIED + places),
        mixed(~elements + places * np.uint64(2)),
    )
    return np.array([word.sum(dtype=np.uint64) for word in words])


def digest_of(pieces: Iterable[Piece]) -> str:
    """The state hash of these pieces, as records write it: 64 hexadecimal digits."""
    return text_of(map(words_of, pieces))


def text_of(parts: Iterable[Iterable[int]]) -> str:
    """The state hash of blocks, each with its four words, as records write it."""
    words = zip(*[map(int, part) for part in parts], strict=True)
    return "".join(f"{sum(word) % 2**64:016x}" for word in words) or "0" * 64


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


def _numbers(piece: Piece) -> np.ndarray:
    """The global number of each element, in C order."""
    shape = piece.values.shape
    if piece.ids is not None:
        columns = int(np.prod(shape[1:], dtype=int))
        return (piece.ids[:, np.newaxis] * columns + np.arange(columns)).reshape(-1)
    numbers = np.zeros((1,) * len(shape), np.int64)
    for axis, (n, first) in enumerate(zip(shape, piece.origin or (), strict=True)):
        along = [1] * len(shape)
        along[axis] = n
        numbers = numbers * piece.shape[axis] + np.arange(first, first + n).reshape(along)
    return numbers.reshape(-1)


def differences(
    hashed: Callable[[list[Piece]], np.ndarray], pieces: Iterable[Piece], random: Random
) -> int:
    """The number of random samples of a block's state that ``hashed`` gives other words."""
    parts = [
        _part(piece, count, random)
        for piece in pieces
        if piece.values.size and (piece.ids is not None or piece.origin is not None)
        for count in RUNS
    ]
    return sum(bool((hashed([part]) != words_of(part)).any()) for part in parts)


def _part(piece: Piece, count: int, random: Random) -> Piece:
    """About ``count`` elements of particles, or so many cells of a row, and some beside them."""
    shape = piece.values.shape
    if piece.ids is not None:
        rows = _span(len(piece.ids), max(1, count // piece.values[0].size), random)
        return piece._replace(values=piece.values[rows], ids=piece.ids[rows])
    beside = 2 if count < max(RUNS) else 1
    counts = (*(beside for _ in shape[1:]), count)
    box = tuple(_span(n, some, random) for n, some in zip(shape, counts, strict=True))
    origin = tuple(low + span.start for low, span in zip(piece.origin or (), box, strict=True))
    return piece._replace(values=piece.values[box], origin=origin)


def _span(size: int, count: int, random: Random) -> slice:
    """A random part of an axis: ``count`` in a row, or all if there are fewer."""
    first = random.randrange(max(size - count, 0) + 1)
    return slice(first, first + count)
