"""Forces in single precision on the CPU, by the same operations as on the GPU.

Positions are multiples of the position quantum, so a coordinate is an int32: the number of quanta.
The difference of two is exact. It is rounded to float32 once, and all that follows is computed in
float32, with lengths in quanta. The quantum is a power of two, so the bits are those of a
computation in sigma. A register has the 16 pairs of a cluster and four entries of its list; they
take 33 operations, a division among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, float64, int32, int64, types, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.devices.cpu.quads import (
    as_floats,
    numbers_of_i,
    numbers_of_j,
    records,
    rounded,
    sums,
    x_of_i,
    x_of_j,
    y_of_i,
    y_of_j,
    z_of_i,
    z_of_j,
)
from miniapps.devices.cpu.vectors import WIDTH, broadcast_line, lane, store, where
from miniapps.kernels.leanmd.cpu.arrays import INDICES, INTS, SEEN, WHOLE
from miniapps.kernels.leanmd.cpu.interactions import closest_pair
from miniapps.kernels.leanmd.units import CLOSE, CLOSEST, FAR, FORCE_UNIT, OUTSIDE, SINGLE_UNIT

WIDE = int(SINGLE_UNIT / FORCE_UNIT)
RECORDS = types.Array(int32, 1, "C", readonly=True)
NOT_NEAR = np.float32(1e36)  # a squared distance beyond every cutoff


@njit(void(int64, int64, SEEN, float64, int32[::1]), cache=True, **DISTINCT)
def _count_quanta(first, end, position, quantum, into):
    """Set the records of places from ``first`` to ``end``; empty ones become corners of a cube."""
    per_length = 1.0 / quantum
    for i in range(first, end):
        for axis in range(3):
            value = position[axis, i]
            if value < FAR / 2:
                into[4 * i + axis] = np.int32(value * per_length)
            else:
                into[4 * i + axis] = OUTSIDE if (i >> axis) & 1 else -OUTSIDE


class Quanta:
    """Positions as records: their numbers of quanta.

    ``position`` (3 or more, places) float64: the positions. ``records`` (4 places,) int32.
    """

    def __init__(self, position: Array, quantum: float) -> None:
        self.position, self.quantum = position, quantum
        self.records = np.empty(4 * position.shape[1], np.int32)

    def update(self, first: int, end: int) -> None:
        """Take over the positions of the places from ``first`` to ``end``."""
        _count_quanta(first, end, self.position, self.quantum, self.records)


@njit(inline="always")
def _add_forces(pairs, scale, totals):
    """Add the forces of four atoms on four, begun before, to (fx, fy, fz)."""
    dx, dy, dz, inverse2 = pairs
    fx, fy, fz = totals
    inverse6 = inverse2 * inverse2 * inverse2
    pull = (inverse6 - broadcast_line(np.float32(0.5))) * (scale * (inverse6 * inverse2))
    return fx + rounded(pull * dx), fy + rounded(pull * dy), fz + rounded(pull * dz)


@njit(inline="always")
def _pipelined(i, j, there, units, state):
    """Begin the pairs of four atoms with four, and add the forces of those begun by the last call.

    ``state``: sums of forces, smallest r^2 so far, and what was begun. In double precision
    `kernels.leanmd.cpu.interactions` does it for the same reason.
    """
    cutoff2, one, scale = units
    totals, closest, begun = state
    dx, dy, dz = (
        as_floats(x_of_i(i) - x_of_j(j)),
        as_floats(y_of_i(i) - y_of_j(j)),
        as_floats(z_of_i(i) - z_of_j(j)),
    )
    r2 = where(there, dx * dx + dy * dy + dz * dz, broadcast_line(NOT_NEAR))
    inverse2 = where(r2 < cutoff2, one / r2, broadcast_line(np.float32(0.0)))
    closest = where(r2 < closest, r2, closest)
    return _add_forces(begun, scale, totals), closest, (dx, dy, dz, inverse2)


@njit(
    float32(
        RECORDS, RECORDS, INDICES, int64, int64, INTS, INDICES, boolean, float64, float64, WHOLE
    ),
    cache=True, error_model="numpy", **DISTINCT,
)  # fmt: skip
def _forces(
    seen, others, clusters, first_cluster, end_cluster, starts, neighbors, own, cutoff, quantum,
    force,
):  # fmt: skip
    """Compute as `forces_in_single`, given records; return the smallest r^2."""
    area = np.float32(quantum * quantum)
    units = (
        broadcast_line(np.float32(cutoff * cutoff) / area),
        broadcast_line(np.float32(1.0) / area),
        broadcast_line(np.float32(48.0 * quantum / SINGLE_UNIT)),
    )
    always, zero = numbers_of_j() != broadcast_line(np.int32(-1)), broadcast_line(np.int32(0))
    nothing = broadcast_line(np.float32(0.0))
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    closest = broadcast_line(NOT_NEAR)
    for c in range(np.uint64(first_cluster), np.uint64(end_cluster)):
        k = clusters[c]
        first = np.uint64(k) * np.uint64(WIDTH)
        i = records(seen, first, first + one, first + two, first + three)
        state = (zero, zero, zero), closest, (nothing, nothing, nothing, nothing)
        if own:
            others_only = numbers_of_i() != numbers_of_j()
            state = _pipelined(i, i, others_only, units, state)
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + 1])
        rest = begin + (end - begin) // four * four
        for n in range(begin, rest, four):
            j = records(
                others, np.uint64(neighbors[n]), np.uint64(neighbors[n + one]),
                np.uint64(neighbors[n + two]), np.uint64(neighbors[n + three]),
            )  # fmt: skip
            state = _pipelined(i, j, always, units, state)
        if rest < end:
            last = end - one
            j = records(
                others, np.uint64(neighbors[rest]), np.uint64(neighbors[min(rest + one, last)]),
                np.uint64(neighbors[min(rest + two, last)]), np.uint64(neighbors[last]),
            )  # fmt: skip
            there = numbers_of_j() < broadcast_line(np.int32(end - rest))
            state = _pipelined(i, j, there, units, state)
        totals, closest, begun = state
        fx, fy, fz = _add_forces(begun, units[2], totals)
        store(force[0], first, sums(fx, int64(WIDE)))
        store(force[1], first, sums(fy, int64(WIDE)))
        store(force[2], first, sums(fz, int64(WIDE)))
    nearest = NOT_NEAR
    for number in range(4 * WIDTH):
        nearest = min(nearest, lane(closest, number))
    return nearest * area


def forces_in_single(
    position: Any, others: Any, clusters: Array, first_cluster: int, end_cluster: int,
    starts: Array, neighbors: Array, own: bool, cutoff: float, force: Array, flags: Array,
) -> None:  # fmt: skip
    """Compute four entries of a list for four atoms at once; positions are `Quanta`."""
    nearest2 = _forces(
        position.records, others.records, clusters, first_cluster, end_cluster, starts, neighbors,
        own, cutoff, position.quantum, force,
    )  # fmt: skip
    if nearest2 < CLOSEST * CLOSEST:
        those = clusters[first_cluster:end_cluster]
        pair = closest_pair(position.position, others.position, those, starts, neighbors, own)
        flags[CLOSE] = min(flags[CLOSE], pair)
