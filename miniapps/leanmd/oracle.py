"""LeanMD once more, as plainly as it can be said: all pairs in NumPy, no cells, lists or blocks.

Every pair's displacement, force and rounding stands as in the kernels, so the bits are the same. A
difference of positions is brought to the nearest image, where kernels add the box to a ghost: both
are exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kernels
from kernels.lanes import fused
from kernels.state_hash import digest, hash_rows

FORCE_UNIT, VELOCITY_UNIT = 2.0**-36, 2.0**-40


def exact_sum(values: np.ndarray) -> int:
    """A sum of floats, each in whole units of velocity."""
    return sum(int(value) for value in np.rint(values / VELOCITY_UNIT))


def displacements(problem: Any, position: np.ndarray) -> np.ndarray:
    """From each atom's nearest images to each atom: (3, n, n)."""
    apart = position[:, :, None] - position[:, None, :]
    box = problem.box[:, None, None]
    return apart - box * np.rint(apart / box)


def forces(problem: Any, position: np.ndarray) -> np.ndarray:
    """The force on each atom: (3, n) int64, in `FORCE_UNIT`."""
    dx, dy, dz = displacements(problem, position)
    r2 = fused(dz, dz, fused(dy, dy, dx * dx))
    np.fill_diagonal(r2, np.inf)
    inverse2 = np.where(r2 < problem.cutoff * problem.cutoff, 1.0 / r2, 0.0)
    inverse6 = inverse2 * inverse2 * inverse2
    pull = fused(48.0, inverse6, -24.0) * (inverse6 * inverse2)
    magic = 1.5 * 2.0**52 * FORCE_UNIT
    rounded = (fused(pull, d, magic) - magic for d in (dx, dy, dz))
    return np.stack([np.rint(f / FORCE_UNIT).astype(np.int64).sum(axis=1) for f in rounded])


def energy(problem: Any, position: np.ndarray) -> float:
    """The potential energy of all pairs, in plain floating point."""
    r2 = (displacements(problem, position) ** 2).sum(axis=0)
    np.fill_diagonal(r2, np.inf)
    inverse6 = np.where(r2 < problem.cutoff**2, r2, np.inf) ** -3
    shift = problem.energy_at_cutoff * np.count_nonzero(inverse6) if problem.shift else 0.0
    return float((4 * inverse6 * (inverse6 - 1)).sum() - shift) / 2


def begun(problem: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, positions and velocities at the beginning."""
    ids, position, velocity = problem.beginning(np.zeros(3), problem.box)
    position = position % problem.box[:, None]
    if not problem.draws_velocities:
        return ids, position, velocity
    kernels.load("leanmd", "cpu").draw(ids, problem.seed, velocity)
    atoms = len(ids)
    mean = np.array([exact_sum(v) for v in velocity]) * VELOCITY_UNIT / atoms
    velocity -= mean[:, None]
    vx, vy, vz = velocity
    v2 = exact_sum(fused(vz, vz, fused(vy, vy, fused(vx, vx, 0.0)))) * VELOCITY_UNIT
    velocity *= math.sqrt(problem.temperature * (3 * atoms - 3) / v2)
    return ids, position, velocity


def reference(problem: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """All atoms after ``steps`` steps: rows x, y, z, vx, vy, vz (n, 6), and ids (n,) int64."""
    ids, position, velocity = begun(problem)
    dt, half = problem.dt, 0.5 * problem.dt * FORCE_UNIT
    magic = 1.5 * 2.0**52 * problem.grain
    force = forces(problem, position)
    for _ in range(steps):
        velocity = fused(half, force.astype(float), velocity)
        position = position + (fused(dt, velocity, magic) - magic)
        force = forces(problem, position)
        velocity = fused(half, force.astype(float), velocity)
    position = position % problem.box[:, None]
    return np.ascontiguousarray(np.concatenate([position, velocity]).T), ids


def reference_hash(problem: Any, steps: int) -> str:
    """The state hash of the reference."""
    return digest(hash_rows("atoms", *reference(problem, steps)))
