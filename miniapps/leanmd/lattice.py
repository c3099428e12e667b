"""Initial positions of atoms: on a face-centred cubic lattice, or scattered over a grid's cells.

Any block can create its own atoms without the others, because an atom's number determines its site.
All lengths are in sigma. Positions are multiples of the problem's position quantum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miniapps import kernels

FCC = np.array([(0.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.0, 0.5, 0.5)])
JITTER = 0.05  # largest displacement along an axis, over the distance between sites

Sites = tuple[np.ndarray, np.ndarray]  # ids (n,) int64 from 1, positions (3, n) float64


def cells_between(
    box: np.ndarray, cells: Sequence[int], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The cells of a grid over the box that may overlap [low, high): (n, 3) int64, in C order."""
    width = box / np.array(cells)
    first = np.maximum(np.floor(low / width).astype(int) - 1, 0)
    last = np.minimum(np.ceil(high / width).astype(int) + 1, cells)
    ranges = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
    return np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 3)


def inside(ids: np.ndarray, sites: np.ndarray, low: np.ndarray, high: np.ndarray) -> Sites:
    """The atoms at sites (n, 3) that are in [low, high)."""
    kept = np.all((sites >= low) & (sites < high), axis=1)
    return ids[kept], np.ascontiguousarray(sites[kept].T)


def on_lattice(
    box: np.ndarray, cells: Sequence[int], low: np.ndarray, high: np.ndarray, quantum: float
) -> Sites:
    """The atoms in [low, high) of a lattice that fills the box, with four per cubic cell."""
    corners = cells_between(box, cells, low, high)
    numbers = np.ravel_multi_index(tuple(corners.T), tuple(cells))
    sites = (corners[:, None] + FCC).reshape(-1, 3) * box / np.array(cells)
    ids = (4 * numbers[:, None] + np.arange(1, 5)).reshape(-1)
    return inside(ids, np.rint(sites / quantum) * quantum, low, high)


def in_cells(
    box: np.ndarray,
    cells: Sequence[int],
    per_cell: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    quantum: float,
    seed: int,
) -> Sites:
    """``per_cell[x]`` atoms in each cell of layer x, close to the sites of a cubic lattice.

    An atom belongs to [low, high) if its site does.
    """
    width = box / np.array(cells)
    first_id = 1 + np.concatenate([[0], np.cumsum(per_cell)]) * cells[1] * cells[2]
    ids, sites, spacing = [], [], []
    for x, y, z in cells_between(box, cells, low, high):
        count = int(per_cell[x])
        a_side = int(np.ceil(round(count ** (1 / 3), 9)))
        picked = np.arange(count) * a_side**3 // max(count, 1)
        corners = np.stack(np.unravel_index(picked, (a_side,) * 3), axis=1)
        sites.append(((x, y, z) + (corners + 0.5) / max(a_side, 1)) * width)
        ids.append(first_id[x] + (y * cells[2] + z) * count + np.arange(count))
        spacing.append(np.full(count, width.min() / max(a_side, 1)))
    chosen, at = inside(np.concatenate(ids), np.concatenate(sites), low, high)
    apart = np.concatenate(spacing)[np.isin(np.concatenate(ids), chosen)]
    return chosen, np.rint((at + jitter(chosen, seed) * apart) / quantum) * quantum


def jitter(ids: np.ndarray, seed: int) -> np.ndarray:
    """Three random numbers from -`JITTER` to `JITTER` for each atom: (3, n)."""
    numbers = np.empty((3, len(ids)))
    kernels.load("leanmd", "cpu").draw(ids, seed, numbers)
    return 2 * JITTER * numbers
