"""Jacobi2D and Stencil3D on the GPU against their CPU counterparts, bit for bit."""

from __future__ import annotations

import importlib
import itertools
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support

from miniapps import apps, kernels
from miniapps.devices import backend as device
from miniapps.drivers.engine import Engine
from miniapps.drivers.sim import SimOptions
from miniapps.drivers.sim import driver as sim
from miniapps.kernels.halo.cpu import Halo as HostHalo
from miniapps.kernels.halo.interface import box

APPS = ("jacobi2d", "stencil3d")
DTYPES = ("float64", "float32")
SHAPES = {"jacobi2d": (23, 140), "stencil3d": (21, 15, 37)}  # beyond a thread block along each axis
Region = tuple[int, ...]


def inside(app: str, low: int, high: int) -> Region:
    """Return the cells of the shape, without some layers at the low and at the high sides."""
    return tuple(edge for n in SHAPES[app] for edge in (low, n - high))


def both(
    app: str, kernel: str, dtype: str, *arguments: Any, old: np.ndarray | None = None
) -> tuple[list[np.ndarray], list[Any]]:
    """Run a kernel on CPU and GPU; returns (old, new) of each in turn, and what they returned."""
    gpu = device.get("gpu")
    old = support.noise(SHAPES[app], 1, dtype) if old is None else old
    new = support.noise(old.shape, 2, dtype)
    there = [gpu.to_device(array) for array in (old, new)]
    here = [old.copy(), new.copy()]
    returned = [
        getattr(kernels.load(app, name), kernel)(*arrays, *arguments)
        for name, arrays in (("cpu", here), ("gpu", there))
    ]
    return here + [gpu.to_host(array) for array in there], returned


REGIONS = [(1, 1), (2, 5), (3, 17), (9, 1)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("margins", REGIONS)
def test_sweep(app: str, margins: tuple[int, int], dtype: str) -> None:
    """Catches other bits, a cell that is missed or swept too much, and a seam between threads."""
    (old, new, gpu_old, gpu_new), _ = both(app, "sweep", dtype, *inside(app, *margins))
    assert support.same_bits(gpu_new, new) and support.same_bits(gpu_old, old)
    untouched = support.noise(SHAPES[app], 2, dtype)
    swept = min(high - low for low, high in zip(*[iter(inside(app, *margins))] * 2, strict=True))
    assert support.same_bits(new, untouched) == (swept <= 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("margins", REGIONS)
def test_sweep_residual(app: str, margins: tuple[int, int], dtype: str) -> None:
    """Catches a residual of too few or too many cells, and other bits of the sweep."""
    (_, new, _, gpu_new), returned = both(app, "sweep_residual", dtype, *inside(app, *margins))
    assert support.same_bits(gpu_new, new)
    assert returned[1] == returned[0]


@pytest.mark.parametrize("app", APPS)
def test_residual_of_nan_is_nan(app: str) -> None:
    """Catches a run that counts as converged because no comparison with NaN holds."""
    old = support.noise(SHAPES[app], 1)
    old[tuple(n // 2 for n in old.shape)] = np.nan
    _, returned = both(app, "sweep_residual", "float64", *inside(app, 1, 1), old=old)
    assert np.isnan(returned).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("sweeps", [2, 5])
def test_sweep_tile(app: str, sweeps: int, dtype: str) -> None:
    """Catches a tile that reads a value of the wrong sweep, with neighbours and without."""
    shape = {"jacobi2d": (21, 70), "stencil3d": (12, 13, 15)}[app]
    grows = [(1, 0), (1, 1)] if dtype == "float64" else [(0, 1), (1, 1)]
    check_tile(app, shape, sweeps, [grow * len(shape) for grow in grows], dtype)


SEAMS = [
    ("jacobi2d", (135, 11), 2),
    ("jacobi2d", (9, 265), 4),
    ("stencil3d", (68, 5, 5), 2),
    ("stencil3d", (5, 18, 34), 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("app", "shape", "sweeps"), SEAMS)
def test_seams_of_tiles(app: str, shape: tuple[int, ...], sweeps: int) -> None:
    """Catches errors where one thread block ends and the next begins, along each axis."""
    check_tile(app, shape, sweeps, [(1, 0, 0, 1, 1, 1)[: 2 * len(shape)]], "float64")


@pytest.mark.slow
def test_planes_of_a_thread_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches large grids that read planes more often than they must, and few thread blocks."""
    stencil3d = importlib.import_module("miniapps.kernels.stencil3d.gpu")
    grids = {n: stencil3d._grid((n, n, n)) for n in (64, 512, 1024)}
    assert grids == {64: ((2, 8, 4), 16), 512: ((16, 64, 16), 32), 1024: ((32, 128, 16), 64)}
    monkeypatch.setattr(stencil3d, "MANY", 2)  # 32 planes, so the 37 are of two thread blocks
    old = support.noise((39, 4, 5), 1)
    (_, new, _, gpu_new), _ = both("stencil3d", "sweep", "float64", 1, 38, 1, 3, 1, 4, old=old)
    assert support.same_bits(gpu_new, new)


def test_more_cells_than_coordinates_are_refused() -> None:
    """Catches a tile whose coordinates overflow: cells of another place would be swept."""
    for app, shape in (("jacobi2d", (3, 2**31)), ("stencil3d", (2**31, 3, 3))):
        array = SimpleNamespace(shape=shape, dtype=np.dtype(np.float64))
        own = [edge for n in shape for edge in (2, n - 2)]
        grow = np.ones(len(own), np.int64)
        with pytest.raises(ValueError, match="at most 2147482624 cells per axis"):
            kernels.load(app, "gpu").sweep_tile(array, array, 2, *own, grow)


def check_tile(
    app: str, shape: tuple[int, ...], sweeps: int, grows: list[tuple[int, ...]], dtype: str
) -> None:
    """Sweep a tile on CPU and GPU, with neighbours on the sides that ``grows`` says."""
    own = tuple(edge for n in shape for edge in (sweeps, n - sweeps))
    for grow in grows:
        old = support.noise(shape, 1, dtype)
        results = []
        for name in ("cpu", "gpu"):
            where = device.get(name)
            arrays = [where.to_device(array) for array in (old.copy(), old.copy())]
            load = kernels.load(app, name)
            newest = load.sweep_tile(*arrays, sweeps, *own, np.array(grow, np.int64))
            results.append(where.to_host(arrays[newest])[box(own)].copy())
        assert support.same_bits(*results)


SEVERAL = {  # small blocks, and some whose thread blocks are of unequal numbers along each axis
    "jacobi2d": [[(17, 18), (16, 20)], [(23, 140), (37, 15), (150, 300)]],
    "stencil3d": [[(8, 9, 10), (7, 8, 9)], [(12, 13, 15), (9, 26, 8), (70, 9, 40)]],
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("app", "sweeps"), [("jacobi2d", 7), ("stencil3d", 3)])
def test_sweeps_of_several_blocks(app, sweeps, large, free, dtype):
    """Catches a launch for many blocks that sweeps a cell of one twice, not at all, or wrongly."""
    gpu = device.get("gpu")
    there, here, tasks = [], [], []
    for number, shape in enumerate(SEVERAL[app][large]):
        own = tuple(edge for n in shape for edge in (sweeps, n - sweeps))
        grow = (1,) * len(own) if free else tuple((number + n) % 2 for n in range(len(own)))
        old = support.noise(shape, number, dtype)
        arrays = [old.copy(), old.copy()]
        newest = kernels.load(app, "cpu").sweep_tile(*arrays, sweeps, *own, np.array(grow))
        here.append(arrays[newest][box(own)])
        there.append([gpu.to_device(old), gpu.to_device(old)])
        tasks.append((*there[-1], own, grow))
    newest = kernels.load(app, "gpu").sweep_all(tasks, sweeps)
    for arrays, (*_, own, _), right in zip(there, tasks, here, strict=True):
        assert support.same_bits(gpu.to_host(arrays[newest])[box(own)].copy(), right.copy())


# Halos -------------------------------------------------------------------------------------------


def faces(app: str, width: int) -> tuple[dict[Any, Region], dict[Any, Region]]:
    """Regions inside and outside the own cells of an array, by edge, corners included."""
    inside: dict[Any, Region] = {}
    outside: dict[Any, Region] = {}
    for edge in itertools.product((-1, 0, 1), repeat=len(SHAPES[app])):
        near: list[int] = []
        far: list[int] = []
        for side, cells in zip(edge, SHAPES[app], strict=True):
            low, high = width, cells - width
            near += [(low, low + width), (low, high), (high - width, high)][side + 1]
            far += [(0, width), (low, high), (high, high + width)][side + 1]
        if any(edge):
            inside[edge], outside[edge] = tuple(near), tuple(far)
    return inside, outside


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("width", [1, 3])
def test_halo(app: str, width: int, dtype: str) -> None:
    """Catches a face that is swapped, shifted or transposed on its way, or cells beside it."""
    gpu, field = device.get("gpu"), support.noise(SHAPES[app], 1, dtype)
    regions = faces(app, width)
    here, there = (
        HostHalo(device.Device(), *regions),
        kernels.load("halo", "gpu").Halo(gpu, *regions),
    )
    on_gpu = gpu.to_device(field)
    packed, messages = here.pack(field), there.pack(on_gpu)
    gpu.stage(messages.values())
    on_host = {edge: message.on_host() for edge, message in messages.items()}
    assert list(on_host) == list(packed)
    for edge, message in packed.items():
        assert support.same_bits(on_host[edge], np.asarray(message))
    opposite = {edge: tuple(-side for side in edge) for edge in packed}
    here.unpack(field, {edge: packed[opposite[edge]] for edge in packed})
    half = dict(itertools.islice(opposite.items(), len(opposite) // 2))
    mixed = {edge: (messages if edge in half else on_host)[opposite[edge]] for edge in packed}
    there.unpack(on_gpu, mixed)
    assert support.same_bits(gpu.to_host(on_gpu), field)
    assert not support.same_bits(field, support.noise(SHAPES[app], 1, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_halos_of_several_blocks(dtype: str) -> None:
    """Catches a launch for many blocks that takes the faces, or the field, of another one."""
    gpu, halos = device.get("gpu"), kernels.load("halo", "gpu")
    edge, fields, blocks = (0, 1), [], []
    for number, (rows, columns) in enumerate([(4, 600), (700, 5), (3, 3)]):
        inside = {edge: (0, rows, columns - 2, columns - 1)}
        outside = {edge: (0, rows, columns - 1, columns)}
        fields.append(support.noise((rows, columns), number, dtype))
        blocks.append((halos.Halo(gpu, inside, outside), gpu.to_device(fields[-1])))
    sent = halos.pack_all(blocks)
    halos.unpack_all([(*block, message) for block, message in zip(blocks, sent, strict=True)])
    for field, (_, on_gpu) in zip(fields, blocks, strict=True):
        field[:, -1] = field[:, -2]
        assert support.same_bits(gpu.to_host(on_gpu), field)


def test_ghosts_of_another_shape_are_refused() -> None:
    """Catches a message that a kernel would read beyond its end."""
    gpu = device.get("gpu")
    halo = kernels.load("halo", "gpu").Halo(gpu, *faces("jacobi2d", 1))
    field = gpu.to_device(support.noise(SHAPES["jacobi2d"], 1))
    came = {edge: np.zeros((1, 1)) for edge in halo.ghosts}
    with pytest.raises(ValueError, match="ghosts"):
        halo.unpack(field, came)


# Whole runs --------------------------------------------------------------------------------------

RUNS = [
    ("jacobi2d", (1, 1), {"size": (17, 21), "boundary": "heated"}),
    ("jacobi2d", (2, 3), {"size": (17, 21), "boundary": "heated", "time_tile": 2}),
    ("jacobi2d", (1, 2), {"size": (13, 9), "boundary": "periodic"}),
    ("jacobi2d", (2, 2), {"size": (13, 9), "boundary": "zero", "dtype": "float32"}),
    ("jacobi2d", (2, 1), {"size": (9, 13), "boundary": "zero", "tolerance": 0.2, "check_every": 3}),
    ("stencil3d", (1, 1, 1), {"size": (7, 6, 5)}),
    ("stencil3d", (2, 1, 2), {"size": (7, 6, 9), "boundary": "heated", "time_tile": 3}),
    ("stencil3d", (1, 2, 1), {"size": (5, 6, 7), "dtype": "float32"}),
    ("stencil3d", (2, 1, 1), {"size": (2, 3, 4), "imbalance": "paper", "imbalance_scale": 0.02}),
]


@pytest.mark.parametrize(("app", "grid", "values"), RUNS)
def test_same_bits_as_on_the_cpu(app: str, grid: tuple[int, ...], values: dict[str, Any]) -> None:
    """Catches a run whose halos, boundaries, tiles or steps differ from those of the CPU."""
    problem = apps.load(app).Problem(**({"initial": "noise", "time_tile": 1} | values))
    cpu, gpu = (support.solve(app, problem, grid, 4, device=name) for name in ("cpu", "gpu"))
    assert gpu.state_hash == cpu.state_hash
    assert gpu.outcome.steps_done == cpu.outcome.steps_done
    assert all(check.ok for check in gpu.checks)
    assert (gpu.outcome.wall_s > 0).all() and (gpu.outcome.compute_s > 0).all()


@pytest.mark.parametrize("app", APPS)
def test_block_pickled_in_mid_run(app: str) -> None:
    """Catches device state that a migration loses, or that stays behind."""
    shape = {"jacobi2d": (11, 9), "stencil3d": (6, 5, 4)}[app]
    problem = apps.load(app).Problem(size=shape, initial="noise", time_tile=1)
    grid = (2,) + (1,) * (len(shape) - 1)
    engine = Engine(support.blocks_of(app, problem, grid, device="gpu"))
    engine.round(0, 1)
    moved = [pickle.loads(pickle.dumps(block)) for block in engine.blocks]
    again = Engine(moved)
    again.round(1, 1)
    assert support.state_hash_of(moved) == support.solve(app, problem, grid, 2).state_hash


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_blocks_that_make_rounds_of_other_lengths(seed: int) -> None:
    """Catches a launch for all blocks whose sweeps are as many as those of the first block."""
    problem = apps.load("jacobi2d").Problem(size=(24, 6), initial="noise", time_tile=2)
    asked = {"odf": 4, "device": "gpu", "driver": sim, "options": SimOptions(seed=seed)}
    run = support.solve("jacobi2d", problem, (2, 1), 5, **asked)
    assert run.state_hash == support.solve("jacobi2d", problem, (1, 1), 5).state_hash
