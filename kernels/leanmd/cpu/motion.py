"""How LeanMD's atoms move, on the CPU; `kernels.leanmd.interface` describes the arrays."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, uint64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.devices.cpu.vectors import bits, fma
from miniapps.kernels.leanmd.cpu.arrays import FLOATS, INTS, ROWS, WHOLE
from miniapps.kernels.leanmd.cpu.interactions import add_wide
from miniapps.kernels.leanmd.units import (
    ENERGY_UNIT,
    FAST,
    FASTEST,
    FORCE_UNIT,
    NO_ERROR,
    STRAY,
)
from miniapps.kernels.state_hash.cpu import mix


@njit(
    void(int64, ROWS, ROWS, WHOLE, ROWS, float64, float64, float64, INTS),
    cache=True, error_model="numpy", **DISTINCT,
)  # fmt: skip
def kick_and_drift(count, position, velocity, force, origin, dt, quantum, allowed2, flags):
    """One vectorised pass over the atoms."""
    half = 0.5 * dt * FORCE_UNIT
    magic = 1.5 * 2.0**52 * quantum
    x, y, z = position[0], position[1], position[2]
    vx, vy, vz = velocity[0], velocity[1], velocity[2]
    fx, fy, fz = force[0], force[1], force[2]
    ox, oy, oz = origin[0], origin[1], origin[2]
    farthest = uint64(0)
    for i in range(count):
        vx[i] = fma(half, float64(fx[i]), vx[i])
        vy[i] = fma(half, float64(fy[i]), vy[i])
        vz[i] = fma(half, float64(fz[i]), vz[i])
        x[i] += fma(dt, vx[i], magic) - magic
        y[i] += fma(dt, vy[i], magic) - magic
        z[i] += fma(dt, vz[i], magic) - magic
        dx, dy, dz = x[i] - ox[i], y[i] - oy[i], z[i] - oz[i]
        # As bits, floats that are not negative keep their order, and NaNs of either sign are
        # larger than all of them: a maximum that vectorises and loses no NaN.
        far = uint64(bits(dx * dx + dy * dy + dz * dz))
        farthest = max(far, farthest)
    if farthest > uint64(bits(allowed2)):
        flags[STRAY] = max(flags[STRAY], int64(farthest & uint64((1 << 63) - 1)))


@njit(void(int64, ROWS, ROWS, WHOLE, ROWS, float64, float64, float64, INTS), cache=True, **DISTINCT)
def kick(count, position, velocity, force, origin, dt, quantum, allowed2, flags):
    """One vectorised pass over the atoms per axis; nothing is foreseen."""
    half = 0.5 * dt * FORCE_UNIT
    for axis in range(3):
        v, f = velocity[axis], force[axis]
        for i in range(count):
            v[i] = fma(half, float64(f[i]), v[i])


@njit(void(int64, ROWS, WHOLE, INTS, INTS), cache=True)
def sums_of_motion(count, velocity, force, totals, flags):
    """One pass over the atoms."""
    for i in range(count):
        v2 = 0.0
        for axis in range(3):
            v = velocity[axis, i]
            v2 = fma(v, v, v2)
            if abs(v) > FASTEST:
                flags[FAST] = min(flags[FAST], i)
            totals[2 + axis] += int64(np.rint(v / ENERGY_UNIT))
            totals[5 + axis] += force[axis, i]
        add_wide(totals, 0, int64(np.rint(v2 / ENERGY_UNIT)))


def clear(flags: Array) -> None:
    """Write four numbers."""
    flags[:] = NO_ERROR


@njit(void(INTS, uint64, ROWS), cache=True)
def draw(ids, seed, numbers):
    """One pass over the atoms."""
    for i in range(ids.size):
        for axis in range(3):
            drawn = mix(seed + mix(np.uint64(3 * ids[i] + axis)))
            numbers[axis, i] = (int64(drawn >> np.uint64(24)) - (1 << 39)) * 2.0**-40


@njit(void(int64, ROWS, FLOATS, float64), cache=True)
def adjust(count, velocity, drift, factor):
    """One vectorised pass over the atoms per axis."""
    for axis in range(3):
        for i in range(count):
            velocity[axis, i] = (velocity[axis, i] - drift[axis]) * factor
