"""The memory that the stand-in for CuPy hands out.

What is freed is poisoned and handed out again at once: device memory to the stream that had it, as
CuPy's pool does, pinned memory to anybody. ``watchers`` are called for both.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np

POISON = 0x7F
PINNED: Any = None  # in the place of a stream
_unused: defaultdict[tuple[Any, int], list[np.ndarray]] = defaultdict(list)  # by stream and size
watchers = SimpleNamespace(given=lambda *memory: None, freed=lambda *memory: None)


def take(stream: Any, size: int) -> np.ndarray:
    """Memory that was freed last, or new memory: not zeros."""
    unused = _unused[stream, size]
    memory = unused.pop() if unused else np.full(size, POISON, np.uint8)
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
