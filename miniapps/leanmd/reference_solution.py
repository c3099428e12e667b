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
from kernels.leanmd.units import ENERGY_UNIT, FORCE_UNIT
from kernels.state_hash import digest, hash_rows

SAMPLE = 4  # atoms of a block, about
AT_ONCE = 64  # atoms, of which the reference finds the forces


def fused(a: Any, b: Any, c: Any) -> Any:
    """The product a b plus c of arrays, rounded once."""
    from devices.cpu.fused import fused  # which imports Numba

    return fused(a, b, c)


def exact_sum(values: np.ndarray) -> int:
    """A sum of floats, each in whole units of velocity."""
    return sum(int(value) for value in np.rint(values / ENERGY_UNIT))


def displacements(problem: Any, some: np.ndarray, position: np.ndarray) -> np.ndarray:
    """From the nearest image of each of n atoms to each of m: (3, m, n)."""
    apart = some[:, :, None] - position[:, None, :]
    box = problem.box[:, None, None]
    return apart - box * np.rint(apart / box)


def forces(problem: Any, position: np.ndarray) -> np.ndarray:
    """The force on each atom: (3, n) int64, in `FORCE_UNIT`; a few at a time, to stay in cache."""
    groups = np.array_split(position, -(-position.shape[1] // AT_ONCE), axis=1)
    apart = (displacements(problem, group, position) for group in groups)
    return np.concatenate([pair_forces(d, problem.cutoff).sum(axis=2) for d in apart], axis=1)


def pair_forces(apart: np.ndarray, cutoff: float) -> np.ndarray:
    """What atoms feel from others that they are ``apart`` from, nothing from where that is zero.

    ``apart`` (3, ...) float64; returns as many int64, in `FORCE_UNIT`.
    """
    dx, dy, dz = apart
    r2 = fused(dz, dz, fused(dy, dy, dx * dx))
    r2 = np.where(r2 > 0, r2, np.inf)
    inverse2 = np.where(r2 < cutoff * cutoff, 1.0 / r2, 0.0)
    inverse6 = inverse2 * inverse2 * inverse2
    pull = fused(48.0, inverse6, -24.0) * (inverse6 * inverse2)
    magic = 1.5 * 2.0**52 * FORCE_UNIT
    return np.stack([np.rint((fused(pull, d, magic) - magic) / FORCE_UNIT) for d in apart]).astype(
        np.int64
    )


def sample(count: int) -> np.ndarray:
    """Which of so many atoms are looked at by `wrong_forces`: the first, and some more."""
    return np.arange(0, count, max(1, count // SAMPLE))


def wrong_forces(
    position: np.ndarray, others: np.ndarray, force: np.ndarray, cutoff: float, error: float
) -> int:
    """How many of some atoms feel something else than the ``others`` that are really near them.

    ``position`` (3, n), ``others`` (3, m) and ``force`` (3, n) int64. For an ``error`` of 0 all
    bits must be the same; else it is allowed over the repulsions and attractions of all pairs.
    """
    wrong = 0
    for at, said in zip(position.T[:, :, np.newaxis], force.T, strict=True):
        near = others[:, np.all(np.abs(others - at) < cutoff, axis=0)]
        off = np.abs(pair_forces(at - near, cutoff).sum(axis=1) - said).max()
        wrong += bool(off > (error and error * strength(at - near, cutoff)))
    return wrong


def strength(apart: np.ndarray, cutoff: float) -> float:
    """The sum of the repulsions and attractions that make up `pair_forces`, in `FORCE_UNIT`."""
    r2 = (apart**2).sum(axis=0)
    r2 = r2[(r2 > 0) & (r2 < cutoff * cutoff)]
    return float(((48 * r2**-6 + 24 * r2**-3) / np.sqrt(r2)).sum() / FORCE_UNIT)


def begun(problem: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, positions and velocities at the beginning."""
    ids, position, velocity = problem.beginning(np.zeros(3), problem.box)
    position = position % problem.box[:, None]
    if not problem.draws_velocities:
        return ids, position, velocity
    kernels.load("leanmd", "cpu").draw(ids, problem.seed, velocity)
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


def reference_hash(problem: Any, steps: int) -> str:
    """The state hash of the reference."""
    return digest(hash_rows("atoms", *reference(problem, steps)))
