"""What the project uses of CuPy, where the stub driver's device memory is the host's."""

from __future__ import annotations

import ctypes
from collections import Counter
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from pool import PINNED, answered, give, host_view, new, take

LINE = 512  # bytes; sizes of device memory are multiples
DEFAULT_STREAM = 1  # how an array names it
_streams: list[int] = []  # that are current, the last one is
made: Counter[str] = Counter()  # arrays so far, by how they were made


class ndarray(np.ndarray):  # noqa: N801 - CuPy's name
    """An array that numba-cuda takes for one in device memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kept = ("shape", "typestr", "data", "strides")
        shown = {name: self.__array_interface__[name] for name in kept}
        if not self.size:
            shown["data"] = (0, False)
        return shown | {"version": 3, "stream": _streams[-1] if _streams else DEFAULT_STREAM}


def empty(count: int, dtype: Any) -> ndarray:
    """Not zeros, so that what nobody has written shows. Its memory is never freed."""
    dtype = np.dtype(dtype)
    return new(count * dtype.itemsize).view(dtype).view(ndarray)


def zeros(count: int, dtype: Any) -> ndarray:
    """Zeros."""
    array = empty(count, dtype)
    array.fill(0)
    return array


def asarray(values: Any) -> ndarray:
    """The memory of a device array; of anything else a copy."""
    if not hasattr(values, "__cuda_array_interface__"):
        values = np.array(values)
    return host_view(values).view(ndarray)


def ascontiguousarray(values: ndarray) -> ndarray:
    """A copy, which is contiguous."""
    return values.copy()


def asnumpy(values: ndarray) -> np.ndarray:
    """A copy on the host."""
    return np.array(values)


def __getattr__(name: str) -> Any:
    """What computes with arrays is NumPy's."""
    return getattr(np, name)


class Memory:
    """Memory from the pool of the current stream."""

    def __init__(self, size: int) -> None:
        made["memory"] += 1
        self.stream = _streams[-1] if _streams else DEFAULT_STREAM
        self.bytes = None
        if size:
            self.bytes = take(self.stream, -(-size // LINE) * LINE)
        self.ptr = 0 if self.bytes is None else self.bytes.ctypes.data

    def __del__(self) -> None:
        if self.bytes is not None:
            give(self.stream, self.bytes)


@cache
def _pinned(size: int) -> type:
    """Pinned memory of a size: an array of ctypes, because NumPy keeps those alive as a base."""

    def __del__(self: Any, give: Any = give) -> None:  # noqa: N807 - also at the very end
        give(PINNED, self.memory)

    return type("Pinned", (ctypes.c_char * size,), {"__del__": __del__})


def alloc_pinned_memory(size: int) -> Any:
    """Pinned memory from the pool."""
    memory = take(PINNED, size)
    pinned = _pinned(size).from_address(memory.ctypes.data)
    pinned.memory = memory
    return pinned


def get_default_memory_pool() -> Any:
    """A pool that keeps nothing unused."""
    return SimpleNamespace(free_all_blocks=lambda: None)


class Stream:
    """A stream: its handle is all that is asked for."""

    def __init__(self, non_blocking: bool = False) -> None:
        handle = ctypes.c_void_p()
        answered("cuStreamCreate", ctypes.byref(handle), int(non_blocking))
        self.ptr = int(handle.value or 0)

    def __enter__(self) -> Stream:
        _streams.append(self.ptr)
        return self

    def __exit__(self, *error: object) -> None:
        _streams.pop()


class Device:
    """A device that can be chosen."""

    def __init__(self, number: int) -> None:
        self.number = number

    def use(self) -> None:
        """Choose it."""


cuda = SimpleNamespace(
    Stream=Stream,
    Device=Device,
    alloc=Memory,
    set_allocator=lambda allocator=None: None,
    alloc_pinned_memory=alloc_pinned_memory,
)
