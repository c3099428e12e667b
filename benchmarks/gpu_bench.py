"""``make gpu-bench``: how close the kernels on a GPU come to its memory's speed, in ten minutes.

First what a copy moves, read and written: that is the ceiling. Then kernels as shares of it, beside
CuPy expressions for the same; whole runs on CPU and GPU over sizes; blocks per PE, each with its
stream; and messages through the host. A kernel's rate counts only where its result has the bits of
its CPU twin, a run's where it is valid. Results go to results/gpu.json.

``--smoke`` makes everything tiny and writes nothing, to see that the script runs; in numba's
simulator there is no other way. Exit status: 0, or 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import median, run, save
from leanmd_baselines import forces_by_arrays, melted

import kernels
import miniapps
from kernels import device
from kernels.halo_cpu import Region, box
from kernels.leanmd_units import FORCE_UNIT
from miniapps.arrays import ghosted
from miniapps.decomposition import Layout
from miniapps.pic.particles import FLOATS
from workbench import nvidia

ROUNDS = 7
NO_GPU = 2

# One H200, float64, data well over its 60 MB of L2, copy at 4.3 TB/s: bytes that a unit of work has
# to move, and rates, 10^9 units a second, of a kernel that passes and of a good one. A row for each
# kernel; a sweep of several at once counts as so many.
BARS = {
    "jacobi2d": (16.0, 190, 235),
    "stencil3d": (16.0, 175, 225),
    "jacobi2d, 2 at once": (9.5, 300, 350),
    "jacobi2d, 4 at once": (5.5, 300, 350),
    "stencil3d, 2 at once": (9.5, 300, 350),
    "stencil3d, 4 at once": (9.5, 300, 350),
    "pic push": (72.0, 30, 48),
    "leanmd melt": (None, 0.3, 0.7),
}
FULL: dict[str, Any] = {
    "copy": 1 << 32,
    "jacobi2d": (16384, 16384),
    "stencil3d": (800, 800, 800),
    "pic": (5998, 50_000_000),
    "leanmd": ((64, 64, 64), (100, 100, 100)),
    "sizes": {
        "jacobi2d": [f"{n}x{n}" for n in (128, 512, 2048, 8192)],
        "stencil3d": [f"{n}x{n}x{n}" for n in (16, 64, 128, 320)],
        "pic": [600, 60_000, 6_000_000],
        "leanmd": ["8x8x8", "20x20x20", "40x40x40"],
    },
    "odf": "8192x8192",
    "steps": 100,
}
SMOKE: dict[str, Any] = {
    "copy": 1 << 10,
    "jacobi2d": (20, 24),
    "stencil3d": (6, 7, 8),
    "pic": (20, 100),
    "leanmd": ((3, 3, 3),),
    "sizes": {"jacobi2d": ["9x9"], "stencil3d": ["5x5x5"], "pic": [50], "leanmd": ["3x3x3"]},
    "odf": "8x8",
    "steps": 2,
}
CUPY = "CuPy expression"
CELLS = {  # a cell's new value from shifted views, in the order of the formula
    2: ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)),
    3: ((0, 0, 0), (-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)),
}


def rate(gpu: Any, work: Callable[[], Any], units: float) -> float:
    """Units a second, the median of some rounds after one that does not count."""
    work()
    seconds = []
    for _ in range(ROUNDS):
        begin = gpu.mark()
        work()
        seconds.append(gpu.seconds(begin, gpu.mark()))
    return units / median(seconds)


def copy_bytes_per_s(gpu: Any, size: int) -> float:
    """What a copy within the device's memory moves, read and written."""
    source, target = (gpu.empty((size // 8,), np.float64) for _ in range(2))
    return rate(gpu, lambda: target.copy_to_device(source, stream=gpu.stream), 2.0 * size)


# Stencils ----------------------------------------------------------------------------------------


def fields(gpu: Any, shape: tuple[int, ...], tile: int, dtype: str) -> tuple[Any, Any, Region]:
    """Two arrays as a block with neighbours all around has them, and its own region."""
    field, region = ghosted(shape, [(tile, tile)] * len(shape), tile, dtype, gpu.line)
    with_ghosts = tuple(at + (tile if n % 2 else -tile) for n, at in enumerate(region))
    field[box(with_ghosts)] = np.random.default_rng(1).random(shape[-1] + 2 * tile)
    return gpu.to_device(field), gpu.to_device(field.copy()), region


def has_cpu_bits(app: str, shape: tuple[int, ...], tile: int, dtype: str) -> bool:
    """Whether a tile on a small part has the bits of its CPU twin."""
    part = tuple(min(n, most) for n, most in zip(shape, (97, 83, 61), strict=False))
    found = []
    for name in ("cpu", "gpu"):
        where = device.get(name)
        old, new, region = fields(where, part, tile, dtype)
        grow = np.ones(2 * len(part), np.int64)
        newest = kernels.load(app, name).sweep_tile(old, new, tile, *region, grow)
        found.append(where.to_host(new if newest else old)[box(region)].tobytes())
    return found[0] == found[1]


def stencil(gpu: Any, app: str, shape: tuple[int, ...], tile: int, dtype: str) -> float:
    """Cells times sweeps a second of a tile of so many sweeps."""
    if not has_cpu_bits(app, shape, tile, dtype):
        raise RuntimeError(f"{app}, {tile} sweeps, {dtype}: not the bits of the CPU")
    kernel = kernels.load(app, "gpu")
    old, new, region = fields(gpu, shape, tile, dtype)
    grow = np.ones(2 * len(shape), np.int64)
    work = float(np.prod(shape)) * tile
    return rate(gpu, lambda: kernel.sweep_tile(old, new, tile, *region, grow), work)


def cupy_stencil(gpu: Any, shape: tuple[int, ...]) -> float:
    """The same sweep as one writes it with CuPy's arrays."""
    import cupy

    with gpu.stream.queue:
        old = cupy.asarray(np.random.default_rng(1).random([n + 2 for n in shape]))
        new = old.copy()
    offsets = CELLS[len(shape)]
    views = [
        tuple(slice(1 + by, n + 1 + by) for n, by in zip(shape, offset, strict=True))
        for offset in offsets
    ]

    def work() -> None:
        with gpu.stream.queue:
            total = old[views[0]]
            for view in views[1:]:
                total = total + old[view]
            new[views[0]] = (1.0 / len(views)) * total

    return rate(gpu, work, float(np.prod(shape)))


# Particles and atoms -----------------------------------------------------------------------------


def pushing(device_name: str, size: int, particles: int) -> Any:
    """A block of PIC whose particles have made one step."""
    from drivers.serial import Engine

    app = miniapps.load("pic")
    problem = app.Problem(size=size, particles=particles)
    layout: Layout = problem.cut(1, 1, None)
    problem = problem.prepared(layout, device_name)
    block = app.Block(problem, layout, layout.indices()[0], device.get(device_name))
    Engine([block]).round(0, 1)
    return block


def pic_push(size: int, particles: int, steps: int) -> float:
    """Particles times steps a second of the push alone, ordered in memory as in a run."""
    small = [pushing(name, min(size, 100), min(particles, 1000)) for name in ("cpu", "gpu")]
    states = []
    for block in small:
        block.push(steps)
        (piece,) = block.state()
        states.append(piece.values[np.argsort(piece.ids)].tobytes())
    if states[0] != states[1]:
        raise RuntimeError("pic push: not the bits of the CPU")
    block = pushing("gpu", size, particles)
    return rate(block.device, lambda: block.push(steps), float(particles * steps))


def cupy_push(size: int, particles: int) -> float:
    """The same push as one writes it with CuPy's arrays, the charges in a mesh of a byte."""
    import cupy

    block = pushing("gpu", size, particles)
    mine, gpu = block.particles, block.device
    mesh = cupy.asarray(block.mesh)
    x, y, vx, vy, charge = (cupy.asarray(getattr(mine, name))[: mine.count] for name in FLOATS)

    def pull(columns: Any, rows: Any, dx: Any, dy: Any) -> Any:
        """What a corner's charge does over the cubed distance."""
        return mesh[columns, rows] / (dx * dx + dy * dy) ** 1.5

    def work() -> None:
        with gpu.stream.queue:
            columns, rows = x.astype(np.int64), y.astype(np.int64)
            dx, dy = x - columns, y - rows
            f00, f01 = pull(columns, rows, dx, dy), pull(columns, rows + 1, dx, dy - 1)
            f10, f11 = (
                pull(columns + 1, rows, dx - 1, dy),
                pull(columns + 1, rows + 1, dx - 1, dy - 1),
            )
            ax = charge * (dx * (f00 + f01) + (dx - 1) * (f10 + f11))
            ay = charge * (dy * (f00 + f10) + (dy - 1) * (f01 + f11))
            x[:] = (x + vx + 0.5 * ax) % size
            y[:] = (y + vy + 0.5 * ay) % size
            vx[:] += ax
            vy[:] += ay

    return rate(gpu, work, float(particles))


def cupy_forces(gpu: Any, lattice: tuple[int, int, int]) -> float:
    """Atoms a second whose forces are found with CuPy's arrays, in cells; no more of a step."""
    import cupy

    block = melted(lattice, 10, gpu)
    atoms, problem = block.atoms, block.problem
    with gpu.stream.queue:
        position, force = (
            cupy.ascontiguousarray(cupy.asarray(array)[:, : atoms.count])
            for array in (atoms.position, atoms.force)
        )
        box = cupy.asarray(problem.box)

    def work() -> Any:
        with gpu.stream.queue:
            return forces_by_arrays(cupy, position, box, problem.cutoff)

    with gpu.stream.queue:
        expected = force * FORCE_UNIT
        off = float(abs(work() - expected).max() / abs(expected).max())
    if not off < 1e-9:
        raise RuntimeError(f"CuPy's forces differ by {off} of the largest")
    return rate(gpu, work, float(atoms.count))


def leanmd_melt(lattice: tuple[int, int, int], steps: int) -> dict[str, Any]:
    """Atom-steps a second of whole runs, in double and in single precision."""
    words = ["leanmd", "--lattice", "x".join(map(str, lattice)), "--steps", steps]
    found = {}
    for dtype in ("float64", "float32"):
        record = run(*words, "--device", "gpu", "--dtype", dtype, "--warmup", steps // 10)
        found[dtype] = record["rate"]["value"]
    return {"atoms": 4 * int(np.prod(lattice)), "rates": found}


# Whole runs --------------------------------------------------------------------------------------


def over_sizes(sizes: dict[str, list[Any]], steps: int) -> dict[str, list[dict[str, Any]]]:
    """Rates on all cores under mpi and on the GPU, from small to large."""
    cores = len(os.sched_getaffinity(0))
    found: dict[str, list[dict[str, Any]]] = {}
    for app, each in sizes.items():
        option = {"leanmd": "--lattice", "pic": "--particles"}.get(app, "--size")
        for size in each:
            words = [app, option, size, "--steps", steps, "--warmup", steps // 10]
            ranks = min(cores, 8)
            on_cpu = run(*words, "--driver", "mpi", "-n", ranks) if steps > 2 else run(*words)
            on_gpu = run(*words, "--device", "gpu")
            same = on_cpu["state_hash"] == on_gpu["state_hash"]
            rates = {"cpu": on_cpu["rate"]["value"], "gpu": on_gpu["rate"]["value"]}
            entry = {"size": size, "ranks": on_cpu["pes"], "unit": on_cpu["rate"]["unit"]}
            found.setdefault(app, []).append(entry | rates | {"same_state": same})
    return found


def over_blocks(size: str, steps: int) -> Iterator[dict[str, Any]]:
    """Jacobi2D in 1, 2, 4 and 8 blocks on one PE, and on two ranks that share the GPU."""
    words = ["jacobi2d", "--size", size, "--time-tile", 1, "--steps", steps, "--device", "gpu"]
    ways: dict[str, list[Any]] = {"serial": []}
    ways |= {f"charm, ODF {odf}": ["--driver", "charm", "--odf", odf] for odf in (1, 2, 4, 8)}
    ways["mpi, 2 ranks"] = ["--driver", "mpi", "-n", 2]
    for way, more in ways.items():
        record = run(*words, *more)
        yield {
            "way": way,
            "rate": record["rate"]["value"],
            "utilisation": record["utilisation"],
            "staged_bytes_per_step": record["transport"]["staged_bytes"] / steps,
            "path": record["transport"]["path"],
        }


# All of it ---------------------------------------------------------------------------------------


def kernel_rates(gpu: Any, sizes: dict[str, Any], simulated: bool) -> dict[str, dict[str, Any]]:
    """Rates of kernels, by name and data type, and of CuPy's expressions where that is there."""
    found: dict[str, dict[str, Any]] = {}
    for app in ("jacobi2d", "stencil3d"):
        for tile in (1, 2, 4):
            name = app if tile == 1 else f"{app}, {tile} at once"
            found[name] = {
                dtype: stencil(gpu, app, sizes[app], tile, dtype)
                for dtype in ("float64", "float32")
            }
        if not simulated:
            found[app][CUPY] = cupy_stencil(gpu, sizes[app])
    tiles = {"float64": 1, "float64, 4 steps at once": 4}
    found["pic push"] = {name: pic_push(*sizes["pic"], steps) for name, steps in tiles.items()}
    if not simulated:
        found["pic push"][CUPY] = cupy_push(*sizes["pic"])
    return found


def judged(name: str, rates: dict[str, float], ceiling: float) -> dict[str, Any]:
    """A rate as a share of what the ceiling allows, over CuPy's, and beside the bars."""
    bytes_each, passes, good = BARS[name]
    per_s = rates["float64"]
    return {
        "per_s": per_s,
        "share_of_copy": per_s * bytes_each / ceiling if bytes_each else None,
        "over_cupy": per_s / rates[CUPY] if CUPY in rates else None,
        "pass": passes * 1e9,
        "good": good * 1e9,
    }


def measured(sizes: dict[str, Any], simulated: bool) -> dict[str, Any]:
    """Everything, the ceiling first."""
    gpu: Any = device.get("gpu")
    ceiling = copy_bytes_per_s(gpu, sizes["copy"])
    rates = kernel_rates(gpu, sizes, simulated)
    melts = [leanmd_melt(lattice, sizes["steps"]) for lattice in sizes["leanmd"]]
    rates["leanmd melt"] = {"float64": max(melt["rates"]["float64"] for melt in melts)}
    if not simulated:
        rates["leanmd melt"][CUPY] = cupy_forces(gpu, sizes["leanmd"][0])
    return {
        "copy_bytes_per_s": ceiling,
        "kernels": {name: judged(name, entry, ceiling) for name, entry in rates.items()},
        "other rates": rates,
        "leanmd": melts,
        "sizes": over_sizes(sizes["sizes"], sizes["steps"]),
        "blocks": list(over_blocks(sizes["odf"], sizes["steps"])),
    }


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, and no results")
    smoke = parser.parse_args().smoke
    try:
        device.require("gpu")
        from kernels.cuda import SIMULATED
    except device.DeviceUnavailable as error:
        print(f"gpu-bench: {error}", file=sys.stderr)
        return NO_GPU
    if SIMULATED and not smoke:
        print("gpu-bench: the simulator's speed says nothing; --smoke", file=sys.stderr)
        return NO_GPU
    results = measured(SMOKE if smoke else FULL, SIMULATED)
    if smoke:
        print(json.dumps(results, indent=1))
    else:
        (first, *_) = nvidia.gpus(nvidia.library())
        save("gpu", {"device": first.name} | results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
