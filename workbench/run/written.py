"""The state hash of what is in an output file, to compare with that of the run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from miniapps.kernels.state_hash import WORDS, digest, hash_cells, hash_rows

CHUNK = 1 << 22  # elements that are read at once, 32 MiB


def state_hash(state: Any) -> str:
    """The hash of the group ``state`` of an HDF5 file, as records have it."""
    words = np.zeros(WORDS, np.uint64)
    for name in (name for name in state if not name.endswith(".id")):
        data, ids = state[name], state.get(f"{name}.id")
        rows = max(1, CHUNK // max(1, math.prod(data.shape[1:])))
        for first in range(0, len(data), rows):
            values = data[first : first + rows]
            if ids is None:
                origin = (first, *(0 for _ in data.shape[1:]))
                words += hash_cells(name, values, origin, data.shape)
            else:
                words += hash_rows(name, values, ids[first : first + rows])
    return digest(words)
