"""What benchmarks on one core share: calls in turns, a triad as the limit, and C beside them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apps.stencils import TRIAD_CELLS, triad
from benchmarks.common import save

Calls = dict[str, Callable[[], Any]]


def require_one_core() -> None:
    """Start the benchmark again unless NumPy uses one core: it reads the variable at its import."""
    one = {"OPENBLAS_NUM_THREADS": "1"}
    if not one.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | one)


def quick() -> bool:
    """Whether few calls are to be made, and nothing is to be written."""
    return "--quick" in sys.argv


def finish(name: str, results: dict[str, Any]) -> None:
    """Write results, or print them if they are `quick` ones."""
    if quick():
        print(results)
    else:
        save(name, results)


def fastest(calls: Calls, repeats: int) -> dict[str, float]:
    """The seconds of the fastest call of each function, called in turns, forwards and backwards.

    So what one leaves in the caches serves those on both sides.
    """
    best = dict.fromkeys(calls, math.inf)
    for turn in range(repeats):
        for name, call in [*calls.items()][:: -1 if turn % 2 else 1]:
            begun = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def beside_a_triad(calls: Calls, repeats: int) -> tuple[dict[str, float], float]:
    """As `fastest`, in turns with a triad; and the triad's bytes per second."""
    a, b, c = (np.ones(TRIAD_CELLS) for _ in range(3))
    times = fastest({"triad": lambda: triad(a, b, c, 1.5), **calls}, repeats)
    return times, 32 * TRIAD_CELLS / times["triad"]


def compiled(script: str, folder: str, *flags: str, compiler: object = "cc") -> Path:
    """The program of a script's file in C, compiled into a folder for this machine."""
    source = Path(script).with_suffix(".c")
    program = Path(folder) / source.stem
    command = [compiler, "-O3", "-march=native", *flags, "-o", program, source, "-lm"]
    subprocess.run([*map(str, command)], check=True)
    return program
