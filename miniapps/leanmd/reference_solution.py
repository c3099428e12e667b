"""The reference solution of LeanMD: all pairs in NumPy, without cells, lists or blocks.

Displacement, force and rounding of each pair are computed as in the kernels, so the bits are the
same. Here displacements are moved to the nearest image, whereas the kernels add the box to a
ghost's position: both are exact.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from miniapps.contract import Piece
from miniapps.leanmd import plain
from miniapps.leanmd.plain import ENERGY_UNIT, FORCE_UNIT, fused
from miniapps.plain_hash import digest_of

AT_ONCE = 64  # atoms per group for which the reference computes forces


def exact_sum(values: np.ndarray) -> int:
    """The sum of floats, each rounded to an integer in `ENERGY_UNIT`."""
    return sum(int(value) for value in np.rint(values / ENERGY_UNIT))


def forces(problem: Any, position: np.ndarray) -> np.ndarray:
    """The force on each atom: (3, n) int64, in `FORCE_UNIT`; in groups that fit into cache."""
    groups = np.array_split(position, -(-position.shape[1] // AT_ONCE), axis=1)
    given = position, problem.box, problem.cutoff, problem.dtype
    found = [plain.forces(group, *given) for group in groups]
    return np.concatenate(found, axis=1)


def begun(problem: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial ids, positions and velocities."""
    ids, position, velocity = problem.beginning(np.zeros(3), problem.box)
    if problem.source is None and problem.draws_velocities:
        ids = np.arange(1, problem.atoms + 1)
        position = plain.sites(problem, ids)
    position = position % problem.box[:, None]
    if not problem.draws_velocities:
        return ids, position, velocity
    velocity = plain.drawn(ids, problem.seed)
    atoms = len(ids)
    mean = np.array([exact_sum(v) for v in velocity]) * ENERGY_UNIT / atoms
    velocity -= mean[:, None]
    vx, vy, vz = velocity
    v2 = exact_sum(fused(vz, vz, fused(vy, vy, fused(vx, vx, 0.0)))) * ENERGY_UNIT
    velocity *= math.sqrt(problem.temperature * (3 * atoms - 3) / v2)
    return ids, position, velocity


def reference(problem: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """All atoms after ``steps`` steps: rows x, y, z, vx, vy, vz (n, 6), and ids (n,) int64."""
    ids, position, velocity = begun(problem)
    dt, half = problem.dt, 0.5 * problem.dt * FORCE_UNIT
    magic = 1.5 * 2.0**52 * problem.quantum
    force = forces(problem, position)
    for _ in range(steps):
        velocity = fused(half, force.astype(float), velocity)
        position = position + (fused(dt, velocity, magic) - magic)
        force = forces(problem, position)
        velocity = fused(half, force.astype(float), velocity)
    position = position % problem.box[:, None]
    return np.ascontiguousarray(np.concatenate([position, velocity]).T), ids


@lru_cache(4)  # runs of one process often have the same problem
def reference_hash(problem: Any, steps: int) -> str:
    """The state hash of the reference."""
    rows, ids = reference(problem, steps)
    return digest_of([Piece("atoms", rows, None, rows.shape[:1], ids)])
