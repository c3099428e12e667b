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

import kernels
from kernels.leanmd.units import ENERGY_UNIT, FORCE_UNIT
from kernels.state_hash import digest, hash_rows

SAMPLE = 4  # atoms per block, approximately
AT_ONCE = 64  # atoms per group for which the reference computes forces


def fused(a: Any, b: Any, c: Any) -> Any:
    """The product a b plus c of arrays, rounded once."""
    from devices.cpu.fused import fused  # imported late, as it imports Numba

    return fused(a, b, c)


def exact_sum(values: np.ndarray) -> int:
    """The sum of floats, each rounded to an integer in `ENERGY_UNIT`."""
    return sum(int(value) for value in np.rint(values / ENERGY_UNIT))


def displacements(problem: Any, some: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Displacements to each of m atoms from the nearest image of each of n: (3, m, n)."""
    apart = some[:, :, None] - position[:, None, :]
    box = problem.box[:, None, None]
    return apart - box * np.rint(apart / box)


def forces(problem: Any, position: np.ndarray) -> np.ndarray:
    """The force on each atom: (3, n) int64, in `FORCE_UNIT`; in groups that fit into cache."""
    groups = np.array_split(position, -(-position.shape[1] // AT_ONCE), axis=1)
    apart = (displacements(problem, group, position) for group in groups)
    return np.concatenate([pair_forces(d, problem.cutoff).sum(axis=2) for d in apart], axis=1)


def pair_forces(apart: np.ndarray, cutoff: float) -> np.ndarray:
    """The forces between atoms at displacements ``apart``; zero for a displacement of zero.

    ``apart`` (3, ...) float64; returns int64 of the same shape, in `FORCE_UNIT`.
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
    """The numbers of the atoms that `wrong_forces` checks: the first of ``count`` and some more."""
    return np.arange(0, count, max(1, count // SAMPLE))


def wrong_forces(
    position: np.ndarray, others: np.ndarray, force: np.ndarray, cutoff: float, error: float
) -> int:
    """The number of atoms whose force is not that of the ``others`` within the cutoff.

    ``position`` (3, n), ``others`` (3, m) and ``force`` (3, n) int64. If ``error`` is 0, all bits
    must agree; else it is the allowed error over the repulsions and attractions of all pairs.
    """
    wrong = 0
    for at, said in zip(position.T[:, :, np.newaxis], force.T, strict=True):
        near = others[:, np.all(np.abs(others - at) < cutoff, axis=0)]
        off = np.abs(pair_forces(at - near, cutoff).sum(axis=1) - said).max()
        wrong += bool(off > (error and error * strength(at - near, cutoff)))
    return wrong


def strength(apart: np.ndarray, cutoff: float) -> float:
    """The sum of the repulsions and attractions in `pair_forces`, in `FORCE_UNIT`."""
    r2 = (apart**2).sum(axis=0)
    r2 = r2[(r2 > 0) & (r2 < cutoff * cutoff)]
    return float(((48 * r2**-6 + 24 * r2**-3) / np.sqrt(r2)).sum() / FORCE_UNIT)


def begun(problem: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial ids, positions and velocities."""
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


@lru_cache(4)  # runs of one process often have the same problem
def reference_hash(problem: Any, steps: int) -> str:
    """The state hash of the reference."""
    return digest(hash_rows("atoms", *reference(problem, steps)))
