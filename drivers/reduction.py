"""Encodes the values of an AllReduce so that runtimes keep NaN and mixed operations are detected.

MPI and Charm++ compare floats as C does, so whether a NaN survives a ``max`` depends on the order
of the ranks. Encoded as integers of the same order, with NaN beyond all numbers, it always does. A
last element marks the operation: blocks that reduce by different operations would otherwise all
get a wrong number.

An exact sum is one of integers to the runtime: the words of accumulators are added.
"""

from __future__ import annotations

import math
import struct
from functools import reduce
from typing import Any

import numpy as np

from miniapps.contract import EXACT, REDUCTIONS
from miniapps.drivers.job import RunError
from miniapps.kernels.exact_sum import WORDS, accumulated, is_accumulator, rounded

# Sums, maxima and minima of different marks differ from the mark itself.
MARKS = {"sum": 0, "max": 1, "min": 2}  # of unsigned integers, too
NANS = {"max": math.nan, "min": -math.nan}  # beyond all numbers
ADDED = {EXACT: "sum"}  # operations that the runtime makes by another one
# The marks of an exact sum are added, too: of n blocks they are n times that of the type.
EXACT_MARKS = {np.dtype(np.float64): 1 << 32, np.dtype(np.float32): (1 << 32) + 1}
# By the size of a float in bytes: the integer type of that size, and its largest value.
INTEGERS = {size: np.dtype(f"i{size}") for size in (2, 4, 8)}
LARGEST = {size: int(np.iinfo(integer).max) for size, integer in INTEGERS.items()}
NUMBER, BITS = struct.Struct("d"), struct.Struct("q")


def packed_value(value: Any, op: str) -> np.ndarray:
    """A value to combine as a one-dimensional array, with the mark of ``op`` as last element."""
    if op == EXACT:
        return np.append(accumulated(value).reshape(-1), EXACT_MARKS[_type_of_sum(value)])
    if isinstance(value, float) and op != "sum":  # as `_ordered`, in a fifth of the time
        number = value if value == value else NANS[op]
        (bits,) = BITS.unpack(NUMBER.pack(number))
        return np.array([bits ^ LARGEST[8] if bits < 0 else bits, MARKS[op]])
    array = _native(value)
    if array.dtype.kind == "f" and op != "sum":
        array = _ordered(array, op)
    elif array.dtype.kind == "b":
        array = array.astype(np.int64)  # of int8, 256 times True would add up to 0
    packed = np.empty(array.size + 1, array.dtype)
    packed[:-1] = array.reshape(-1)
    packed[-1] = MARKS[op]
    return packed


def result_of(total: np.ndarray, value: Any, op: str) -> Any:
    """The combined value, of the shape and type of this process's ``value``; a copy.

    Raises RunError if other processes combined by another operation, or another number of values.
    """
    if op == EXACT:
        return _rounded(total, value)
    if np.ndim(total) != 1 or total.size != np.size(value) + 1 or total[-1] != MARKS[op]:
        raise RunError(f"blocks reduce by different operations or sizes: one by {op!r}")
    if isinstance(value, float) and op != "sum":
        bits = int(total[0])
        (number,) = NUMBER.unpack(BITS.pack(bits ^ LARGEST[8] if bits < 0 else bits))
        return np.float64(number)
    like = _native(value)
    result = np.array(total[:-1])
    if like.dtype.kind == "f" and op != "sum":
        result = _in_order(result).view(like.dtype)
    return result.astype(like.dtype, copy=False).reshape(like.shape)[()]


def of_process(values: list[Any], op: str) -> tuple[Any, str]:
    """The combined value of a process's blocks, and the operation that goes on with it.

    Of an exact sum, accumulators are packed and added. Raises RunError if they differ in size.
    """
    parts = [packed_value(value, op) for value in values] if op in ADDED else values
    if len({np.size(part) for part in parts}) != 1:
        raise RunError(f"blocks reduce by {op!r} values of different sizes")
    by = ADDED.get(op, op)
    return reduce(REDUCTIONS[by], parts), by


def _native(value: Any) -> np.ndarray:
    """A value as an array in the byte order of this machine, in which its bits are compared."""
    array = np.asarray(value)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _type_of_sum(value: Any) -> np.dtype:
    """The type to which the exact sum of such values is rounded."""
    return np.dtype(np.float64) if is_accumulator(value) else _native(value).dtype


def _rounded(total: np.ndarray, value: Any) -> Any:
    """The result of an exact sum, of this process's type and shape."""
    kind = _type_of_sum(value)
    shape = value.shape[:-1] if is_accumulator(value) else np.shape(value)
    size, blocks = math.prod(shape) * WORDS + 1, int(total[-1]) >> 32 if total.size else 0
    if total.size != size or blocks < 1 or total[-1] != blocks * EXACT_MARKS[kind]:
        raise RunError(f"blocks reduce by different operations, sizes or types: one by {EXACT!r}")
    return rounded(total[:-1].reshape(*shape, WORDS), kind)


def _ordered(array: np.ndarray, op: str) -> np.ndarray:
    """Floats as integers in the same order; NaN is the last for ``max``, the first for ``min``."""
    nan = np.isnan(array)
    if nan.any():
        array = np.where(nan, array.dtype.type(NANS[op]), array)
    return _in_order(array.view(INTEGERS[array.itemsize]))


def _in_order(bits: np.ndarray) -> np.ndarray:
    """Map the bits of floats, as integers, to integers in the floats' order; its own inverse."""
    negative = bits >> (8 * bits.itemsize - 1)  # -1 or 0
    return bits ^ (negative & LARGEST[bits.itemsize])
