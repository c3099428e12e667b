"""What `bench.py` measures on a GPU: rates of kernels and of CuPy expressions, streams, copies.

A rate counts only if the result has the bits of the CPU; otherwise `Different` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.apps.leanmd_baselines import melted
from benchmarks.common import in_turn, median, run, stepped
from benchmarks.gpu.array_baselines import forces_by_arrays, push_by_arrays, sweep_by_arrays
from benchmarks.gpu.cases import DOUBLE, SIZE_OPTIONS, in_words
from miniapps import apps, kernels
from miniapps.arrays import ghosted
from miniapps.devices import backend as device
from miniapps.kernels.halo.interface import Region, box
from miniapps.kernels.leanmd.units import FORCE_UNIT
from miniapps.pic.particles import FLOATS
from miniapps.workbench import environment

ROUNDS = 7
COMPARED = 1000  # particles
AGREES = 1e-9  # allowed error of array expressions, over the largest value
SWEEPS_IN_STREAMS = 20
RUN_S = 60.0  # limit of a run
MOST_RANKS = 8  # of a run on the CPU


class Different(RuntimeError):
    """Measured code computes a wrong result."""


def rate(gpu: Any, work: Callable[[], Any], units: float) -> float:
    """Units per second, the median over rounds after a first one that is not counted."""
    work()
    seconds = []
    for _ in range(ROUNDS):
        begin = gpu.mark()
        work()
        seconds.append(gpu.seconds(begin, gpu.mark()))
    return units / median(seconds)


def copy_bytes_per_s(gpu: Any, size: int) -> float:
    """Bytes per second of a copy within the device's memory, read and written."""
    source, target = (gpu.empty((size // 8,), np.float64) for _ in range(2))
    return rate(gpu, lambda: target.copy_to_device(source, stream=gpu.stream), 2.0 * size)


# Stencils ----------------------------------------------------------------------------------------


def fields(gpu: Any, shape: tuple[int, ...], tile: int, dtype: str) -> tuple[Any, Any, Region]:
    """Two arrays like those of a block with neighbours on all sides, and its own region."""
    field, region = ghosted(shape, [(tile, tile)] * len(shape), tile, dtype, gpu.line)
    with_ghosts = tuple(at + (tile if n % 2 else -tile) for n, at in enumerate(region))
    field[box(with_ghosts)] = np.random.default_rng(1).random(shape[-1] + 2 * tile)
    new = gpu.to_device(field)
    return gpu.to_device(field.copy() if new is field else field), new, region


def cupy_stencil(gpu: Any, shape: tuple[int, ...]) -> float:
    """Cells per second of the same sweep with CuPy arrays."""
    import cupy

    with gpu.stream.queue:
        old = cupy.asarray(np.random.default_rng(1).random([n + 2 for n in shape]))
        new = old.copy()

    def work() -> None:
        with gpu.stream.queue:
            sweep_by_arrays(old, new)

    found = rate(gpu, work, float(np.prod(shape)))
    part = (slice(0, 12),) * len(shape)
    inside = (slice(1, -1),) * len(shape)
    with gpu.stream.queue:
        field, swept = cupy.asnumpy(old[part]), cupy.asnumpy(new[part])
    right = field.copy()
    sweep_by_arrays(field, right)
    agree(right[inside], swept[inside])
    return found


def agree(right: np.ndarray, found: np.ndarray) -> None:
    """Raise Different unless two arrays agree to rounding."""
    off = float(np.abs(right - found).max())
    if not off <= AGREES * np.abs(right).max():
        raise Different(f"off by {off}")


# Particles and atoms -----------------------------------------------------------------------------


def pushing(where: Any, size: int, particles: int) -> Any:
    """A block of PIC whose particles have made one step, so they are ordered as in a run."""
    problem = apps.load("pic").Problem(size=size, particles=particles)
    return stepped("pic", problem, 1, where)


def cupy_push(gpu: Any, size: int, particles: int) -> float:
    """Particles per second of the push with CuPy arrays."""
    import cupy

    block = pushing(gpu, size, particles)
    mine = block.particles
    with gpu.stream.queue:
        mesh = cupy.asarray(block.mesh)
        columns = tuple(cupy.asarray(getattr(mine, name))[: mine.count] for name in FLOATS)
        moved = tuple(cupy.asnumpy(column[:COMPARED]) for column in columns)

    def work() -> None:
        with gpu.stream.queue:
            push_by_arrays(cupy, mesh, columns, size)

    work()
    with gpu.stream.queue:
        found = [cupy.asnumpy(column[:COMPARED]) for column in columns]
        push_by_arrays(np, cupy.asnumpy(mesh), moved, size)
    for pair in zip(moved, found, strict=True):
        agree(*pair)
    return rate(gpu, work, float(particles))


def cupy_forces(gpu: Any, lattice: tuple[int, int, int]) -> float:
    """Atoms per second of the forces with CuPy arrays, by cells; nothing else of a step."""
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
        agree(cupy.asnumpy(force) * FORCE_UNIT, cupy.asnumpy(work()))
    return rate(gpu, work, float(atoms.count))


# Whole runs --------------------------------------------------------------------------------------


def on_gpu(*words: object) -> dict[str, Any]:
    """The record of a valid run on the GPU."""
    return run(*words, "--device", "gpu", timeout_s=RUN_S)


def leanmd_melt(lattice: tuple[int, int, int], steps: int, dtype: str) -> float:
    """Atom-steps per second of a whole run, list building included."""
    words = ["leanmd", "--lattice", in_words(lattice), "--steps", steps]
    return on_gpu(*words, "--dtype", dtype, "--warmup", steps // 10)["rate"]["value"]


def jacobi2d_blocks(size: tuple[int, ...], steps: int, more: Iterable[object]) -> dict[str, Any]:
    """Results of Jacobi2D, one sweep per exchange, in one of `CONFIGURATIONS`."""
    return blocks(["jacobi2d", "--size", in_words(size), "--time-tile", 1, *more], steps)


def pic_blocks(size: int, particles: int, steps: int, more: Iterable[object]) -> dict[str, Any]:
    """Results of PIC in one of `PIC_CONFIGURATIONS`."""
    return blocks(["pic", "--size", size, "--particles", particles, *more], steps)


def blocks(words: Iterable[object], steps: int) -> dict[str, Any]:
    """The rate of a run on the GPU, and how its messages travelled."""
    warmup = steps // 10
    record = on_gpu(*words, "--steps", steps, "--warmup", warmup)
    return {
        "rate": record["rate"]["value"],
        "staged_bytes_per_step": record["transport"]["staged_bytes"] / (steps + warmup),
        "path": record["transport"]["path"],
    }


def hidden_copies(size: tuple[int, ...]) -> dict[str, float]:
    """Seconds of copying a halo to the host and back, of sweeping the interior, of both at once.

    ``hidden``: the fraction of the shorter one that the longer one hides, 0 to 1.
    """
    app = apps.load("jacobi2d")
    problem = app.Problem(size=size, boundary="periodic", initial="noise", time_tile=1)
    block = app.Block(problem, problem.cut(1, 1, None), (0, 0), device.get("gpu"))
    block.alone = True  # it sweeps its interior first, as if its neighbours were other blocks

    def step(copies: bool, sweep: bool) -> float:
        begin = perf_counter()
        if copies:
            messages = block.faces()
            block.device.stage(messages.values())
        if sweep:
            block.sweep_interior(1)
        if copies:
            block.fill_ghosts({edge: np.array(m.on_host()) for edge, m in messages.items()})
        block.device.synchronize()
        return perf_counter() - begin

    configurations = {"copies_s": (True, False), "sweep_s": (False, True), "both_s": (True, True)}
    took = medians_in_turn({name: partial(step, *how) for name, how in configurations.items()})
    check_swept(block.device, block.old, block.new, block.interior())
    saved = took["copies_s"] + took["sweep_s"] - took["both_s"]
    return took | {"hidden": saved / min(took["copies_s"], took["sweep_s"])}


def streams(size: tuple[int, ...], count: int) -> dict[str, float]:
    """Seconds of sweeps of ``count`` blocks in one stream, and in one stream per block."""
    one, own = device.get("gpu"), [device.get("gpu") for _ in range(count)]
    shape = size[0] // count, *size[1:]
    configurations = {"one_stream_s": [one] * count, "own_streams_s": own}
    arrays = {
        name: [fields(gpu, shape, 1, DOUBLE) for gpu in gpus]
        for name, gpus in configurations.items()
    }
    sweep = kernels.load("jacobi2d", "gpu").sweep

    def work(name: str) -> float:
        begin = perf_counter()
        for _ in range(SWEEPS_IN_STREAMS):
            for old, new, region in arrays[name]:
                sweep(old, new, *region)
        for gpu in configurations[name]:
            gpu.synchronize()
        return perf_counter() - begin

    took = medians_in_turn({name: partial(work, name) for name in configurations})
    for name, gpus in configurations.items():
        for gpu, block in zip(gpus, arrays[name], strict=True):
            check_swept(gpu, *block)
    return took | {"gain": took["one_stream_s"] / took["own_streams_s"]}


def check_swept(gpu: Any, old: Any, new: Any, region: Region) -> None:
    """Raise Different unless a region of ``new`` has the bits of a sweep of ``old`` by the CPU."""
    source, found = gpu.to_host(old), gpu.to_host(new)
    right = found.copy()
    right[box(region)] = -1.0
    kernels.load("jacobi2d", "cpu").sweep(source, right, *region)
    if right[box(region)].tobytes() != found[box(region)].tobytes():
        raise Different("not the bits of the CPU")


def medians_in_turn(calls: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median result of each call, made in turn, after a first result that is not counted."""
    took = in_turn(calls, ROUNDS + 1)
    return {name: median(values[1:]) for name, values in took.items()}


def on_both(app: str, size: str, steps: int) -> dict[str, Any]:
    """Rates of the same run on the CPU's cores under mpi, and on the GPU. Raises Different."""
    words = [app, SIZE_OPTIONS[app], size, "--steps", steps, "--warmup", steps // 10]
    ranks = min(environment.cores(), MOST_RANKS)
    mpi = "--driver", "mpi", "-n", ranks
    cpu, gpu = run(*words, *mpi, timeout_s=RUN_S), on_gpu(*words)
    if cpu["state_hash"] != gpu["state_hash"]:
        raise Different("ends in another state than on the CPU")
    rates = {"cpu": cpu["rate"]["value"], "gpu": gpu["rate"]["value"]}
    return rates | {"ranks": cpu["pes"], "unit": cpu["rate"]["unit"]}
