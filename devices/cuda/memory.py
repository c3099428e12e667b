"""Arrays in a GPU's memory.

Every array carries the stream on which it is used, as ``array.stream``, and a kernel is launched on
the stream of the array that it writes. A stream carries its toolkit, which makes the memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def empty(shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """An array in device memory, used on a stream; its memory goes back to the pool by itself."""
    return _made("empty", shape, dtype, stream)


def zeros(shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """An array of zeros in device memory."""
    return _made("zeros", shape, dtype, stream)


def _made(how: str, shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """An array that the stream's toolkit makes."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    flat = stream.toolkit.array(how, math.prod(shape), dtype, stream)
    array = flat.reshape(shape)
    array.stream, array.flat_array = stream, flat
    return array


def flat(array: Any) -> Any:
    """The elements of a contiguous device array in a row; made once, as it costs microseconds."""
    return array.flat_array if hasattr(array, "flat_array") else array.reshape(array.size)


def to_device(array: np.ndarray, stream: Any) -> Any:
    """A copy in device memory."""
    copy, source = empty(array.shape, array.dtype, stream), np.ascontiguousarray(array)
    if array.size:
        copy.copy_to_device(source, stream=stream)
        stream.synchronize()  # before the source goes
    return copy


def to_host(array: Any) -> np.ndarray:
    """A copy of a contiguous device array in host memory, once all work before it is done."""
    copy = np.empty(array.shape, array.dtype)  # of its own: numba's would be a view of bytes
    if array.size:
        array.copy_to_host(copy, stream=array.stream)
        array.stream.synchronize()
    return copy


def address(array: Any) -> int:
    """Where a device array begins."""
    return array.stream.toolkit.address(array)
