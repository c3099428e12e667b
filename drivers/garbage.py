"""Python's garbage collector, kept out of the start and the steps of a run.

A full collection looks at every object of the process. With Numba loaded that takes 170 ms, and
runs with hundreds of blocks made one every few rounds. Blocks and drivers make no cycles of objects
in a step, so there is nothing to find. Nor is there in the start: modules and compiled kernels,
about 100 000 objects, stay. `workbench.main` sets the thresholds for the whole program.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 200_000, 10, 1_000  # for `gc.set_threshold`; Python's own values are 700, 10, 10


@contextmanager
def rare() -> Iterator[None]:
    """Make collections rare inside the context."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
