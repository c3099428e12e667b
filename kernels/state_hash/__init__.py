"""A hash of a distributed state that needs neither a gather nor an order of elements.

The 64 bits of each element are mixed with its global index by four independent 64-bit hashes, which
are summed over all elements modulo 2^64. The sum is commutative, so every decomposition of the same
bits gives the same four words: blocks hash their own elements and the driver adds the words. The
compiled part, `kernels.state_hash.cpu`, is loaded when it is first used.
"""

from __future__ import annotations

import zlib

import numpy as np

from miniapps import kernels

WORDS = 4
CHUNK = 1 << 22  # elements that are hashed by one call, about


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
    if not values.size:
        return words
    seed = zlib.crc32(name.encode())
    places = [o + np.arange(n) for o, n in zip(origin, values.shape[:-1], strict=False)]
    grid = np.meshgrid(*places, origin[-1], indexing="ij")
    firsts = np.ravel_multi_index(grid, shape).astype(np.uint64).reshape(-1)
    if values.flags.c_contiguous:
        _add_rows(values.reshape(len(firsts), -1), firsts, seed, words)
        return words
    add_run = kernels.load("state_hash", "cpu").add_run
    for row, first in zip(np.ndindex(values.shape[:-1]), firsts, strict=True):
        add_run(_bits(values[row]), first, seed, words)
    return words


def hash_rows(name: str, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Hash rows of data that belong to numbered particles; rows may be in any order.

    ``values`` (n,) or (n, k), ``ids`` (n,) int64. Returns (4,) uint64 as `hash_cells` does.
    """
    words = np.zeros(WORDS, np.uint64)
    if not values.size:
        return words
    rows = np.ascontiguousarray(values).reshape(len(ids), -1)
    firsts = ids.astype(np.uint64) * np.uint64(rows.shape[1])
    _add_rows(rows, firsts, zlib.crc32(name.encode()), words)
    return words


def _add_rows(rows: np.ndarray, firsts: np.ndarray, seed: int, words: np.ndarray) -> None:
    """Add the hashes of rows (n, k), in memory one after the other, to ``words``.

    There are few calls, because a thread needs Python's lock for each, and not one, because types
    of less than 64 bits are copied.
    """
    add_rows = kernels.load("state_hash", "cpu").add_rows
    width = rows.shape[1]
    count = max(1, CHUNK // width)
    for low in range(0, len(rows), count):
        some = rows[low : low + count].reshape(-1)
        add_rows(_bits(some), firsts[low : low + count], width, seed, words)


def digest(words: np.ndarray) -> str:
    """Return the four words as 64 hexadecimal digits."""
    return "".join(f"{int(word):016x}" for word in words)
