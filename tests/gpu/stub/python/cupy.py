"""What the project uses of CuPy, where the stub driver's device memory is the host's."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np

_handles = itertools.count(0x100000, 16)
made: Counter[str] = Counter()  # arrays so far, by how they were made


class ndarray(np.ndarray):  # noqa: N801 - CuPy's name
    """An array that numba-cuda takes for one in device memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kept = ("shape", "typestr", "data", "strides")
        return {name: self.__array_interface__[name] for name in kept} | {"version": 3}


def empty(count: int, dtype: Any) -> ndarray:
    """Not zeros, so that what nobody has written shows."""
    return (
        np.frombuffer(bytes([0x7F]) * (count * np.dtype(dtype).itemsize), dtype)
        .copy()
        .view(ndarray)
    )


def zeros(count: int, dtype: Any) -> ndarray:
    """Zeros."""
    return np.zeros(count, dtype).view(ndarray)


class Memory:
    """Memory from the pool: not zeros."""

    def __init__(self, size: int) -> None:
        made["memory"] += 1
        self.bytes = np.full(size, 0x7F, np.uint8)
        self.ptr = self.bytes.__array_interface__["data"][0]


class Stream:
    """A stream: its handle is all that is asked for."""

    def __init__(self, non_blocking: bool = False) -> None:
        self.ptr = next(_handles)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None: ...


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
    alloc_pinned_memory=bytearray,
)
