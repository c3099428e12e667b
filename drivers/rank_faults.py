"""Mistakes that drivers with one block per rank have in common; their ``faults`` say where."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.faults import ACTED


def body_from_the_header(right: Any) -> Any:
    """What reads the elements of a message from one too early, in its header."""

    def body(self: Any, *kind: Any) -> Any:
        message = right(self, *kind)
        flat = message.reshape(-1)
        flat[:] = np.concatenate([flat[:1] + 1, flat[:-1]])
        return message

    return body


def own_value(right: Any) -> Any:
    """What reduces to the rank's own value."""

    def all_reduce(self: Any, value: Any, op: str) -> Any:
        total = right(self, value, op)
        if np.asarray(total).tobytes() != np.asarray(value).tobytes():
            ACTED.now()
        return np.array(value)[()]

    return all_reduce
