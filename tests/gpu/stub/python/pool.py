"""The memory that the stand-in for CuPy hands out.

What is freed is poisoned and handed out again at once: device memory to the stream that had it, as
CuPy's pool does, pinned memory to anybody. ``watchers`` are called for both. The driver allocates
it, and frees it with the process. Like CuPy, it opens CUDA if nobody has.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import defaultdict
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

POISON = 0x7F
PINNED: Any = None  # in the place of a stream
_unused: defaultdict[tuple[Any, int], list[np.ndarray]] = defaultdict(list)  # by stream and size
watchers = SimpleNamespace(given=lambda *memory: None, freed=lambda *memory: None)


@cache
def driver() -> Any:
    """The driver, with CUDA open and a context."""
    library, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    answers = library.cuInit(0), library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    if any(answers) or library.cuCtxSetCurrent(context):
        raise RuntimeError(f"cudaErrorInitializationError: {answers}")
    return library


class OutOfMemoryError(MemoryError):
    """CuPy's error."""


def answered(name: str, *arguments: Any) -> None:
    """Call the driver. Raises OutOfMemoryError, or RuntimeError for any other answer than 0."""
    answer = getattr(driver(), name)(*arguments)
    if answer == 2:
        raise OutOfMemoryError("Out of memory allocating device memory")
    if answer:
        raise RuntimeError(f"{name} answered {answer}")


def new(size: int, pinned: bool = False) -> np.ndarray:
    """New memory of the driver, not zeros."""
    if not size:
        return np.empty(0, np.uint8)
    place = ctypes.c_void_p()
    name = "cuMemHostAlloc" if pinned else "cuMemAlloc"
    answered(name, ctypes.byref(place), ctypes.c_size_t(size))
    memory = np.frombuffer((ctypes.c_char * size).from_address(int(place.value or 0)), np.uint8)
    memory.fill(POISON)
    return memory


def take(stream: Any, size: int) -> np.ndarray:
    """Memory that was freed last, or new memory: not zeros."""
    driver().pooled(stream is PINNED)
    unused = _unused[stream, size]
    memory = unused.pop() if unused else new(size, stream is PINNED)
    watchers.given(memory.ctypes.data, size, stream)
    return memory


def end(stream: Any, memory: np.ndarray) -> None:
    """Poison memory whose content nobody needs any more."""
    if not sys.is_finalizing():
        watchers.freed(memory.ctypes.data, memory.size, stream)
        memory.fill(POISON)


def give(stream: Any, memory: np.ndarray) -> None:
    """End the use of memory, and hand it out next."""
    end(stream, memory)
    _unused[stream, memory.size].append(memory)


def host_view(value: Any) -> Any:
    """The memory of a device array as an array of NumPy; anything else as it is."""
    shown = getattr(value, "__cuda_array_interface__", None)
    if shown is None:
        return value
    shape, kind = shown["shape"], np.dtype(shown["typestr"])
    if not math.prod(shape):
        return np.empty(shape, kind)
    assert shown.get("strides") is None or value.is_c_contiguous()
    memory = ctypes.c_char * (math.prod(shape) * kind.itemsize)
    return np.ndarray(shape, kind, memory.from_address(shown["data"][0]))
