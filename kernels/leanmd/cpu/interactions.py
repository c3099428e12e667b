"""Lennard-Jones atoms on the CPU: neighbour lists, forces, energies, velocity Verlet.

In reduced units (sigma = epsilon = mass = 1) two atoms at distance r < cutoff have

    U(r) = 4 (1 / r^12 - 1 / r^6)        F = (48 / r^12 - 24 / r^6) / r^2  times  (x_i - x_j)

(Lennard-Jones 1924; Allen and Tildesley, Computer Simulation of Liquids, 2017). Positions are
multiples of a power of two such that differences of any two, and the box's edges added to them, are
exact in float64: what a pair feels does not depend on which image of an atom is looked at, nor from
which side. Each pair's force is rounded to a multiple of `FORCE_UNIT` and added as an integer, so a
sum has the same bits in every order, and the forces of all atoms add up to exactly zero.

Arrays: ``position`` (3, room) float64, the block's ``count`` atoms first, then ghosts, then `WIDTH`
places at `FAR`; ``velocity`` (3, room) float64; ``force`` (3, room) int64 in `FORCE_UNIT`. Atoms
lie in an order in which neighbours in space are neighbours in memory, and `WIDTH` in a row are a
*cluster*. A cluster has one list, of all atoms within reach of any of its own: ``neighbors``
from ``starts[k]`` to ``starts[k + 1]``. So a neighbour is read once and meets four atoms in one
register, without gathers and without a cluster of neighbours to fill up.

A list entry costs 4 B and three broadcast loads from cache; per atom pair 22 flops, a division
among them, and 3 integer additions. In a melt with lists that reach 2.8 a cluster's has 130 entries
where four lists of single atoms would have 76 each: 1.7 times as many pairs are computed.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, void

from devices.cpu.compiler import DISTINCT, njit
from devices.cpu.vectors import WIDTH, bits, broadcast, fma, lane, load, numbers, store, where
from kernels.leanmd.cpu.arrays import INDICES, INTS, SEEN, WHOLE
from kernels.leanmd.units import (
    CLOSE,
    CLOSE_UNIT,
    CLOSEST,
    ENERGY_MAGIC,
    ENERGY_ZERO,
    FAR,
    FORCE_MAGIC,
    FORCE_ZERO,
    VIRIAL_MAGIC,
    VIRIAL_ZERO,
)


@njit(inline="always")
def _inverse6(dx, dy, dz, there, cutoff2):
    """r^2, 1 / r^2 and 1 / r^6; the latter two zero beyond the cutoff and where no pair is."""
    r2 = where(there, fma(dz, dz, fma(dy, dy, dx * dx)), broadcast(FAR))
    inverse2 = where(r2 < cutoff2, broadcast(1.0) / r2, broadcast(0.0))
    return r2, inverse2, inverse2 * inverse2 * inverse2


@njit(inline="always")
def _add_forces(dx, dy, dz, there, cutoff2, sums):
    """Add what four atoms feel from another one to (fx, fy, fz, closest r^2 so far)."""
    fx, fy, fz, closest = sums
    r2, inverse2, inverse6 = _inverse6(dx, dy, dz, there, cutoff2)
    pull = fma(broadcast(48.0), inverse6, broadcast(-24.0)) * (inverse6 * inverse2)
    magic = broadcast(FORCE_MAGIC)
    return (
        fx + bits(fma(pull, dx, magic)),
        fy + bits(fma(pull, dy, magic)),
        fz + bits(fma(pull, dz, magic)),
        where(r2 < closest, r2, closest),
    )


@njit
def _closest(position, others, clusters, starts, neighbors, own):
    """The closest pair of some clusters, as an error flag; for the end of a run, so not fast."""
    closest = int64((1 << 63) - 1)
    for k in clusters:
        begin = starts[k] - WIDTH * own  # atoms of the cluster, then what is listed
        for n in range(begin, starts[k + 1]):
            j = int64(neighbors[n]) if n >= starts[k] else int64(k) * WIDTH + n - begin
            for i in range(int64(k) * WIDTH, int64(k + 1) * WIDTH):
                dx = position[0, i] - others[0, j]
                dy = position[1, i] - others[1, j]
                dz = position[2, i] - others[2, j]
                r2 = fma(dz, dz, fma(dy, dy, dx * dx))
                if r2 < CLOSEST * CLOSEST and not (own and i == j):
                    closest = min(closest, (int64(r2 / CLOSE_UNIT) << 32) + i)
    return closest


@njit(
    void(SEEN, SEEN, INDICES, int64, int64, INTS, INDICES, boolean, float64, WHOLE, INTS),
    cache=True, error_model="numpy", **DISTINCT,
)  # fmt: skip
def forces(
    position, others, clusters, first_cluster, end_cluster, starts, neighbors, own, cutoff, force,
    flags,
):  # fmt: skip
    """Set the forces on the atoms of some ``clusters``, and say if a pair is too close.

    ``others`` are the positions that the lists count, those of the block itself or of another;
    ``own`` says whether the atoms of a cluster meet each other too.
    """
    x, y, z = position[0], position[1], position[2]
    ox, oy, oz = others[0], others[1], others[2]
    cutoff2, always = broadcast(cutoff * cutoff), numbers() != broadcast(-1)
    closest = broadcast(FAR)
    for c in range(np.uint64(first_cluster), np.uint64(end_cluster)):
        k = clusters[c]
        first = np.uint64(k) * np.uint64(WIDTH)
        xi, yi, zi = load(x, first), load(y, first), load(z, first)
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + 1])
        zero = broadcast(-(np.int64(end - begin) + WIDTH * np.int64(own)) * FORCE_ZERO)
        sums = zero, zero, zero, closest
        for n in range(begin, end):
            j = neighbors[n]
            dx, dy, dz = xi - broadcast(ox[j]), yi - broadcast(oy[j]), zi - broadcast(oz[j])
            sums = _add_forces(dx, dy, dz, always, cutoff2, sums)
        for member in range(WIDTH * own):
            j = first + np.uint64(member)
            dx, dy, dz = xi - broadcast(x[j]), yi - broadcast(y[j]), zi - broadcast(z[j])
            sums = _add_forces(dx, dy, dz, numbers() != broadcast(member), cutoff2, sums)
        fx, fy, fz, closest = sums
        store(force[0], first, fx)
        store(force[1], first, fy)
        store(force[2], first, fz)
    nearest = FAR
    for number in range(WIDTH):
        nearest = min(nearest, lane(closest, number))
    if nearest < CLOSEST * CLOSEST:
        those = clusters[first_cluster:end_cluster]
        pair = _closest(position, others, those, starts, neighbors, own)
        flags[CLOSE] = min(flags[CLOSE], pair)


@njit(inline="always")
def _add_wide(totals, place, value):
    """Add an integer to a sum that is kept as two, so that it cannot overflow."""
    totals[place] += value >> 32
    totals[place + 1] += value & 0xFFFFFFFF


@njit(inline="always")
def _add_energies(dx, dy, dz, there, cutoff2, sums):
    """Add what four atoms share with another one to (energy, virial, pairs)."""
    energy, virial, pairs = sums
    r2, _, inverse6 = _inverse6(dx, dy, dz, there, cutoff2)
    u = fma(broadcast(4.0), inverse6, broadcast(-4.0)) * inverse6
    w = fma(broadcast(48.0), inverse6, broadcast(-24.0)) * inverse6
    return (
        energy + bits(u + broadcast(ENERGY_MAGIC)),
        virial + bits(w + broadcast(VIRIAL_MAGIC)),
        pairs + where(r2 < cutoff2, broadcast(1), broadcast(0)),
    )


@njit(
    void(int64, SEEN, SEEN, INTS, INDICES, boolean, float64, INTS),
    cache=True, error_model="numpy", **DISTINCT,
)  # fmt: skip
def energies(count, position, others, starts, neighbors, own, cutoff, totals):
    """Add up over all pairs (i, j) and (j, i): energy, virial (force times distance), pairs.

    ``totals`` (6,): each sum as two integers, 2^32 times the first plus the second; energies in
    `ENERGY_UNIT`, virials in `VIRIAL_UNIT`.
    """
    x, y, z = position[0], position[1], position[2]
    ox, oy, oz = others[0], others[1], others[2]
    cutoff2, always = broadcast(cutoff * cutoff), numbers() != broadcast(-1)
    for k in range((count + WIDTH - 1) // WIDTH):
        first = np.uint64(k) * np.uint64(WIDTH)
        xi, yi, zi = load(x, first), load(y, first), load(z, first)
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + 1])
        terms = np.int64(end - begin) + WIDTH * np.int64(own)
        sums = broadcast(-terms * ENERGY_ZERO), broadcast(-terms * VIRIAL_ZERO), broadcast(0)
        for n in range(begin, end):
            j = neighbors[n]
            dx, dy, dz = xi - broadcast(ox[j]), yi - broadcast(oy[j]), zi - broadcast(oz[j])
            sums = _add_energies(dx, dy, dz, always, cutoff2, sums)
        for member in range(WIDTH * own):
            j = first + np.uint64(member)
            dx, dy, dz = xi - broadcast(x[j]), yi - broadcast(y[j]), zi - broadcast(z[j])
            sums = _add_energies(dx, dy, dz, numbers() != broadcast(member), cutoff2, sums)
        energy, virial, pairs = sums
        for number in range(min(WIDTH, count - k * WIDTH)):
            _add_wide(totals, 0, lane(energy, number))
            _add_wide(totals, 2, lane(virial, number))
            _add_wide(totals, 4, lane(pairs, number))
