"""A hash of a distributed state that needs no gather and no order.

Each element's 64 bits are mixed with its global index in four independent 64-bit hashes, which are
summed modulo 2^64 over elements. The sum is commutative, so every decomposition of the same bits
gives the same four words: blocks hash what they own and the driver adds.

Mixing is the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Traffic 8 B and about 45
integer operations per element.
"""

from __future__ import annotations

import zlib

import numpy as np
from numba import njit, uint64

WORDS = 4


@njit(uint64(uint64), cache=True, inline="always")
def mix(z):
    """Scatter every input bit over all output bits (SplitMix64's finalizer)."""
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@njit("void(uint64[:], uint64, uint64, uint64[:])", cache=True, nogil=True)
def _add_run(bits, first, seed, words):
    """Add the hashes of elements with consecutive global indices from ``first`` to ``words``."""
    h0, h1, h2, h3 = words[0], words[1], words[2], words[3]
    for n in range(bits.size):
        place = mix((first + uint64(n)) * uint64(0x9E3779B97F4A7C15) + seed)
        element = bits[n] ^ place
        h0 += mix(element)
        h1 += mix(element + place * uint64(0xD1342543DE82EF95))
        h2 += mix(element * uint64(0x2545F4914F6CDD1D) + place)
        h3 += mix(~element + (place << uint64(1)))
    words[0], words[1], words[2], words[3] = h0, h1, h2, h3


@njit("void(uint64[:], int64[:], uint64, uint64, uint64[:])", cache=True, nogil=True)
def _add_rows(bits, ids, width, seed, words):
    """Add the hashes of rows of ``width`` elements that belong to numbered particles."""
    for row in range(ids.size):
        run = bits[row * width : (row + 1) * width]
        _add_run(run, uint64(ids[row]) * width, seed, words)


def _bits(values: np.ndarray) -> np.ndarray:
    """The elements' bits as uint64; a view for 64-bit types."""
    if values.dtype.itemsize == 8:
        return values.view(np.uint64)
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)


def hash_cells(
    name: str, values: np.ndarray, origin: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """Hash the cells ``origin + (0..values.shape)`` of a global array of ``shape``.

    Returns (4,) uint64, to be added modulo 2^64 to the words of the other blocks.
    """
    words = np.zeros(WORDS, np.uint64)
    seed = zlib.crc32(name.encode())
    for row in np.ndindex(values.shape[:-1]):
        place = (*(o + r for o, r in zip(origin, row, strict=False)), origin[-1])
        first = np.ravel_multi_index(place, shape) if values.shape[-1] else 0
        _add_run(_bits(values[row]), first, seed, words)
    return words


def hash_rows(name: str, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Hash rows of data that belong to numbered particles; rows may come in any order.

    ``values`` (n,) or (n, k), ``ids`` (n,) int64. Returns (4,) uint64 as `hash_cells` does.
    """
    words = np.zeros(WORDS, np.uint64)
    width = values[0].size if len(values) else 1
    bits = _bits(np.ascontiguousarray(values).reshape(-1))
    _add_rows(bits, np.ascontiguousarray(ids, np.int64), width, zlib.crc32(name.encode()), words)
    return words


@njit("uint64[::1](int64, int64[::1])", cache=True)
def sums_of_ids(count, ids):
    """Number, sum of ids and sum of mixed ids, modulo 2^64: (3,) uint64."""
    sums = np.zeros(3, np.uint64)
    for n in range(count):
        sums[0] += np.uint64(1)
        sums[1] += np.uint64(ids[n])
        sums[2] += mix(np.uint64(ids[n]))
    return sums


@njit("uint64[::1](int64)", cache=True)
def sums_of_first_ids(count):
    """What `sums_of_ids` gives for the ids 1 to ``count``, without their array."""
    sums = np.zeros(3, np.uint64)
    for n in range(1, count + 1):
        sums[0] += np.uint64(1)
        sums[1] += np.uint64(n)
        sums[2] += mix(np.uint64(n))
    return sums


def digest(words: np.ndarray) -> str:
    """The four words as 64 hexadecimal digits."""
    return "".join(f"{int(word):016x}" for word in words)
