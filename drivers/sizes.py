"""The size of what a process sends pickled."""

from __future__ import annotations

import pickle
from typing import Any


def pickled_bytes(what: Any) -> int:
    """The size of what is pickled, whose arrays are not copied to find it out."""
    buffers: list[pickle.PickleBuffer] = []
    inside = pickle.dumps(what, 5, buffer_callback=buffers.append)
    return len(inside) + sum(buffer.raw().nbytes for buffer in buffers)
