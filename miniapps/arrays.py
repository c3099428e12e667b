"""Arrays of cells and ghosts, with the memory layout on which the kernels are fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Memory
from miniapps.kernels.halo.interface import Region

LINE = 64  # bytes of a cache line
CACHED_CELLS = 1 << 16  # two float64 arrays of this size are 1 MiB


def ghosted(
    cells: Sequence[int],
    ghosts: Sequence[tuple[int, int]],
    tile: int,
    dtype: Any = np.float64,
    line: int | None = None,
) -> tuple[np.ndarray, Region]:
    """A C-ordered array of zeros for ``cells``, with ghosts below and above along each axis.

    Returns the array and the region of the cells in it. Where data stay in cache (tiles of several
    sweeps, small arrays), rows of cells begin at a cache line, which gains 20 to 50 %. Where memory
    bandwidth is the limit, rows are as close together as possible: gaps cost bandwidth, and gaps of
    4 lines or more cost a third of it, because the prefetcher gives up. If a ``line`` (bytes) is
    given, rows always begin at one.
    """
    low = [below for below, _ in ghosts]
    in_line = (line or LINE) // np.dtype(dtype).itemsize
    in_cache = tile > 1 or math.prod(cells) <= CACHED_CELLS
    if in_cache or line:  # kernels may begin a row before its outermost ghost
        low[-1] = whole_lines(low[-1] + in_line - 1, in_line)
    shape = [start + n + above for start, n, (_, above) in zip(low, cells, ghosts, strict=True)]
    if in_cache or line:
        shape[-1] = whole_lines(shape[-1], in_line)
    region = tuple(edge for start, n in zip(low, cells, strict=True) for edge in (start, start + n))
    return aligned_zeros(tuple(shape), dtype), region


def whole_lines(cells: int, in_line: int) -> int:
    """Round a number of cells up to whole cache lines."""
    return -(-cells // in_line) * in_line


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A C-ordered array of zeros that begins at a cache line, and has memory for one behind it.

    Kernels read whole lines, also such that end beyond the array.
    """
    size, cells = np.dtype(dtype).itemsize, math.prod(shape)
    raw = np.zeros(cells + 2 * LINE // size, dtype)
    start = -raw.ctypes.data % LINE // size
    return raw[start : start + cells].reshape(shape)


def realigned(array: np.ndarray) -> np.ndarray:
    """The array itself if it begins at a cache line, else a copy that does."""
    return copied(array) if array.ctypes.data % LINE else array


def arrived(
    device: Memory, array: Any, on_cpu: Callable[[np.ndarray], np.ndarray] = realigned
) -> Any:
    """An array of a block that has migrated, on its device.

    ``on_cpu``: what is done with an array that comes as one of the host; usually it is aligned to
    cache lines.
    """
    return device.arriving(on_cpu(array) if isinstance(array, np.ndarray) else array)


def copied(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a cache line."""
    copy = aligned_zeros(array.shape, array.dtype)
    copy[...] = array
    return copy
