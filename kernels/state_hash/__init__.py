"""A hash of a distributed state that needs neither a gather nor an order of elements.

The 64 bits of each element are mixed with its global index by four independent 64-bit hashes, which
are summed over all elements modulo 2^64. The sum is commutative, so every decomposition of the same
bits gives the same four words: blocks hash their own elements and the driver adds the words. The
compiled part, `kernels.state_hash.cpu`, is loaded when it is first used.
"""

from __future__ import annotations

import zlib

import numpy as np

import kernels

WORDS = 4


def _bits(values: np.ndarray) -> np.ndarray:
    """Return the elements' bits as uint64; a view for 64-bit types."""
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
    add_run = kernels.load("state_hash", "cpu").add_run
    for row in np.ndindex(values.shape[:-1]):
        place = (*(o + r for o, r in zip(origin, row, strict=False)), origin[-1])
        first = int(np.ravel_multi_index(place, shape)) if values.shape[-1] else 0
        add_run(_bits(values[row]), first, seed, words)
    return words


def hash_rows(name: str, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Hash rows of data that belong to numbered particles; rows may be in any order.

    ``values`` (n,) or (n, k), ``ids`` (n,) int64. Returns (4,) uint64 as `hash_cells` does.
    """
    words = np.zeros(WORDS, np.uint64)
    width = values[0].size if len(values) else 1
    bits = _bits(np.ascontiguousarray(values).reshape(-1))
    seed = zlib.crc32(name.encode())
    add_rows = kernels.load("state_hash", "cpu").add_rows
    add_rows(bits, np.ascontiguousarray(ids, np.int64), width, seed, words)
    return words


def digest(words: np.ndarray) -> str:
    """Return the four words as 64 hexadecimal digits."""
    return "".join(f"{int(word):016x}" for word in words)
