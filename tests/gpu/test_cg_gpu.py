"""CG's kernels on the GPU against their CPU counterparts, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import support

from miniapps import kernels
from miniapps.arrays import ghosted
from miniapps.cg.problem import CgProblem
from miniapps.devices import backend as device
from miniapps.devices.backend import known
from miniapps.kernels.exact_sum import accumulator

# In the simulator NumPy warns of integers modulo 2^64.
pytestmark = pytest.mark.filterwarnings("ignore:overflow")
CELLS = 10, 9, 35  # beyond a thread block along each axis


def vectors(count: int, cells: tuple[int, ...] = CELLS) -> tuple[list[np.ndarray], Any]:
    """Vectors of numbers over many magnitudes, ghosts included, and the region of their points."""
    empty, own = ghosted(cells, [(1, 1)] * 3, 1, line=64)
    return [support.noise(empty.shape, seed) for seed in range(count)], own


def both(
    kernel: str, count: int, *numbers: Any, before: tuple[Any, ...] = (), words: int = 1
) -> None:
    """Require that a kernel writes the same bits on CPU and GPU."""
    made, own = vectors(count)
    found = []
    for name in ("cpu", "gpu"):
        on = device.get(name)
        arrays = [on.to_device(array.copy()) for array in made]
        last = [on.to_device(accumulator()) for _ in range(words)]
        getattr(kernels.load("cg", name), kernel)(*before, *arrays, *numbers, *own, *last)
        found.append([np.array(on.to_host(array)) for array in (*arrays, *last)])
    for here, there in zip(*found, strict=True):
        assert support.same_bits(here, there)
    changed = [not support.same_bits(a, b) for a, b in zip(found[0], made, strict=False)]
    assert any(changed) or kernel == "dot"


@pytest.mark.parametrize("points", [27, 7])
def test_operator(points: int) -> None:
    """Catches other bits, a point that is left out, and a seam between threads."""
    both("apply", 2, before=(points,))
    both("multiply", 2, before=(points,), words=0)


@pytest.mark.parametrize("points", [27, 7])
@pytest.mark.parametrize("odd", [0, 3, 6])
def test_gauss_seidel(points: int, odd: int) -> None:
    """Catches a point of another colour, and other bits."""
    both("relax", 2, np.array([odd]), before=(points,), words=0)


@pytest.mark.parametrize("points", [27, 7])
def test_gauss_seidel_of_several_blocks(points: int) -> None:
    """Catches a launch for many blocks that takes the points, or the colour, of another one."""
    gpu, right, tasks = device.get("gpu"), [], []
    several = ([5, 4, 1], (3, 9, 4)), ([0, 3], (4, 2, 35)), ([4, 6], (1, 5, 5)), ([2], (2, 10, 3))
    for colours, cells in several:
        (z, r), own = vectors(2, cells)
        odd = np.array(colours)
        tasks.append((points, gpu.to_device(z.copy()), gpu.to_device(r), odd, *own))
        kernels.load("cg", "cpu").relax(points, z, r, odd, *own)
        right.append(z)
    found: Any = kernels.load("cg", "gpu")
    found.relax_all(tasks)
    for (_, on_gpu, *_), z in zip(tasks, right, strict=True):
        assert support.same_bits(gpu.to_host(on_gpu), z)
    found.relax_all(tasks[2:3])  # which has no point of these colours
    assert support.same_bits(gpu.to_host(tasks[2][1]), right[2])


SEVERAL = (5, 4, 35), (3, 9, 4), (1, 10, 40)  # blocks of different shapes
FEW = (2, 3, 4), (3, 1, 2)  # which a launch does that the simulator makes too


@pytest.mark.parametrize("shapes", [SEVERAL, FEW])
@pytest.mark.parametrize(
    ("kernel", "count", "before", "numbers", "sums"),
    [
        ("apply", 2, (27,), 0, 1),
        ("multiply", 2, (7,), 0, 0),
        ("turn", 2, (), 1, 0),
        ("advance", 4, (), 1, 1),
        ("advance_pipelined", 7, (), 2, 2),
        ("dot", 2, (), 0, 1),
        ("clear", 1, (), 0, 0),
    ],
)
def test_several_blocks_at_once(
    kernel: str, count: int, before: Any, numbers: int, sums: int, shapes: Any
) -> None:
    """Catches a launch that takes vectors, bounds, numbers or sums of another block.

    Two blocks have the same numbers, one has others: it may be an iteration ahead.
    """
    cpu, module, gpu = kernels.load("cg", "cpu"), kernels.load("cg", "gpu"), device.get("gpu")
    tasks, right = [], []
    for cells, alpha in zip(shapes, (0.7, 0.3, 0.7), strict=False):
        made, own = vectors(count, cells)
        rest = *(alpha / n for n in range(1, numbers + 1)), *(() if kernel == "clear" else own)
        tasks.append((*before, *(gpu.to_device(one.copy()) for one in made), *rest))
        words = [accumulator() for _ in range(sums)]
        getattr(cpu, kernel)(*before, *made, *rest, *words)
        right.append((made, [one.tolist() for one in words]))
    found = getattr(module, f"{kernel}_all")(tasks)
    for task, answer, (made, words) in zip(tasks, found, right, strict=True):
        there = [gpu.to_host(one) for one in task[len(before) : len(before) + count]]
        assert all(map(support.same_bits, there, made))
        assert [known(one).tolist() for one in answer or ()] == words


def test_updates_and_dots() -> None:
    """Catches products that are joined to sums, ghosts that are left out, and lost products."""
    both("turn", 2, 0.3, words=0)
    both("advance", 4, 0.7, words=1)
    both("dot", 2)
    both("advance_pipelined", 7, 0.7, 0.3, words=2)


def test_clear() -> None:
    """Catches an element that is left as it was."""
    gpu = device.get("gpu")
    array = gpu.to_device(np.ones((3, 5, 7)))
    kernels.load("cg", "gpu").clear(array)
    assert not gpu.to_host(array).any()


@pytest.mark.parametrize(("sgs", "points"), [("none", 27), ("sgs", 7), ("sgs", 27)])
def test_blocks_on_the_gpu(sgs: str, points: int) -> None:
    """Catches a block that computes something else on the GPU, or loses a halo there."""
    problem = CgProblem((5, 4, 3), operator=points, solution="noise", preconditioner=sgs)
    here, there = (support.states_on(name, "cg", problem, (2, 1, 1)) for name in ("cpu", "gpu"))
    assert here == there
