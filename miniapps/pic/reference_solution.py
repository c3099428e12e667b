"""The reference solution of PIC: one array of all particles, no mesh, no blocks.

Random numbers are drawn one after the other with Python's integers; particles are pushed with
NumPy. Sums and products have the same order as in the kernels, so the bits are the same. Of the
problem it uses only the parameters: expected numbers, charges, the order of events and their rules
are written here a second time, so a mistake in the problem's methods or in a kernel shows.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from miniapps.contract import Piece
from miniapps.plain_hash import digest_of, mixed

MASK = (1 << 64) - 1
SEED, MULTIPLIER, INCREMENT = 27182818285, 6364136223846793005, 1442695040888963407
HALF = (1 << 32) - 1


def expected(problem: Any) -> np.ndarray:
    """The expected number of particles in a cell of each column: (size,) float64."""
    n, size, numbers = problem.particles, problem.size, problem.distribution.numbers
    x = np.arange(size, dtype=np.float64)
    match problem.distribution.name:
        case "geometric":
            rho = numbers[0]
            if rho == 1:
                return np.full(size, n / size / size)
            return n * ((1 - rho) / (1 - rho**size)) / size * rho**x
        case "sinusoidal":
            return 2 * np.cos(x * (np.pi / size)) ** 2 * n / (size * size)
        case "linear":
            alpha, beta = numbers
            return (
                n * ((beta - alpha * (x / size)) / (beta * size - alpha * 0.5 * (size - 1))) / size
            )
    x0, x1, y0, y1 = kept(problem)
    return np.full(size, n / ((x1 - x0) * (y1 - y0)))


def kept(problem: Any) -> tuple[int, int, int, int]:
    """The cells x0, x1, y0, y1 (half open) outside which no particle begins."""
    if problem.distribution.name != "patch":
        return 0, problem.size, 0, problem.size
    return half_open(problem.distribution.numbers)


def half_open(patch: Any) -> tuple[int, int, int, int]:
    """Cells x0, x1, y0, y1 of a patch that is given by inclusive bounds."""
    xl, xr, yb, yt = map(int, patch)
    return xl, xr + 1, yb, yt + 1


def draw(mean: float, u0: int, u1: int) -> int:
    """A random count with the given mean, from two numbers of the generator."""
    if mean < 1:
        return int(u1 % HALF <= int(mean * HALF))
    a, b = float(u0 % MASK) / float(MASK), float(u1 % MASK) / float(MASK)
    z = math.sqrt(-2 * math.log(a)) * math.cos(2 * math.pi * b)
    return max(0, math.floor(0.15 * mean * z + mean + 0.5))


def initial_cells(problem: Any) -> np.ndarray:
    """The initial cell of each particle, in the order of their ids: (n, 2) int64."""
    size, state, means = problem.size, SEED, expected(problem)
    x0, x1, y0, y1 = kept(problem)
    cells = []
    for x in range(size):
        for y in range(size):
            first = (MULTIPLIER * state + INCREMENT) & MASK
            state = (MULTIPLIER * first + INCREMENT) & MASK
            count = draw(means[x], first, state)
            if x0 <= x < x1 and y0 <= y < y1:
                cells += [(x, y)] * count
    return np.array(cells, np.int64).reshape(-1, 2)


def charge(k: Any) -> Any:
    """The charge that moves a particle by 2k + 1 cells, half its acceleration, in each step.

    The corners are at distance r = sqrt(1/2); each pulls with 1/r^2, of which 1/2 / r is along x.
    """
    r = math.sqrt(0.5)
    return (2 * k + 1) / (2 * (0.5 / r) / r**2)


def begun(cells: np.ndarray, k: Any, m: Any) -> np.ndarray:
    """Particles at rest along x at the centres of cells: rows x, y, vx, vy, charge.

    ``k``, ``m``: of all particles, or (n,) of each.
    """
    sign = np.where(cells[:, 0] % 2 == 0, 1.0, -1.0)
    rows = np.zeros((len(cells), 5))
    rows[:, :2] = cells + 0.5
    rows[:, 3] = m
    rows[:, 4] = charge(k) * sign
    return rows


def ordered_events(problem: Any) -> list[Any]:
    """Events in the order of their steps; those of one step in the order given."""
    return sorted(problem.events, key=lambda event: event.step)


def motion_of(problem: Any, event: Any) -> tuple[int, int]:
    """The k and m of the particles of an injection."""
    return (
        problem.k if event.k is None else event.k,
        problem.m if event.m is None else event.m,
    )


def injected_cells(event: Any, numbers: Any) -> np.ndarray:
    """The cells of injected particles: (n, 2) int64, for their ``numbers`` (n,), from 0.

    They are spread evenly in the order of the patch's cells.
    """
    x0, x1, y0, y1 = half_open(event.patch)
    width, height = x1 - x0, y1 - y0
    places = [int(number) * width * height // event.particles for number in numbers]
    return np.array([(x0 + n // height, y0 + n % height) for n in places], np.int64).reshape(-1, 2)


def removes(event: Any, number: int, x: np.ndarray, y: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """For each particle in column ``x`` and row ``y``, whether the removal takes it: (n,) bool.

    ``number``: how many events come before the removal. It takes the particles in its patch whose
    hashed id is among the lowest FRACTION of all numbers of 64 bits.
    """
    x0, x1, y0, y1 = half_open(event.patch)
    below, seed = round(event.fraction * 2.0**64), zlib.crc32(b"removal") + number
    inside = (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)
    hashes = mixed(ids.astype(np.uint64) + np.uint64(seed))
    return inside & np.array([hashed < below for hashed in hashes.tolist()], bool)


def push(rows: np.ndarray, size: int) -> np.ndarray:
    """All particles after one more step."""
    x, y, vx, vy, charge = rows.T
    column, row = np.floor(x), np.floor(y)
    low = np.where(column % 2 == 0, 1.0, -1.0)  # the charges of the cell's left corners
    high = -low
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
    rows = begun(initial_cells(problem), problem.k, problem.m)
    ids = np.arange(1, len(rows) + 1)
    born = len(rows)
    for step in range(steps):
        for number, event in enumerate(ordered_events(problem)):
            if event.step != step:
                continue
            if event.action == "inject":
                cells = injected_cells(event, range(event.particles))
                rows = np.concatenate([rows, begun(cells, *motion_of(problem, event))])
                ids = np.concatenate([ids, np.arange(born + 1, born + 1 + len(cells))])
                born += len(cells)
            else:
                x, y = np.floor(rows[:, :2]).T
                left = ~removes(event, number, x, y, ids)
                rows, ids = rows[left], ids[left]
        rows = push(rows, problem.size)
    return rows, ids


def reference_hash(problem: Any, steps: int) -> str:
    """The state hash of the reference."""
    rows, ids = reference(problem, steps)
    return digest_of([Piece("particles", rows, None, (), ids)])
