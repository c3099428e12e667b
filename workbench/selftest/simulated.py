"""Numba's simulator, which runs GPU kernels as Python, made fast enough for trials.

The simulator starts a thread of Python for each thread of a kernel. Only kernels with barriers need
that; all others run 5 times as fast in one thread. Thread blocks and tiles are smaller than on a
GPU, so small problems have many of them. The constants are read when a kernel runs, as it is not
compiled.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import FunctionType
from typing import Any

import numpy as np

from devices.cuda.barriers import has_barrier
from drivers.descriptor import Driver
from miniapps.faults import replaced

NAME = "simulated GPU"
SIMULATOR = "numba.cuda.simulator"
SWITCH_S = 1e-4  # between threads: the one that starts the others polls them until all have ended


def missing() -> str | None:
    """Why the simulator cannot be used, in one line; None if it can."""
    if importlib.util.find_spec("numba_cuda") is not None:
        return None
    return "numba-cuda is not installed; pip install 'parallel-miniapps[gpu-check]'"


def left_out() -> list[str]:
    """A line if the simulator cannot be used."""
    reason = missing()
    return [f"left out: {NAME}: {reason}"] if reason else []


def may_run(driver: Driver) -> bool:
    """Whether trials are made under a driver: in one process, in one order of events."""
    return missing() is None and driver.one_process and not driver.replays


def column(driver: Driver) -> str:
    """The name of a driver with a simulated GPU, in the table."""
    return f"{driver.name}, {NAME}"


def begin() -> None:
    """Make numba simulate GPUs in this process. Nothing may have imported numba yet."""
    assert "numba" not in sys.modules, "numba decides when it is imported whether to simulate"
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"


@contextmanager
def made_fast(tiles: Mapping[str, int]) -> Iterator[None]:
    """Simulate fast inside this context; ``tiles``: constants of kernels, by `Fault` target."""
    with ExitStack() as stack, np.errstate(over="ignore"):  # sums of hashes are modulo 2^64
        stack.enter_context(replaced(f"{SIMULATOR}.kernel:BlockManager.run", in_one_thread))
        stack.enter_context(replaced(f"{SIMULATOR}.kernel:swapped_cuda_module", where_used))
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_S)
        # A launch copies these types, which no kernel here uses, into its own module.
        stack.enter_context(replaced(f"{SIMULATOR}.kernelapi:vector_types", constant({})))
        for target, size in tiles.items():
            stack.enter_context(replaced(target, constant(size)))
        yield


def constant(value: Any) -> Callable[[Any], Any]:
    """A change to a value, whatever was there."""
    return lambda right: value


def in_one_thread(right: Any) -> Any:
    """The simulator's function that runs a thread block, which starts threads only for barriers."""
    known: dict[FunctionType, bool] = {}

    def run(self: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        if self._f not in known:
            known[self._f] = has_barrier(self._f)
        if known[self._f]:
            right(self, grid_point, *arguments)
            return
        position = sys.modules[type(self).__module__].Dim3
        here: Any = threading.current_thread()  # where the simulator's kernels look it up
        here.blockIdx = position(*grid_point)
        for point in np.ndindex(*self._block_dim):
            here.threadIdx = position(*point)
            self._f(*arguments)

    return run


def where_used(right: Any) -> Any:
    """The simulator's context for a function's name ``cuda``, only where the function uses it.

    Making it takes longer than most functions that kernels call.
    """

    def swapped_cuda_module(function: FunctionType, simulated: Any) -> Any:
        used = "cuda" in function.__code__.co_names
        return right(function, simulated) if used else nullcontext()

    return swapped_cuda_module
