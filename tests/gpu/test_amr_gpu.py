"""AMR's kernels on the GPU against their CPU counterparts, bit for bit; blocks come and go."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import support
from continued import engine_of

from miniapps import apps, kernels
from miniapps.amr.layout import BACKGROUND
from miniapps.arrays import ghosted
from miniapps.devices import backend as device
from miniapps.kernels.halo.interface import box

# In the simulator NumPy warns of integers modulo 2^64.
pytestmark = pytest.mark.filterwarnings("ignore:overflow")
CELLS = 11, 131  # beyond a thread block, and a march, along each axis
DTYPES = "float64", "float32"


def numbers(count: int, dtype: str) -> tuple[list[np.ndarray], Any]:
    """Arrays of numbers over many magnitudes, ghosts included, and the region of the own points."""
    empty, own = ghosted(CELLS, [(2, 2)] * 2, 1, dtype, line=128)
    return [support.noise(empty.shape, seed, dtype) for seed in range(count)], own


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sweep(dtype: str) -> None:
    """Catches other bits, a point that is left out or written besides, and a seam of marches."""
    (u, sums), own = numbers(2, dtype)
    gpu, of = device.get("gpu"), kernels.load("amr", "gpu")
    x0, x1, y0, y1 = own
    for active in (own, (x0 + 2, x1 - 1, y0 + 1, y1 - 3), (x1, x0, y0, y1)):
        right = u.copy(), sums.copy()
        kernels.load("amr", "cpu").sweep(right[0], right[0], right[1], 4, active, own)
        there = [gpu.to_device(array) for array in (u, u, sums)]
        of.sweep(*there, 4, active, own)
        old, new, added = (gpu.to_host(array) for array in there)
        assert support.same_bits(old, u) and support.same_bits(new, right[0])
        assert support.same_bits(added, right[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("level", "first"), [(0, (5, 3)), (3, (13, 18))])
def test_interpolation(dtype: str, level: int, first: tuple[int, int]) -> None:
    """Catches a weight, a last point or a place that is not the CPU's."""
    (u, of_coarse), own = numbers(2, dtype)
    for less in (0, 1):  # with and without a point behind the last one
        rows, columns = (((n - 1) >> level) + 2 + (level > 0) - less for n in CELLS)
        coarse, found = np.ascontiguousarray(of_coarse[:rows, :columns]), []
        for name in ("cpu", "gpu"):
            on = device.get(name)
            there = on.to_device(u.copy())
            of = kernels.load("amr", name)
            of.interpolate(on.to_device(coarse), there, level, first, own)
            found.append(np.array(on.to_host(there)))
        assert support.same_bits(*found) and not support.same_bits(found[0], u)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_check(dtype: str) -> None:
    """Catches a point that is left out or counted twice, and a wrong number that is not counted."""
    empty, own = ghosted(CELLS, [(2, 2)] * 2, 1, dtype, line=128)
    gpu, rng = device.get("gpu"), np.random.default_rng(1)
    u, sums = (np.full_like(empty, 7.0) for _ in range(2))
    u[box(own)] = np.add.outer(*(np.arange(n) / 4 for n in CELLS)) + 9.0
    sums[box(own)] = rng.integers(0, 9, CELLS) / 8  # mostly wrong
    u[box(own)][rng.random(CELLS) < 0.1] = np.nan
    x0, x1, y0, y1 = own
    for active in (own, (x0 + 2, x1 - 1, y0 + 1, y1 - 3), (x1, x0, y0, y1)):
        for due in (0.5, 0.0):
            rest = (2.0, 7.0), 0.25, due, active, own
            right = kernels.load("amr", "cpu").check(u, sums, *rest)
            there = gpu.to_device(u), gpu.to_device(sums)
            assert device.known(kernels.load("amr", "gpu").check(*there, *rest)) == [*right]
            assert 0 < right[1] < 2 * np.prod(CELLS) and bool(right[0]) == (active[0] < active[1])


def steps_of(name: str, problem: Any, grid: tuple[int, int], moves: bool = False) -> list[Any]:
    """What there is before each step on a device: the bits of the state, and what has ended.

    ``moves``: whether each block migrates between the steps.
    """
    layout, found = support.layout_of(problem, grid), []
    make = partial(apps.load("amr").Block, problem, layout)
    engine = engine_of(make, problem, layout, device.get(name), 0).setup()
    for step in range(7):
        engine.round(step, 1)
        engine.drop_before(step + 1)
        if moves:
            for runner in engine.runners.values():
                if runner.block is not None:
                    carry(runner)
        found.append({(b.kind, b.index): contents(b) for b in engine.blocks})
    return found


def carry(runner: Any) -> None:
    """Let a block migrate: everything but its class goes through bytes."""
    runner.block.__dict__ = vars(pickle.loads(pickle.dumps(runner.block)))


def contents(block: Any) -> Any:
    """The bits of a block's state, and what refinements have left there."""
    state = [(piece.name, piece.values.tobytes()) for piece in block.state()]
    left = (block.ended.tolist(), block.ended_norms.tolist()) if block.kind == BACKGROUND else None
    return state, left


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("placement", ["fine-grain", "no-talk"])
def test_blocks_that_come_and_go(dtype: str, placement: str) -> None:
    """Catches a birth, halo, end or migration that loses something on the GPU."""
    values: dict[str, Any] = {"size": (11, 9), "refinement": (5, 4), "level": 1, "period": 3}
    values |= {"duration": 2, "sub_iterations": 1, "initial": "noise"}
    problem = apps.load("amr").Problem(**values, placement=placement, dtype=dtype)
    right = steps_of("cpu", problem, (2, 1))
    assert [len(blocks) > 2 for blocks in right] == [True, False, False, True, False, False, True]
    assert any(any(map(any, left[0])) for _, left in right[-1].values() if left)
    for moves in (False, True):
        assert steps_of("gpu", problem, (2, 1), moves) == right
