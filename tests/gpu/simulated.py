"""Blocks of numba's simulator that wait for their threads.

The simulator's own ask all threads in a loop whether they wait at a barrier or have ended, which
takes most of the time.
"""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import numpy as np
from numba.cuda.simulator import kernel

WAIT_S = 60.0  # for the other threads of a block


class Block(kernel.BlockManager):  # type: ignore[misc]  # numba has no types
    """A block whose threads share a barrier."""

    def run(self, place: Any, *arguments: Any) -> None:
        """Run all threads. Raises what one of them has raised."""
        barrier = threading.Barrier(int(np.prod(self._block_dim)))

        def run_one() -> None:
            try:
                self._f(*arguments)
            except Exception:
                barrier.abort()
                raise

        places = np.ndindex(*self._block_dim)
        threads = [kernel.BlockThread(run_one, self, place, one, self._debug) for one in places]
        for thread in threads:
            thread.syncthreads = lambda: barrier.wait(WAIT_S)
            thread.start()
        for thread in threads:
            thread.join()
        raised = [thread.exception for thread in threads if thread.exception]
        raised.sort(key=lambda one: isinstance(one[0], threading.BrokenBarrierError))
        if raised:
            raise raised[0][0].with_traceback(raised[0][1])


def waiting() -> Any:
    """A context in which the simulator's blocks are those of this file."""
    return mock.patch.object(kernel, "BlockManager", Block)
