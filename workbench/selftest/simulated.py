"""Numba's simulator, which runs GPU kernels as Python, made fast enough for trials.

Threads take turns (`devices.cuda.turns`), so a trial always ends alike. Thread blocks and tiles are
smaller than on a GPU, so small problems have many of them. The constants are read when a kernel
runs, as it is not compiled.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import FunctionType
from typing import Any

import numpy as np

from miniapps.drivers.descriptor import Driver
from miniapps.faults import replaced

NAME = "simulated GPU"
SIMULATOR = "numba.cuda.simulator"


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
        stack.enter_context(replaced(f"{SIMULATOR}.kernel:swapped_cuda_module", where_used))
        # A launch copies these types, which no kernel here uses, into its own module.
        stack.enter_context(replaced(f"{SIMULATOR}.kernelapi:vector_types", constant({})))
        for target, size in tiles.items():
            stack.enter_context(replaced(target, constant(size)))
        yield


def constant(value: Any) -> Callable[[Any], Any]:
    """A change to a value, whatever was there."""
    return lambda right: value


def where_used(right: Any) -> Any:
    """The simulator's context for a function's name ``cuda``, only where the function uses it.

    Making it takes longer than most functions that kernels call.
    """

    def swapped_cuda_module(function: FunctionType, simulated: Any) -> Any:
        used = "cuda" in function.__code__.co_names
        return right(function, simulated) if used else nullcontext()

    return swapped_cuda_module
