"""What mistakes of drivers with one block per rank return; their ``faults`` say where."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.faults import ACTED


def from_the_header(message: np.ndarray) -> np.ndarray:
    """A message whose elements are read from one too early, in its header."""
    flat = message.reshape(-1)
    flat[:] = np.concatenate([flat[:1] + 1, flat[:-1]])
    return message


def own_value(total: Any, value: Any) -> Any:
    """The rank's own value, in place of the total."""
    if np.asarray(total).tobytes() != np.asarray(value).tobytes():
        ACTED.now()
    return np.array(value)[()]
