"""Lennard-Jones atoms on the CPU; `kernels.leanmd.interface` gives formula, units and arrays.

An entry of a neighbour list is loaded once and meets the four atoms of its cluster in one vector
register, without gathers and without filling up clusters of neighbours. It costs 4 B and three
broadcast loads from cache; an atom pair costs 22 flops, a division among them, and 3 integer
additions. In a melt with lists that reach 2.8, a cluster's list has 130 entries where four lists of
single atoms would have 76 each: 1.7 times as many pairs are computed.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, void

from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.devices.cpu.vectors import (
    WIDTH,
    bits,
    broadcast,
    fma,
    lane,
    load,
    numbers,
    store,
    where,
)
from miniapps.kernels.leanmd.cpu.arrays import INDICES, INTS, SEEN, WHOLE
from miniapps.kernels.leanmd.units import (
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
def _inverse2(dx, dy, dz, there, cutoff2):
    """Return r^2 and 1 / r^2, which is 0 beyond the cutoff and where not ``there``."""
    r2 = where(there, fma(dz, dz, fma(dy, dy, dx * dx)), broadcast(FAR))
    return r2, where(r2 < cutoff2, broadcast(1.0) / r2, broadcast(0.0))


@njit(inline="always")
def _add_forces(pairs, sums):
    """Add the forces of one atom on four, begun before, to (fx, fy, fz)."""
    dx, dy, dz, inverse2 = pairs
    fx, fy, fz = sums
    inverse6 = inverse2 * inverse2 * inverse2
    pull = fma(broadcast(48.0), inverse6, broadcast(-24.0)) * (inverse6 * inverse2)
    magic = broadcast(FORCE_MAGIC)
    return (
        fx + bits(fma(pull, dx, magic)),
        fy + bits(fma(pull, dy, magic)),
        fz + bits(fma(pull, dz, magic)),
    )


@njit(inline="always")
def pipelined(add, dx, dy, dz, there, cutoff2, state):
    """Begin the pairs of one atom with four, and ``add`` the forces of those begun two calls ago.

    By then their division has ended. Operations that wait for one fill the scheduler of a CPU, so
    that it sees the next divisions too late. ``state``: sums of forces, smallest r^2 so far, and
    what the last two calls have begun.
    """
    sums, closest, before_last, last = state
    r2, inverse2 = _inverse2(dx, dy, dz, there, cutoff2)
    closest = where(r2 < closest, r2, closest)
    return add(before_last, sums), closest, last, (dx, dy, dz, inverse2)


@njit
def closest_pair(position, others, clusters, starts, neighbors, own):
    """Return the closest pair of some clusters as an error flag; slow, for a run that fails."""
    closest = int64((1 << 63) - 1)
    for k in clusters:
        begin = starts[k] - WIDTH * own  # atoms of the cluster, then its list
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
    """Compute each entry of a list for four atoms at once."""
    x, y, z = position[0], position[1], position[2]
    ox, oy, oz = others[0], others[1], others[2]
    cutoff2, always = broadcast(cutoff * cutoff), numbers() != broadcast(-1)
    closest, nothing = broadcast(FAR), broadcast(0.0)
    for c in range(np.uint64(first_cluster), np.uint64(end_cluster)):
        k = clusters[c]
        first = np.uint64(k) * np.uint64(WIDTH)
        xi, yi, zi = load(x, first), load(y, first), load(z, first)
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + 1])
        terms = np.int64(end - begin) + WIDTH * np.int64(own) + 2  # and twice no pairs
        start, no_pairs = broadcast(-terms * FORCE_ZERO), (nothing, nothing, nothing, nothing)
        state = (start, start, start), closest, no_pairs, no_pairs
        for n in range(begin, end):
            j = neighbors[n]
            dx, dy, dz = xi - broadcast(ox[j]), yi - broadcast(oy[j]), zi - broadcast(oz[j])
            state = pipelined(_add_forces, dx, dy, dz, always, cutoff2, state)
        for member in range(WIDTH * own):
            j = first + np.uint64(member)
            dx, dy, dz = xi - broadcast(x[j]), yi - broadcast(y[j]), zi - broadcast(z[j])
            others_only = numbers() != broadcast(member)
            state = pipelined(_add_forces, dx, dy, dz, others_only, cutoff2, state)
        sums, closest, before_last, last = state
        fx, fy, fz = _add_forces(last, _add_forces(before_last, sums))
        store(force[0], first, fx)
        store(force[1], first, fy)
        store(force[2], first, fz)
    nearest = FAR
    for number in range(WIDTH):
        nearest = min(nearest, lane(closest, number))
    if nearest < CLOSEST * CLOSEST:
        those = clusters[first_cluster:end_cluster]
        pair = closest_pair(position, others, those, starts, neighbors, own)
        flags[CLOSE] = min(flags[CLOSE], pair)


@njit(inline="always")
def add_wide(totals, place, value):
    """Add an integer to a sum that is stored as two, so that it cannot overflow."""
    totals[place] += value >> 32
    totals[place + 1] += value & 0xFFFFFFFF


@njit(inline="always")
def _add_energies(dx, dy, dz, there, cutoff2, sums):
    """Add the pairs of one atom with four to (energy, virial, pairs)."""
    energy, virial, pairs = sums
    r2, inverse2 = _inverse2(dx, dy, dz, there, cutoff2)
    inverse6 = inverse2 * inverse2 * inverse2
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
    """Compute each entry of a list for four atoms at once."""
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
            add_wide(totals, 0, lane(energy, number))
            add_wide(totals, 2, lane(virial, number))
            add_wide(totals, 4, lane(pairs, number))
