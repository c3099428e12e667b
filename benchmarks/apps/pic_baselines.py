"""PIC as straightforward programs: a Numba loop over particles, and NumPy on whole arrays.

Both work on one array of all particles, rows x, y, vx, vy, charge, as the Parallel Research
Kernels' C program does, and read the charges from a mesh of doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

import numpy as np
from numba import njit

from miniapps.pic import reference_solution
from miniapps.pic.problem import POSITION_LIMIT, PicProblem


@njit("UniTuple(float64, 2)(float64, float64, float64, float64)", cache=True)
def coulomb(dx, dy, charge, other):
    """The force between two charges."""
    squared = dx * dx + dy * dy
    distance = math.sqrt(squared)
    force = charge * other / squared
    return force * dx / distance, force * dy / distance


@njit("void(float64[:, ::1], float64[:, ::1], float64)", cache=True)
def naive_push(rows, mesh, size):
    """Move all particles by one step, one after the other."""
    for n in range(rows.shape[0]):
        x, y, charge = rows[n, 0], rows[n, 1], rows[n, 4]
        i, j = int(math.floor(x)), int(math.floor(y))
        ax, ay = 0.0, 0.0
        for a in range(2):
            for b in range(2):
                fx, fy = coulomb(x - (i + a), y - (j + b), charge, mesh[i + a, j + b])
                ax += fx
                ay += fy
        rows[n, 0] = (x + rows[n, 2] + 0.5 * ax + size) % size
        rows[n, 1] = (y + rows[n, 3] + 0.5 * ay + size) % size
        rows[n, 2] += ax
        rows[n, 3] += ay


def numba_loop(problem: PicProblem, rows: np.ndarray) -> Callable[[], np.ndarray]:
    """A step of the Numba loop."""
    mesh = np.ones((problem.size + 1, problem.size + 1))
    mesh[1::2] = -1.0

    def step() -> np.ndarray:
        naive_push(rows, mesh, float(problem.size))
        return rows

    return step


def numpy_arrays(problem: PicProblem, rows: np.ndarray) -> Callable[[], np.ndarray]:
    """A step of NumPy on whole arrays."""
    held = [rows]

    def step() -> np.ndarray:
        held[0] = reference_solution.push(held[0], problem.size)
        return held[0]

    return step


def rate(
    make: Callable[[PicProblem, np.ndarray], Callable[[], np.ndarray]],
    problem: PicProblem,
    cells: np.ndarray,
    steps: int,
) -> float:
    """Particles per second of a baseline. Raises RuntimeError if a position is wrong."""
    step = make(problem, reference_solution.begun(cells, problem.k, problem.m))
    before = perf_counter()
    for _ in range(steps):
        rows = step()
    seconds = perf_counter() - before
    moved = cells + np.array([(2 * problem.k + 1) * steps, problem.m * steps])
    off = np.abs(rows[:, :2] - (moved % problem.size + 0.5)).max()
    if not off <= POSITION_LIMIT:
        raise RuntimeError(f"{make.__name__}: a particle is {off} cells off")
    return len(cells) * steps / seconds
