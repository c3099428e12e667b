"""The reference solution of PIC: one array of all particles, one mesh, no blocks.

Random numbers are drawn one after the other with Python's integers; particles are pushed with
NumPy. Sums and products have the same order as in the kernels, so the bits are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kernels
from kernels.state_hash import digest, hash_rows

MASK = (1 << 64) - 1
SEED, MULTIPLIER, INCREMENT = 27182818285, 6364136223846793005, 1442695040888963407
HALF = (1 << 32) - 1


def draw(mean: float, u0: int, u1: int) -> int:
    """A random count with the given mean, from two numbers of the generator."""
    if mean < 1:
        return int(u1 % HALF <= int(mean * HALF))
    a, b = float(u0 % MASK) / float(MASK), float(u1 % MASK) / float(MASK)
    z = math.sqrt(-2 * math.log(a)) * math.cos(2 * math.pi * b)
    return max(0, math.floor(0.15 * mean * z + mean + 0.5))


def initial_cells(problem: Any) -> np.ndarray:
    """The initial cell of each particle, in the order of their ids: (n, 2) int64."""
    size, state = problem.size, SEED
    means = problem.distribution.means(problem.particles, size)
    x0, x1, y0, y1 = problem.distribution.kept(size)
    cells = []
    for x in range(size):
        for y in range(size):
            first = (MULTIPLIER * state + INCREMENT) & MASK
            state = (MULTIPLIER * first + INCREMENT) & MASK
            count = draw(means[x], first, state)
            if x0 <= x < x1 and y0 <= y < y1:
                cells += [(x, y)] * count
    return np.array(cells, np.int64).reshape(-1, 2)


def begun(problem: Any, cells: np.ndarray, k: int, m: int) -> np.ndarray:
    """Particles at rest along x at the centres of cells: rows x, y, vx, vy, charge."""
    sign = np.where(cells[:, 0] % 2 == 0, 1.0, -1.0)
    rows = np.zeros((len(cells), 5))
    rows[:, :2] = cells + 0.5
    rows[:, 3] = m
    rows[:, 4] = problem.charge(k) * sign
    return rows


def injected_cells(event: Any) -> np.ndarray:
    """The cells of an injection, spread evenly in the order of the patch's cells: (n, 2) int64."""
    x0, x1, y0, y1 = event.cells()
    cells = [(x, y) for x in range(x0, x1) for y in range(y0, y1)]
    picked = [cells[j * len(cells) // event.particles] for j in range(event.particles)]
    return np.array(picked, np.int64).reshape(-1, 2)


def is_removed(event: Any, number: int, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """For each particle, whether a removal takes it: (n,) bool."""
    x0, x1, y0, y1 = event.cells()
    x, y = np.floor(rows[:, 0]), np.floor(rows[:, 1])
    inside = (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)
    selection = event.selection(number)
    if selection is None:
        return np.zeros(len(rows), bool)
    seed, limit = map(int, selection)
    mix = kernels.load("state_hash", "cpu").mix
    hashes = [int(mix(np.uint64((int(i) + seed) & MASK))) for i in ids]
    return inside & np.array([drawn <= limit for drawn in hashes], bool)


def push(rows: np.ndarray, size: int) -> np.ndarray:
    """All particles after one more step."""
    x, y, vx, vy, charge = rows.T
    column, row = np.floor(x), np.floor(y)
    mesh = np.where(np.arange(size + 1) % 2 == 0, 1.0, -1.0)  # of a whole column
    low, high = mesh[column.astype(np.int64)], mesh[column.astype(np.int64) + 1]
    dx, dy = x - column, y - row
    ex, ey = dx - 1, dy - 1
    r00, r01 = dx * dx + dy * dy, dx * dx + ey * ey
    r10, r11 = ex * ex + dy * dy, ex * ex + ey * ey
    f00, f01 = low / (r00 * np.sqrt(r00)), low / (r01 * np.sqrt(r01))
    f10, f11 = high / (r10 * np.sqrt(r10)), high / (r11 * np.sqrt(r11))
    ax = charge * (dx * (f00 + f01) + ex * (f10 + f11))
    ay = charge * (dy * (f00 + f10) + ey * (f01 + f11))
    to_x, to_y = x + (vx + 0.5 * ax), y + (vy + 0.5 * ay)
    return np.stack([wrapped(to_x, size), wrapped(to_y, size), vx + ax, vy + ay, charge], axis=1)


def wrapped(to: np.ndarray, size: int) -> np.ndarray:
    """Positions wrapped into the periodic grid; no move is longer than its size and a cell."""
    return to - size * (1.0 * (to >= size) + 1.0 * (to >= 2 * size) - 1.0 * (to < 0))


def reference(problem: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """All particles after ``steps`` steps: rows x, y, vx, vy, charge (n, 5), and ids (n,) int64."""
    rows = begun(problem, initial_cells(problem), problem.k, problem.m)
    ids = np.arange(1, len(rows) + 1)
    born = len(rows)
    for step in range(steps):
        for number, event in enumerate(problem.ordered_events):
            if event.step != step:
                continue
            if event.action == "inject":
                motion = problem.motions[number + 1]
                new = begun(problem, injected_cells(event), motion.k, motion.m)
                rows = np.concatenate([rows, new])
                ids = np.concatenate([ids, np.arange(born + 1, born + 1 + len(new))])
                born += len(new)
            else:
                left = ~is_removed(event, number, rows, ids)
                rows, ids = rows[left], ids[left]
        rows = push(rows, problem.size)
    return rows, ids


def reference_hash(problem: Any, steps: int) -> str:
    """The state hash of the reference."""
    return digest(hash_rows("particles", *reference(problem, steps)))
