"""How LeanMD's atoms move, on the GPU; `kernels.leanmd.interface` describes the arrays."""

from __future__ import annotations

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import bits, cuda, fma, inlined, kernel, mul, ported
from miniapps.devices.cuda.primitives import FEW_THREADS, launch
from miniapps.kernels.leanmd.gpu.arrays import triple
from miniapps.kernels.leanmd.gpu.interactions import SUMMING
from miniapps.kernels.leanmd.units import (
    CLOSE,
    ENERGY_UNIT,
    FAST,
    FASTEST,
    FORCE_UNIT,
    FORESEEN,
    NO_ERROR,
    STRAY,
)
from miniapps.kernels.state_hash.cpu import mix

NOT_NEGATIVE = (1 << 63) - 1  # all bits but the sign
_mix = ported(mix)


MOTION = (
    "void(uint32, float64[:, ::1], float64[:, ::1], int64[:, ::1], float64[:, ::1], float64,"
    "float64, float64, float64, int64[::1])"
)


@inlined
def _drifted(speed, pull, half, place, dt, magic):  # type: ignore[no-untyped-def]
    """Return speed and position along an axis after half a kick and a drift."""
    speed = fma(half, pull, speed)
    return speed, place + (fma(dt, speed, magic) - magic)


@inlined
def _note(far2, allowed2, flags, flag):  # type: ignore[no-untyped-def]
    """Store a squared distance that is farther than allowed, or NaN."""
    if not far2 <= allowed2:
        cuda.atomic.max(flags, flag, bits(far2) & NOT_NEGATIVE)


@kernel(MOTION)
def _kick_and_drift(  # type: ignore[no-untyped-def]
    count, position, velocity, force, origin, half, dt, magic, allowed2, flags
):
    i = np.uint64(cuda.grid(1))
    if i >= count:
        return
    far2 = 0.0
    for axis in range(3):
        pull = np.float64(force[axis, i])
        speed, place = _drifted(velocity[axis, i], pull, half, position[axis, i], dt, magic)
        velocity[axis, i], position[axis, i] = speed, place
        apart = place - origin[axis, i]
        far2 = far2 + mul(apart, apart)
    _note(far2, allowed2, flags, STRAY)


def kick_and_drift(
    count: int, position: Array, velocity: Array, force: Array, origin: Array, dt: float,
    quantum: float, allowed2: float, flags: Array,
) -> None:  # fmt: skip
    """Launch one thread per atom; an atom farther than allowed costs one atomic."""
    if count:
        _kick_and_drift[launch(count, position.stream, FEW_THREADS)](
            count, position, velocity, force, origin, 0.5 * dt * FORCE_UNIT, dt,
            1.5 * 2.0**52 * quantum, allowed2, flags,
        )  # fmt: skip


@kernel(MOTION)
def _kick(  # type: ignore[no-untyped-def]
    count, position, velocity, force, origin, half, dt, magic, allowed2, flags
):
    i = np.uint64(cuda.grid(1))
    if i >= count:
        return
    far2 = 0.0
    for axis in range(3):
        pull = np.float64(force[axis, i])
        speed = fma(half, pull, velocity[axis, i])
        velocity[axis, i] = speed
        _, place = _drifted(speed, pull, half, position[axis, i], dt, magic)
        apart = place - origin[axis, i]
        far2 = far2 + mul(apart, apart)
    _note(far2, allowed2, flags, FORESEEN)


def kick(
    count: int, position: Array, velocity: Array, force: Array, origin: Array, dt: float,
    quantum: float, allowed2: float, flags: Array,
) -> None:  # fmt: skip
    """Launch one thread per atom; positions and origins cost 48 bytes more per atom."""
    if count:
        _kick[launch(count, position.stream, FEW_THREADS)](
            count, position, velocity, force, origin, 0.5 * dt * FORCE_UNIT, dt,
            1.5 * 2.0**52 * quantum, allowed2, flags,
        )  # fmt: skip


@kernel("void(uint32, float64[:, ::1], int64[:, ::1], int64[::1], int64[::1])")
def _sums_of_motion(count, velocity, force, totals, flags):  # type: ignore[no-untyped-def]
    high = low = np.int64(0)
    for axis in range(3):
        momentum = push = np.int64(0)
        for i in range(cuda.grid(1), np.int64(count), cuda.gridsize(1)):
            momentum += np.int64(round(velocity[axis, i] / ENERGY_UNIT))
            push += force[axis, i]
        cuda.atomic.add(totals, 2 + axis, momentum)
        cuda.atomic.add(totals, 5 + axis, push)
    for i in range(cuda.grid(1), np.int64(count), cuda.gridsize(1)):
        v2, fastest = 0.0, 0.0
        for axis in range(3):
            v = velocity[axis, i]
            v2 = fma(v, v, v2)
            fastest = max(fastest, abs(v))
        share = np.int64(round(v2 / ENERGY_UNIT))
        high += share >> 32
        low += share & 0xFFFFFFFF
        if fastest > FASTEST:
            cuda.atomic.min(flags, FAST, i)
    cuda.atomic.add(totals, 0, high)
    cuda.atomic.add(totals, 1, low)


def sums_of_motion(count: int, velocity: Array, force: Array, totals: Array, flags: Array) -> None:
    """Each thread adds up several atoms, then adds its sums by atomics."""
    if count:
        where = launch(min(count, SUMMING), totals.stream, FEW_THREADS)
        _sums_of_motion[where](count, velocity, force, totals, flags)


@kernel("void(int64[::1])")
def _clear(flags):  # type: ignore[no-untyped-def]
    if cuda.grid(1) == 0:
        flags[STRAY], flags[CLOSE], flags[FAST], flags[FORESEEN] = NO_ERROR


def clear(flags: Array) -> None:
    """Launch one thread."""
    _clear[launch(1, flags.stream)](flags)


@kernel("void(uint32, int64[::1], uint64, float64[:, ::1])")
def _draw(count, ids, seed, numbers):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i < count:
        for axis in range(3):
            drawn = _mix(seed + _mix(np.uint64(3 * ids[i] + axis)))
            whole = np.int64(drawn >> np.uint64(24)) - np.int64(1 << 39)
            numbers[axis, i] = whole * 2.0**-40


def draw(ids: Array, seed: int, numbers: Array) -> None:
    """Launch one thread per atom."""
    if ids.size:
        _draw[launch(ids.size, numbers.stream, FEW_THREADS)](ids.size, ids, seed, numbers)


@kernel("void(uint32, float64[:, ::1], UniTuple(float64, 3), float64)")
def _adjust(count, velocity, drift, factor):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i < count:
        for axis in range(3):
            velocity[axis, i] = (velocity[axis, i] - drift[axis]) * factor


def adjust(count: int, velocity: Array, drift: np.ndarray, factor: float) -> None:
    """Launch one thread per atom."""
    if count:
        _adjust[launch(count, velocity.stream, FEW_THREADS)](count, velocity, triple(drift), factor)
