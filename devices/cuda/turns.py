"""Thread blocks of numba's simulator whose threads take turns.

The simulator starts a thread of Python for each thread of a kernel, and all run at once. What it
does itself is not safe then: ``cuda.shared.array`` looks whether the block has the array, and makes
it if not, so of two threads that do this at once each gets its own. On a busy machine every
thousandth prefix sum was wrong. Here one thread runs at a time, to its next barrier or its end, in
a fixed order. So a launch always gives the same bits, and threads need not be polled.

Kernels without barriers need no threads of Python, and run five times as fast without.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel, kernelapi

from miniapps.devices.cuda.barriers import has_barrier


class Thread(kernel.BlockThread):  # type: ignore[misc]  # numba has no types
    """A thread of a kernel with barriers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.goes_on, self.stops = threading.Semaphore(0), threading.Semaphore(0)
        self.waits = False  # at a barrier; otherwise it has not begun, or has ended

    def go_on(self) -> None:
        """Let the thread run to its next barrier or its end. Raises what it raises."""
        self.goes_on.release()
        self.stops.acquire()
        if self.exception:
            error, trace = self.exception
            raise error.with_traceback(trace)

    def give_up(self) -> None:
        """End the thread."""
        self.abort = True
        self.goes_on.release()
        self.join()

    def run(self) -> None:
        """Run when it is this thread's turn."""
        self.goes_on.acquire()
        if not self.abort:
            super().run()
        self.waits = False
        self.stops.release()

    def syncthreads(self) -> None:
        """Give the turn away, and wait for the next."""
        self.waits = True
        self.stops.release()
        self.goes_on.acquire()
        if self.abort:
            raise RuntimeError("another thread has failed")


class Block(kernel.BlockManager):  # type: ignore[misc]
    """A thread block."""

    def run(self, place: tuple[int, ...], *arguments: Any) -> None:
        """Run all threads.

        Raises what the first thread raises that fails, and RuntimeError if some threads wait at a
        barrier that others do not reach.
        """
        points = np.ndindex(*self._block_dim)
        if not _waits(self._f):
            here: Any = threading.current_thread()  # where a kernel looks up its place
            here.blockIdx = kernelapi.Dim3(*place)
            for point in points:
                here.threadIdx = kernelapi.Dim3(*point)
                self._f(*arguments)
            return

        def act() -> None:
            self._f(*arguments)

        threads = [Thread(act, self, place, point, self._debug) for point in points]
        try:
            for thread in threads:
                thread.start()
            waiting = 1
            while waiting:
                for thread in threads:
                    thread.go_on()
                waiting = sum(thread.waits for thread in threads)
                if waiting not in (0, len(threads)):
                    name, of = self._f.__qualname__, len(threads)
                    raise RuntimeError(f"{name}: {waiting} of {of} threads wait at a barrier")
        finally:
            for thread in threads:
                if thread.is_alive():
                    thread.give_up()


_waits = cache(has_barrier)


def take_turns() -> None:
    """Let threads take turns, for the rest of this process."""
    kernel.BlockManager = Block  # type: ignore[misc]
