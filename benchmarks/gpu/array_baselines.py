"""The apps' hot loops as expressions of whole arrays: of NumPy, or of CuPy on a GPU.

Functions take the array library as ``xp``, and its arrays, so tests check with NumPy the code that
a GPU runs with CuPy.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

SHIFTS = {  # offsets of the stencil's cells, in the order of the formula
    2: ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)),
    3: ((0, 0, 0), (-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)),
}


def sweep_by_arrays(old: Any, new: Any) -> None:
    """Sweep all cells of ``old`` with neighbours on every side into ``new``; 2 or 3 axes."""
    shifts = SHIFTS[old.ndim]
    own, *around = [
        tuple(slice(1 + by, n - 1 + by) for n, by in zip(old.shape, shift, strict=True))
        for shift in shifts
    ]
    total = old[own]
    for view in around:
        total = total + old[view]
    new[own] = (1.0 / len(shifts)) * total


def push_by_arrays(xp: Any, mesh: Any, columns: tuple[Any, Any, Any, Any, Any], size: int) -> None:
    """Move all particles one step, in place; ``columns``: x, y, vx, vy, charge, (n,) each.

    ``mesh``: the charges at the corners of cells, (size + 1, size + 1).
    """
    x, y, vx, vy, charge = columns
    column, row = x.astype(xp.int64), y.astype(xp.int64)
    dx, dy = x - column, y - row
    ax, ay = xp.zeros_like(x), xp.zeros_like(y)
    for right, up in itertools.product((0, 1), repeat=2):
        along, across = dx - right, dy - up
        pull = charge * mesh[column + right, row + up] / (along * along + across * across) ** 1.5
        ax += pull * along
        ay += pull * across
    x[:] = (x + vx + 0.5 * ax) % size
    y[:] = (y + vy + 0.5 * ay) % size
    vx += ax
    vy += ay


def forces_by_arrays(xp: Any, position: Any, box: Any, cutoff: float) -> Any:
    """The force on each atom, (3, n) float64, with whole arrays of NumPy or CuPy.

    ``xp``: that library; ``position`` (3, n), ``box`` (3,): its arrays. Atoms are in a table with a
    row for each cell, at least as wide as the cutoff; rows are padded to the same length. Each row
    is combined with those of the 27 cells around it.
    """
    grid = tuple(int(cells) for cells in box // cutoff)
    if min(grid) < 3:
        raise ValueError(f"{grid} cells: a cell would meet the same one twice")
    places = xp.floor(position * xp.asarray(grid)[:, None] / box[:, None]).astype(xp.int64)
    cells = xp.ravel_multi_index(tuple(places), grid, mode="wrap")
    order = xp.argsort(cells)
    counts = xp.bincount(cells, minlength=int(np.prod(grid)))
    column = xp.arange(len(order)) - (xp.cumsum(counts) - counts)[cells[order]]
    table = xp.full((3, len(counts), int(counts.max())), xp.nan)
    table[:, cells[order], column] = position[:, order]
    mine, found = table[:, :, :, None], xp.zeros_like(table)
    side = box[:, None, None, None]
    for step in itertools.product((-1, 0, 1), repeat=3):
        around = xp.roll(table.reshape(3, *grid, -1), step, (1, 2, 3)).reshape(table.shape)
        apart = mine - around[:, :, None, :]
        apart -= side * xp.rint(apart / side)
        r2 = (apart * apart).sum(0)
        near = (r2 > 0) & (r2 < cutoff * cutoff)  # no atom is near an empty entry
        inverse2 = 1.0 / xp.where(near, r2, xp.inf)
        inverse6 = inverse2**3
        pull = (48.0 * inverse6 - 24.0) * inverse6 * inverse2
        found += (pull * xp.where(near, apart, 0.0)).sum(3)
    forces = xp.empty_like(position)
    forces[:, order] = found[:, cells[order], column]
    return forces
