"""Values of an AllReduce as runtimes combine them: with NaN kept and mixed operations noticed.

MPI and Charm++ compare floats as C does, so whether a NaN survives a ``max`` depends on the order
of the ranks. As integers of the same order, with NaN beyond all numbers, it always does. A last
element names the operation: blocks that reduce by different operations would otherwise each get a
number that is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drivers.job import RunError

# Sums, maxima and minima of different marks differ from the mark itself.
MARKS = {"sum": 0, "max": 1, "min": -1}


def packed_value(value: Any, op: str) -> np.ndarray:
    """A value to combine as a one-dimensional array, with the mark of ``op`` as last element."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and op != "sum":
        array = _ordered(array, op)
    elif array.dtype.kind == "b":
        array = array.astype(np.int8)
    packed = np.empty(array.size + 1, array.dtype)
    packed[:-1] = array.reshape(-1)
    packed[-1] = MARKS[op]
    return packed


def result_of(total: np.ndarray, value: Any, op: str) -> Any:
    """The combined value, of the shape and type of this process's ``value``; a copy.

    Raises RunError if other processes combined by another operation, or another number of values.
    """
    if np.shape(total) != (np.size(value) + 1,) or total[-1] != MARKS[op]:
        raise RunError(f"blocks reduce by different operations or sizes: one by {op!r}")
    like = np.asarray(value)
    result = np.array(total[:-1])
    if like.dtype.kind == "f" and op != "sum":
        result = _in_order(result).view(like.dtype)
    return result.astype(like.dtype, copy=False).reshape(like.shape)[()]


def _ordered(array: np.ndarray, op: str) -> np.ndarray:
    """Floats as integers in the same order; NaN is the last for ``max``, the first for ``min``."""
    nan = np.copysign(array.dtype.type(np.nan), MARKS[op])
    return _in_order(np.where(np.isnan(array), nan, array).view(f"i{array.itemsize}"))


def _in_order(bits: np.ndarray) -> np.ndarray:
    """Turn the bits of floats, read as integers, into their order; applied twice, back again."""
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
