"""The functions of `vectors`, `quads` and `prefetch` for kernels that run as plain Python.

They do so in a debugger, with ``NUMBA_DISABLE_JIT=1``, and in tests. Registers are NumPy arrays.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from miniapps.devices.cpu.fused import fused
from miniapps.devices.cpu.vectors import DOUBLES, WIDTH


def broadcast(scalar: Any) -> np.ndarray:
    """All lanes have one number."""
    return np.full(WIDTH, scalar)


def load(array: np.ndarray, index: Any) -> np.ndarray:
    """The elements from ``array[index]`` on."""
    return array[index : index + WIDTH].copy()


def store(array: np.ndarray, index: Any, lanes: np.ndarray) -> None:
    """Write lanes to the elements from ``array[index]`` on."""
    array[index : index + len(lanes)] = lanes


def bits(floats: Any) -> Any:
    """The bits of a float or of lanes as integers."""
    return np.asarray(floats, float).view(np.int64)[()]


def lane(lanes: np.ndarray, number: int) -> Any:
    """The element in a lane."""
    return lanes[number]


def total(lanes: np.ndarray) -> Any:
    """The sum of integers."""
    return lanes.sum()


def any_bits(lanes: np.ndarray) -> Any:
    """The bits that any lane has."""
    return np.bitwise_or.reduce(lanes)


def numbers() -> np.ndarray:
    """The numbers of the lanes."""
    return np.arange(WIDTH)


def line_width(array: np.ndarray) -> np.uint64:
    """How many elements are in a cache line."""
    return np.uint64(64 // array.itemsize)


def line(array: np.ndarray, index: Any) -> np.ndarray:
    """A line of elements; zeros beyond the end of the array."""
    values, there = np.zeros(int(line_width(array)), array.dtype), array[index:]
    values[: len(there)] = there[: len(values)]
    return values


def doubles(array: np.ndarray, index: Any) -> np.ndarray:
    """A line of elements as float64."""
    return line(array, index)[:DOUBLES].astype(np.float64)


def broadcast_line(number: Any) -> np.ndarray:
    """A line of one number."""
    return np.full(64 // np.asarray(number).itemsize, number)


def shift_left(before: np.ndarray, here: np.ndarray) -> np.ndarray:
    """The left neighbours of the elements."""
    return np.concatenate([before[-1:], here[:-1]])


def shift_right(here: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The right neighbours of the elements."""
    return np.concatenate([here[1:], after[:1]])


def alternating(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """The even lanes of one line and the odd lanes of another one."""
    return np.where(np.arange(len(even)) % 2, odd, even)


def prefetch(array: np.ndarray, index: Any) -> None:
    """Do nothing."""


def records(array: np.ndarray, *indices: Any) -> np.ndarray:
    """Four records."""
    return np.concatenate([array[4 * int(index) : 4 * int(index) + 4] for index in indices])


def picked(axis: int, by: int) -> Any:
    """A function for one coordinate of atom i, by 1, or j, by 4, in each lane."""
    lanes = np.arange(16) // by % 4 * 4 + axis
    return lambda records: records[lanes]


def as_floats(lanes: np.ndarray) -> np.ndarray:
    """Integers as float32."""
    return lanes.astype(np.float32)


def rounded(lanes: np.ndarray) -> np.ndarray:
    """Floats as int32."""
    return np.rint(lanes).astype(np.int32)


def append(array: np.ndarray, end: Any, lanes: np.ndarray, mask: np.ndarray) -> np.uint64:
    """Write the lanes where the mask holds; what follows them in a register is arbitrary."""
    array[end : end + np.uint64(16)] = 77
    array[end : end + np.uint64(mask.sum())] = lanes[mask]
    return end + np.uint64(mask.sum())


def bits_of(mask: np.ndarray) -> np.uint64:
    """A mask as an integer."""
    return np.uint64(sum(1 << int(number) for number in np.flatnonzero(mask)))


def sums(lanes: np.ndarray, factor: Any) -> np.ndarray:
    """Sums over j times a factor."""
    return lanes.reshape(4, 4).sum(axis=0, dtype=np.int32).astype(np.int64) * factor


def numbers_of(by: int) -> Any:
    """A function for the number of atom i, by 1, or j, by 4, in each lane."""
    lanes = np.arange(16, dtype=np.int32) // by % 4
    return lanes.copy


fma, where = fused, np.where
x_of_i, y_of_i, z_of_i = (picked(axis, 1) for axis in range(3))
x_of_j, y_of_j, z_of_j = (picked(axis, 4) for axis in range(3))
numbers_of_i, numbers_of_j = numbers_of(1), numbers_of(4)


def replace_intrinsics() -> None:
    """Let kernels that are imported from now on use these functions, and wrap as if compiled.

    For ``NUMBA_DISABLE_JIT``, where ``njit`` compiles nothing; `fused` is compiled even then.
    """
    for name in ("prefetch", "quads", "vectors"):
        sys.modules[f"miniapps.devices.cpu.{name}"] = sys.modules[__name__]
    np.seterr(all="ignore")
