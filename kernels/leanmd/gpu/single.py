"""Forces in single precision on the GPU, with the bits of the CPU's.

As there (`kernels.leanmd.cpu.single`), a coordinate is an int32, the number of position quanta, and
the difference of two is exact. It becomes a float32 by one instruction, and a neighbour's position
is one load of 16 bytes. A float64 could hold the same number, but few of a GPU's units convert it:
three such conversions per pair took longer than a pair in float64 takes in all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import cuda, inlined, kernel, mul, quad, rounded
from miniapps.devices.cuda.memory import empty
from miniapps.devices.cuda.primitives import launch
from miniapps.devices.cuda.unbranched import reciprocal_in_single
from miniapps.kernels.leanmd.units import FAR, FORCE_UNIT, OUTSIDE, SINGLE_UNIT

NEAR_ALL = FAR / 2  # no coordinate of an atom is as large
SINGLE_FAR = np.float32(FAR)


@kernel("void(uint32, uint32, float64[:, ::1], float64, int32[::1])")
def _count_quanta(first, end, position, per_length, records):  # type: ignore[no-untyped-def]
    """Set the records of places from ``first`` to ``end``; empty ones become corners of a cube."""
    i = np.uint64(first) + np.uint64(cuda.grid(1))
    if i >= end:
        return
    for axis in range(np.uint64(3)):
        value = position[axis, i]
        corner = OUTSIDE if (i >> axis) & np.uint64(1) else -OUTSIDE
        records[np.uint64(4) * i + axis] = np.int32(
            value * per_length if value < NEAR_ALL else corner
        )


class Quanta:
    """Positions as records: their numbers of quanta.

    ``position`` (3 or more, places) float64: the positions. ``records`` (4 places,) int32.
    """

    def __init__(self, position: Array, quantum: float) -> None:
        self.position, self.quantum = position, quantum
        self.records = empty(4 * position.shape[1], np.int32, position.stream)

    def update(self, first: int, end: int) -> None:
        """Launch one thread per place."""
        if first < end:
            _count_quanta[launch(end - first, self.records.stream)](
                first, end, self.position, 1.0 / self.quantum, self.records
            )


@inlined
def record_of(records, i):  # type: ignore[no-untyped-def]
    """Return the position of an atom in quanta."""
    x, y, z, _ = quad(records, i)
    return x, y, z


@inlined
def add_in_single(dx, dy, dz, there, cut, fx, fy, fz, closest):  # type: ignore[no-untyped-def]
    """Add the force of one pair in `SINGLE_UNIT`, as `interactions._add` does.

    Distances are in units of any length. ``cut``: the area of such a unit in sigma^2, the cutoff's
    square in sigma^2, and 48 units of length in `SINGLE_UNIT`.
    """
    area, cutoff2, scale = cut
    x, y, z = np.float32(dx), np.float32(dy), np.float32(dz)
    r2 = mul(area, mul(x, x) + mul(y, y) + mul(z, z)) if there else SINGLE_FAR
    inverse2 = reciprocal_in_single(r2) if r2 < cutoff2 else np.float32(0.0)
    inverse6 = mul(mul(inverse2, inverse2), inverse2)
    pull = mul(inverse6 - np.float32(0.5), mul(scale, mul(inverse6, inverse2)))
    return (
        fx + rounded(mul(pull, x)),
        fy + rounded(mul(pull, y)),
        fz + rounded(mul(pull, z)),
        r2 if r2 < closest else closest,
    )


@inlined
def add_in_quanta(dx, dy, dz, there, cut, fx, fy, fz, closest):  # type: ignore[no-untyped-def]
    """Add as `add_in_single`, from differences of records, of which the lower 32 bits count."""
    x, y, z = np.int32(dx), np.int32(dy), np.int32(dz)
    return add_in_single(x, y, z, there, cut, fx, fy, fz, closest)


@inlined
def single_in_force_unit(sum_of_terms):  # type: ignore[no-untyped-def]
    """Return a sum of terms of `add_in_single`, which is an int32, in `FORCE_UNIT`."""
    return np.int64(np.int32(sum_of_terms)) * np.int64(SINGLE_UNIT / FORCE_UNIT)


def cut_in(unit: float, cutoff2: float) -> tuple[Any, Any, Any]:
    """Return the numbers that `add_in_single` needs, for distances in a unit of length in sigma."""
    return np.float32(unit * unit), np.float32(cutoff2), np.float32(48 * unit / SINGLE_UNIT)


@inlined
def cut_in_single(cutoff2):  # type: ignore[no-untyped-def]
    """Return the same in a kernel whose unit of length is sigma."""
    return np.float32(1.0), np.float32(cutoff2), np.float32(48 / SINGLE_UNIT)
