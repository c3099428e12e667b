"""Stencil kernels against a triad on the same cores, on one core and on two at once.

A triad a = b + s c moves 32 bytes per element and a sweep 24 per point; both include the read that
a write causes (write-allocate). The share is the ratio of their bytes per second. A tile's factor
is its rate over that of plain sweeps measured in turn with it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks.common import median, save, seconds
from miniapps import kernels
from miniapps.arrays import copied, ghosted
from miniapps.kernels.halo.interface import Region

ROUNDS = 7
CACHED_SWEEPS, CACHED_ROUNDS = 2000, 41
LARGE: dict[str, list[tuple[int, ...]]] = {
    "jacobi2d": [(4096, 4096), (8192, 8192)],
    "stencil3d": [(400, 400, 400)],
}
SMALL: dict[str, list[tuple[int, ...]]] = {  # both arrays fit into 1 MiB
    "jacobi2d": [(48, 512)],
    "stencil3d": [(16, 16, 128)],
}
TILES = {"jacobi2d": (2, 4, 8, 16, 32), "stencil3d": (2, 4, 6, 8, 12, 16)}
TRIAD_CELLS = 1 << 24  # 128 MiB per array


@njit("void(float64[::1], float64[::1], float64[::1], float64)", cache=True, error_model="numpy")
def triad(a, b, c, s):
    """The reference for memory bandwidth: a = b + s c."""
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def fields(shape: tuple[int, ...], tile: int) -> tuple[np.ndarray, np.ndarray, Region]:
    """Two arrays like those of a block with neighbours on all sides, and its own region."""
    old, region = ghosted(shape, [(tile, tile)] * len(shape), tile)
    new = copied(old)
    old[...] = new[...] = np.random.default_rng(1).random(old.shape[-1])
    return old, new, region


def measure(app: str, shape: tuple[int, ...], tiles: tuple[int, ...]) -> dict[str, Any]:
    """Rates of triad, sweep and each tile in turn, per round; elements and points per second."""
    kernel = kernels.load(app, "cpu")
    points = float(np.prod(shape))
    a, b, c = (np.ones(TRIAD_CELLS) for _ in range(3))
    old, new, region = fields(shape, 1)
    grow = np.ones(2 * len(shape), np.int64)
    rates: dict[str, list[float]] = {}
    for tile in tiles:
        wide_old, wide_new, wide_region = fields(shape, tile)
        works: dict[str, tuple[float, Callable[[], Any]]] = {
            "triad": (TRIAD_CELLS, lambda: triad(a, b, c, 3.0)),
            "sweep": (points, lambda: kernel.sweep(old, new, *region)),
            "tile": (
                points * tile,
                lambda o=wide_old, n=wide_new, r=wide_region, t=tile: kernel.sweep_tile(
                    o, n, t, *r, grow
                ),
            ),
        }
        for _ in range(ROUNDS):
            for name, (work, call) in works.items():
                rates.setdefault(f"{name} {tile}", []).append(work / seconds(call))
    return rates


def measure_cached(app: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Rates of sweeps back and forth between two arrays in cache; points per second."""
    kernel = kernels.load(app, "cpu")
    old, new, region = fields(shape, 1)

    def work() -> None:
        for _ in range(CACHED_SWEEPS):
            kernel.sweep(old, new, *region)

    points = float(np.prod(shape)) * CACHED_SWEEPS
    return {"sweep": [points / seconds(work) for _ in range(CACHED_ROUNDS)]}


def on_core(core: int, start: Any, results: Any, how: Any, arguments: tuple[Any, ...]) -> None:
    """Measure on one core, at the same time as on the others."""
    os.sched_setaffinity(0, {core})
    kernels.load(arguments[0], "cpu")
    start.wait()
    results.put(how(*arguments))


def on_cores(cores: list[int], how: Any, *arguments: Any) -> dict[str, Any]:
    """Measure on several cores at once, each with its own arrays; returns sums over cores."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(len(cores)), context.Queue()
    workers = [
        context.Process(target=on_core, args=(core, start, results, how, arguments))
        for core in cores
    ]
    for worker in workers:
        worker.start()
    rates = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {name: np.sum([own[name] for own in rates], axis=0) for name in rates[0]}


def summary(rates: dict[str, Any], tiles: tuple[int, ...]) -> dict[str, Any]:
    """Medians of rates over rounds, and of ratios of rates in the same round."""
    triad, sweep = (np.concatenate([rates[f"{n} {t}"] for t in tiles]) for n in ("triad", "sweep"))
    return {
        "triad_bytes_per_s": median(32 * triad),
        "sweep_points_per_s": median(sweep),
        "share_of_triad": median(24 * sweep / (32 * triad)),
        "tile_points_per_s": {tile: median(rates[f"tile {tile}"]) for tile in tiles},
        "tile_over_sweep": {
            tile: median(rates[f"tile {tile}"] / rates[f"sweep {tile}"]) for tile in tiles
        },
    }


def widest_vectors(app: str) -> str:
    """The widest vector registers in the assembly of an app's sweep, which is compiled for it."""
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
                results[name] = summary(
                    on_cores(cores, measure, app, shape, TILES[app]), TILES[app]
                )
            for shape in SMALL[app]:
                name = f"{app} {'x'.join(map(str, shape))} in cache on {len(cores)} core(s)"
                rates = on_cores(cores, measure_cached, app, shape)
                results[name] = {"sweep_points_per_s": median(rates["sweep"])}
    save("stencils", results)


if __name__ == "__main__":
    main()
