"""Rates of the kernels in the tree that this Python imports, as one JSON object, for `compare`.

Kernels are searched for under all names that their files have had, so that older trees work, too.
Each rate is the best of several, because a disturbance can only make a kernel slower.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

SHAPES = {"jacobi2d": (1024, 1024), "stencil3d": (96, 96, 128)}  # 8 MiB and 9 MiB per array
DEPTH = 4  # sweeps of temporal blocking
PAD = 16  # cells around: at least DEPTH ghosts, and a cache line of the smaller type
WORDS = 1 << 20  # of the state hash
REPEATS = 7


def files_of(name: str) -> Iterator[ModuleType]:
    """The modules that may hold kernels called ``name``, such as ``jacobi2d``."""
    places = [f"{package}.{name}" for package in ("miniapps.kernels", "kernels")]
    for path in (file for place in places for file in (f"{place}.cpu", f"{place}_cpu", place)):
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError:
            continue
        yield module
        for found in pkgutil.iter_modules(getattr(module, "__path__", []), f"{module.__name__}."):
            yield importlib.import_module(found.name)


def kernel(name: str, function: str) -> Callable[..., Any]:
    """A kernel by its name. Raises LookupError if no file has it."""
    for module in files_of(name):
        if hasattr(module, function):
            return getattr(module, function)
    raise LookupError(f"no kernel {function} of {name}")


def best_rate(work: float, call: Callable[[], Any], repeats: int) -> float:
    """Work per second in the fastest of several calls, after a first one that may compile."""
    call()
    seconds = []
    for _ in range(repeats):
        before = perf_counter()
        call()
        seconds.append(perf_counter() - before)
    return work / min(seconds)


def stencil_rates(app: str, shape: tuple[int, ...], repeats: int) -> Iterator[tuple[str, float]]:
    """Points per second of a stencil's sweep, and of several sweeps at once, for both types."""
    points = float(np.prod(shape))
    grow = np.ones(2 * len(shape), np.int64)
    sweep, tile = kernel(app, "sweep"), kernel(app, "sweep_tile")
    for dtype in (np.float64, np.float32):
        one = np.random.default_rng(1).random([n + 2 * PAD for n in shape]).astype(dtype)
        two = one.copy()
        region = [bound for n in shape for bound in (PAD, PAD + n)]
        kind = np.dtype(dtype).name
        yield (
            f"{app}: sweep, {kind}",
            best_rate(points, lambda a=one, b=two, r=region: sweep(a, b, *r), repeats),
        )
        yield (
            f"{app}: {DEPTH} sweeps at once, {kind}",
            best_rate(
                points * DEPTH, lambda a=one, b=two, r=region: tile(a, b, DEPTH, *r, grow), repeats
            ),
        )


def hash_rate(repeats: int) -> float:
    """Words per second of the state hash."""
    hashed = kernel("state_hash", "hash_cells")
    field = np.random.default_rng(1).random((1024, WORDS // 1024))
    return best_rate(WORDS, lambda: hashed("field", field, (0, 0), field.shape), repeats)


def rates(scale: int = 1, repeats: int = REPEATS) -> dict[str, float]:
    """All rates; fields are smaller by ``scale`` along each axis."""
    found: dict[str, float] = {}
    for app, shape in SHAPES.items():
        found |= dict(stencil_rates(app, tuple(n // scale for n in shape), repeats))
    return found | {"state hash": hash_rate(repeats)}


if __name__ == "__main__":
    print(json.dumps(rates(*map(int, sys.argv[1:]))))
