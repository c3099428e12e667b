"""Lennard-Jones atoms on the GPU, with the bits of the CPU; the formula is in the interface.

Every term of a pair is computed by the same operations as on the CPU, rounded alike: `mul` keeps a
product apart where the compiler would fuse it with a sum, `fma` fuses where the CPU does. The
terms of pairs are added as integers, so results depend neither on the order of lists nor on that of
atomic additions.

A thread has one atom, and `WIDTH` threads, a quarter of a warp, share the list of their cluster.
With lists of single atoms the 32 threads of a warp would load from 32 places at once, which would
cost four times as much in L1 as the arithmetic; here they load from four, and most loads are
broadcasts. Wider clusters load less, but compute more pairs that are farther apart than the cutoff:
in a melt 1.7 times as many as lists of atoms hold for clusters of 4, 2.2 times for 8, about 4 times
for 32.

Cost of `forces`: a pair takes 21 operations in float64, most of them of a division, and 44
instructions in all, or 38 in float32. At 180 pairs per atom of a melt an H200 needs 0.25 ns per
atom to issue them; docs/gpu-kernels.md has the floors. New lists are made every 10 to 20 steps, and
then cost about as much as a step.

No kernel has a barrier or uses warp-level operations. In a scan a thread adds up `CHUNK` numbers
one after another; scans are a small part of the cost of new lists.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import Kernel, bits, cuda, fma, inlined, kernel, mul
from miniapps.devices.cuda.memory import empty
from miniapps.devices.cuda.primitives import FEW_THREADS, THREADS, launch
from miniapps.devices.cuda.unbranched import reciprocal
from miniapps.kernels.leanmd.gpu.single import (
    SINGLE_FAR,
    add_in_quanta,
    add_in_single,
    cut_in,
    record_of,
    single_in_force_unit,
)
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

WIDTH = 8  # atoms of a cluster, and threads that build its list
MANY = 2640  # thread blocks: four times as many as an H200 runs at once
SUMMING = 1 << 14  # threads that add up over all atoms, at most
CLOSEST2 = CLOSEST * CLOSEST


@inlined
def distance2(dx, dy, dz):  # type: ignore[no-untyped-def]
    """Return r^2."""
    return fma(dz, dz, fma(dy, dy, mul(dx, dx)))


@inlined
def _inverses(r2, cutoff2):  # type: ignore[no-untyped-def]
    """Return 1 / r^2 and 1 / r^6, both zero beyond the cutoff."""
    inverse2 = reciprocal(r2) if r2 < cutoff2 else 0.0
    return inverse2, inverse2 * inverse2 * inverse2


@inlined
def _pull(r2, cutoff2):  # type: ignore[no-untyped-def]
    """Return the force of a pair over its distance, given r^2."""
    inverse2, inverse6 = _inverses(r2, cutoff2)
    return fma(48.0, inverse6, -24.0) * (inverse6 * inverse2)


@inlined
def error_flag(closest, i):  # type: ignore[no-untyped-def]
    """Return the error flag `CLOSE` of an atom, given its smallest r^2."""
    return (np.int64(closest / CLOSE_UNIT) << 32) + np.int64(i)


@inlined
def _add(dx, dy, dz, there, cutoff2, fx, fy, fz, closest):  # type: ignore[no-untyped-def]
    """Add the force of one pair to (fx, fy, fz, smallest r^2 so far).

    `FORCE_ZERO` has no bits in its lower half, so subtracting it costs no instruction.
    """
    r2 = distance2(dx, dy, dz) if there else FAR
    pull = _pull(r2, cutoff2)
    return (
        fx + (bits(fma(pull, dx, FORCE_MAGIC)) - FORCE_ZERO),
        fy + (bits(fma(pull, dy, FORCE_MAGIC)) - FORCE_ZERO),
        fz + (bits(fma(pull, dz, FORCE_MAGIC)) - FORCE_ZERO),
        r2 if r2 < closest else closest,
    )


@inlined
def _position_of(positions, i):  # type: ignore[no-untyped-def]
    """Return the position of an atom."""
    return positions[0, i], positions[1, i], positions[2, i]


@inlined
def _in_force_unit(sum_of_terms):  # type: ignore[no-untyped-def]
    """Return a sum of terms of `_add` as it is."""
    return sum_of_terms


def _force_by(locate: Any, add: Any, in_force_unit: Any, far: Any) -> Any:
    """Return a function for the force on an atom, given those for a position, a pair and the sum.

    ``far`` is `FAR` in the precision in which a pair is computed. ``cut``, an argument of the
    function, is what ``add`` needs to know of the cutoff.
    """

    @inlined
    def force_on(here, others, neighbors, n, last, first, member, own, cut):  # type: ignore[no-untyped-def]
        """Return the force on an atom and the smallest r^2.

        The force is that of its list and, if ``own``, of its cluster.
        """
        xi, yi, zi = here
        fx = fy = fz = np.int64(0)
        closest = far
        while n < last:  # numba's range would need a second counter
            x, y, z = locate(others, np.uint64(neighbors[n]))
            fx, fy, fz, closest = add(xi - x, yi - y, zi - z, True, cut, fx, fy, fz, closest)
            n += np.uint64(1)
        for m in range(np.uint64(WIDTH if own else 0)):
            x, y, z = locate(others, first + np.uint64(m))
            there = m != member
            fx, fy, fz, closest = add(xi - x, yi - y, zi - z, there, cut, fx, fy, fz, closest)
        return in_force_unit(fx), in_force_unit(fy), in_force_unit(fz), np.float64(closest)

    return force_on


def _forces_by(force_on: Any, locate: Any, positions: str, cut: str, registers: int) -> Kernel:
    """Return the kernel of `forces`, given the functions for the force on an atom and its position.

    ``positions``, ``cut``: the types of the arguments. ``registers``: as many as a thread may use;
    a multiprocessor has 65536, and holds as many thread blocks as these suffice for.
    """

    @kernel(
        f"void(uint32, uint32, {positions}, {positions}, uint32[::1], int64[::1],"
        f"uint32[::1], boolean, {cut}, int64[:, ::1], int64[::1])",
        max_registers=registers,
    )
    def by_cluster(  # type: ignore[no-untyped-def]
        first, end, position, others, clusters, starts, neighbors, own, cut, force, flags
    ):
        thread = np.uint32(cuda.grid(1))
        place = np.uint64(first) + np.uint64(thread // np.uint32(WIDTH))
        if place >= end:
            return
        k = np.uint64(clusters[place])
        member = np.uint64(thread % np.uint32(WIDTH))
        start = k * np.uint64(WIDTH)
        i = start + member
        fx, fy, fz, closest = force_on(
            locate(position, i), others, neighbors,
            np.uint64(starts[k]), np.uint64(starts[k + np.uint64(1)]), start, member, own, cut,
        )  # fmt: skip
        force[0, i], force[1, i], force[2, i] = fx, fy, fz
        if closest < CLOSEST2:
            cuda.atomic.min(flags, CLOSE, error_flag(closest, i))

    return by_cluster


force_on_atom = _force_by(_position_of, _add, _in_force_unit, FAR)
force_on_atom_in_single = _force_by(_position_of, add_in_single, single_in_force_unit, SINGLE_FAR)
_force_on_record = _force_by(record_of, add_in_quanta, single_in_force_unit, SINGLE_FAR)
_forces = _forces_by(force_on_atom, _position_of, "float64[:, ::1]", "float64", 48)
_forces_in_single = _forces_by(
    _force_on_record, record_of, "int32[::1]", "UniTuple(float32, 3)", 40
)


def _launch(clusters: int, stream: Any) -> tuple[int, int, Any]:
    """Return how to launch one thread per atom of some clusters.

    Neighbours in a large thread block share what L1 holds. Few clusters are better spread evenly.
    """
    threads = clusters * WIDTH
    return launch(threads, stream, THREADS if threads >= MANY * THREADS else FEW_THREADS)


def forces(
    position: Array, others: Array, clusters: Array, first_cluster: int, end_cluster: int,
    starts: Array, neighbors: Array, own: bool, cutoff: float, force: Array, flags: Array,
) -> None:  # fmt: skip
    """Launch one thread per atom."""
    if first_cluster < end_cluster:
        _forces[_launch(end_cluster - first_cluster, force.stream)](
            first_cluster, end_cluster, position, others, clusters, starts, neighbors, own,
            cutoff * cutoff, force, flags,
        )  # fmt: skip


def forces_in_single(
    position: Any, others: Any, clusters: Array, first_cluster: int, end_cluster: int,
    starts: Array, neighbors: Array, own: bool, cutoff: float, force: Array, flags: Array,
) -> None:  # fmt: skip
    """Launch one thread per atom, which computes in float32; positions are `Quanta`."""
    if first_cluster < end_cluster:
        _forces_in_single[_launch(end_cluster - first_cluster, force.stream)](
            first_cluster, end_cluster, position.records, others.records, clusters, starts,
            neighbors, own, cut_in(position.quantum, cutoff * cutoff), force, flags,
        )  # fmt: skip


@inlined
def _add_energies(dx, dy, dz, there, cutoff2, energy, virial, pairs):  # type: ignore[no-untyped-def]
    """Add one pair to the (energy, virial, pairs) of an atom."""
    r2 = distance2(dx, dy, dz) if there else FAR
    _, inverse6 = _inverses(r2, cutoff2)
    u = mul(fma(4.0, inverse6, -4.0), inverse6)
    w = mul(fma(48.0, inverse6, -24.0), inverse6)
    return (
        energy + (bits(u + ENERGY_MAGIC) - ENERGY_ZERO),
        virial + (bits(w + VIRIAL_MAGIC) - VIRIAL_ZERO),
        pairs + (1 if r2 < cutoff2 else 0),
    )


@kernel(
    "void(uint32, float64[:, ::1], float64[:, ::1], int64[::1], uint32[::1], boolean, float64,"
    "int64[:, ::1])"
)
def _energies(count, position, others, starts, neighbors, own, cutoff2, shares):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i >= count:
        return
    k = i // np.uint64(WIDTH)
    start = k * np.uint64(WIDTH)
    x, y, z = others[0], others[1], others[2]
    xi, yi, zi = position[0, i], position[1, i], position[2, i]
    energy = virial = pairs = np.int64(0)
    for n in range(np.uint64(starts[k]), np.uint64(starts[k + np.uint64(1)])):
        j = np.uint64(neighbors[n])
        dx, dy, dz = xi - x[j], yi - y[j], zi - z[j]
        energy, virial, pairs = _add_energies(dx, dy, dz, True, cutoff2, energy, virial, pairs)
    for m in range(np.uint64(WIDTH if own else 0)):
        j = start + np.uint64(m)
        dx, dy, dz = xi - x[j], yi - y[j], zi - z[j]
        energy, virial, pairs = _add_energies(dx, dy, dz, j != i, cutoff2, energy, virial, pairs)
    shares[0, i], shares[1, i], shares[2, i] = energy, virial, pairs


@kernel("void(uint32, int64[:, ::1], int64[::1])")
def _add_shares(count, shares, totals):  # type: ignore[no-untyped-def]
    """Add up the three rows, each sum as two integers, so that it cannot overflow."""
    for row in range(3):
        high = low = np.int64(0)
        for i in range(cuda.grid(1), np.int64(count), cuda.gridsize(1)):
            high += shares[row, i] >> 32
            low += shares[row, i] & 0xFFFFFFFF
        cuda.atomic.add(totals, 2 * row, high)
        cuda.atomic.add(totals, 2 * row + 1, low)


def energies(
    count: int, position: Array, others: Array, starts: Array, neighbors: Array, own: bool,
    cutoff: float, totals: Array,
) -> None:  # fmt: skip
    """Compute each atom's share by one thread, then add up the shares."""
    if count:
        shares = empty((3, count), np.int64, totals.stream)
        _energies[launch(count, totals.stream, FEW_THREADS)](
            count, position, others, starts, neighbors, own, cutoff * cutoff, shares
        )
        _add_shares[launch(min(count, SUMMING), totals.stream, FEW_THREADS)](count, shares, totals)
