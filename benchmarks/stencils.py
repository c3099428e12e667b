"""Stencil kernels against a triad on the same cores, on one core and on two at once.

A triad a = b + s c moves 32 bytes per element and a sweep 24 per point, the read that a write
allocates counted in both; the share is the ratio of their bytes per second. A tile's factor is its
rate over that of one sweep, each against the triads measured in turn with it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from common import median, save
from numba import njit

import kernels
from kernels.halo_cpu import Region
from miniapps.arrays import copied, ghosted

ROUNDS = 7
LARGE = {"jacobi2d": [(4096, 4096), (8192, 8192)], "stencil3d": [(400, 400, 400)]}
SMALL = {"jacobi2d": [(48, 512)], "stencil3d": [(16, 24, 128)]}  # both arrays fit into 1 MiB
TILES = {"jacobi2d": (2, 4, 8, 16, 32), "stencil3d": (2, 4, 6, 8, 12, 16)}
TRIAD_CELLS = 1 << 24  # 128 MiB per array


@njit("void(float64[::1], float64[::1], float64[::1], float64)", cache=True, error_model="numpy")
def triad(a, b, c, s):
    """The yardstick: a = b + s c."""
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def seconds(work: Callable[[], Any]) -> float:
    """The duration of a call."""
    before = perf_counter()
    work()
    return perf_counter() - before


def fields(shape: tuple[int, ...], tile: int) -> tuple[np.ndarray, np.ndarray, Region]:
    """Two arrays as a block with neighbours all around has them, and its own region."""
    old, region = ghosted(shape, [(tile, tile)] * len(shape), tile)
    new = copied(old)
    old[...] = new[...] = np.random.default_rng(1).random(old.shape[-1])
    return old, new, region


def measure(
    app: str, shape: tuple[int, ...], tiles: tuple[int, ...], repeat: int
) -> dict[str, Any]:
    """Rates of triad, sweep and tiles, per round; elements and points per second."""
    kernel = kernels.load(app, "cpu")
    points = float(np.prod(shape))
    a, b, c = (np.ones(TRIAD_CELLS) for _ in range(3))
    rates: dict[str, list[float]] = {}
    for tile in (0, *tiles):  # 0: a sweep at a time
        old, new, region = fields(shape, max(tile, 1))
        grow = np.ones(2 * len(shape), np.int64)

        def work(old=old, new=new, region=region, grow=grow, tile=tile) -> None:
            if tile:
                kernel.sweep_tile(old, new, tile, *region, grow)
            for _ in range(0 if tile else repeat):
                kernel.sweep(old, new, *region)

        for _ in range(ROUNDS):
            rates.setdefault(f"triad {tile}", []).append(
                TRIAD_CELLS / seconds(lambda: triad(a, b, c, 3.0))
            )
            rates.setdefault(f"sweep {tile}", []).append(points * (tile or repeat) / seconds(work))
    return rates


def on_core(core: int, start: Any, results: Any, arguments: tuple[Any, ...]) -> None:
    """Measure on one core, together with the others."""
    os.sched_setaffinity(0, {core})
    kernels.load(arguments[0], "cpu")
    start.wait()
    results.put(measure(*arguments))


def on_cores(cores: list[int], *arguments: Any) -> list[dict[str, Any]]:
    """Measure on several cores at once, each with arrays of its own."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(len(cores)), context.Queue()
    workers = [
        context.Process(target=on_core, args=(core, start, results, arguments)) for core in cores
    ]
    for worker in workers:
        worker.start()
    rates = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return rates


def summary(per_core: list[dict[str, list[float]]], tiles: tuple[int, ...]) -> dict[str, Any]:
    """Medians over rounds of the sum over cores, and of the ratios to the triad beside them."""
    total = {name: np.sum([rates[name] for rates in per_core], axis=0) for name in per_core[0]}
    share = {
        tile: median(24 * total[f"sweep {tile}"] / (32 * total[f"triad {tile}"]))
        for tile in (0, *tiles)
    }
    return {
        "triad_bytes_per_s": median(32 * total["triad 0"]),
        "sweep_points_per_s": median(total["sweep 0"]),
        "share_of_triad": share[0],
        "tile_points_per_s": {tile: median(total[f"sweep {tile}"]) for tile in tiles},
        "tile_over_sweep": {tile: float(f"{share[tile] / share[0]:.4g}") for tile in tiles},
    }


def widest_vectors(app: str) -> str:
    """The widest vector registers in the assembly of an app's sweep, compiled anew to see it."""
    compiled = kernels.load(app, "cpu").sweep
    fresh = njit(compiled.signatures[0], nogil=True, error_model="numpy")(compiled.py_func)
    assembly = "".join(fresh.inspect_asm().values())
    return next((name for name in ("zmm", "ymm", "xmm") if f"%{name}" in assembly), "none")


def main() -> None:
    """Measure both apps in memory and in cache, on one core and on two."""
    available = sorted(os.sched_getaffinity(0))
    results: dict[str, Any] = {}
    for app in LARGE:
        results[f"{app} vectors"] = widest_vectors(app)
        for cores in (available[:1], available[:2]):
            for shape in LARGE[app]:
                name = f"{app} {'x'.join(map(str, shape))} on {len(cores)} core(s)"
                results[name] = summary(on_cores(cores, app, shape, TILES[app], 1), TILES[app])
            for shape in SMALL[app]:
                name = f"{app} {'x'.join(map(str, shape))} in cache on {len(cores)} core(s)"
                in_cache = summary(on_cores(cores, app, shape, (), 2000), ())
                results[name] = {"sweep_points_per_s": in_cache["sweep_points_per_s"]}
    save("stencils", results)


if __name__ == "__main__":
    main()
