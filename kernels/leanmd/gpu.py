"""Lennard-Jones atoms on the GPU: the kernels of `kernels.leanmd.cpu`, with the same bits.

Formula, units and arrays are those of `kernels.leanmd.cpu`. Every term of a pair is computed by the
same operations, rounded alike: `mul` keeps a product apart where the compiler would join it with a
sum, `fma` joins where the CPU does. What pairs give is added up as integers, so neither the order
of lists nor that of atomic additions shows in a result.

A thread has one atom, and `WIDTH` threads, a quarter of a warp, share the list of their cluster.
A list serves all its atoms: with lists of single atoms the 32 threads of a warp would load from 32
places at once, which would cost L1 four times what the arithmetic costs; here they load from four,
and most loads are broadcasts. Wider clusters load less but compute more pairs that are farther
apart than the cutoff: in a melt 1.7 times as many as lists of atoms hold for clusters of 4, 2.2
times for 8, about 4 times for 32.

Cost of `forces`: a pair takes about 30 operations in float64, its division among them, and 9 of
integers, and its list 4 B for 8 pairs, which come from L2. At 170 pairs for each atom of a melt
the arithmetic takes 170 x 30 / 17 T/s = 0.3 ns per atom, memory 0.03 ns. Lists are made anew every
10 to 20 steps, and cost about as much as a step then.

No kernel has a barrier or asks its warp anything, and scans go by chunks of `CHUNK` numbers that a
thread adds up one after another: they are a small part of what a new list costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from devices.cuda.toolkit import (
    bits,
    blocks,
    cuda,
    empty,
    flat,
    fma,
    from_bits,
    inlined,
    kernel,
    mul,
    ported,
    to_host,
    viewer,
    zeros,
)
from kernels.leanmd.jobs import (
    BLOCK,
    COLUMNS,
    CUTOFF2,
    ENTRIES,
    FORCE,
    JOB_THREADS,
    NEIGHBORS,
    NO_SHIFT,
    OTHER_COLUMNS,
    OTHERS,
    OWN,
    PLACES,
    POSITION,
    SHIFT,
    STARTS,
    WORDS,
    PairForces,
)
from kernels.leanmd.units import (
    CLOSE,
    CLOSE_UNIT,
    CLOSEST,
    ENERGY_MAGIC,
    ENERGY_UNIT,
    ENERGY_ZERO,
    FAR,
    FAST,
    FASTEST,
    FORCE_MAGIC,
    FORCE_UNIT,
    FORCE_ZERO,
    ROUNDING,
    STRAY,
    VIRIAL_MAGIC,
    VIRIAL_ZERO,
)
from kernels.state_hash.cpu import mix

WIDTH = 8  # atoms of a cluster, and threads that build its list
THREADS = 64  # of a thread block; few, so that a block waits for few
CHUNK = 32  # numbers that a thread of a scan adds up
SUMMING = 1 << 14  # threads that add up over all atoms, at most
CLOSEST2 = CLOSEST * CLOSEST
NOT_NEGATIVE = (1 << 63) - 1  # all bits but that of the sign

_mix = ported(mix)
Three = tuple[Any, Any, Any]


def _threads(count: int, array: Any) -> tuple[int, int, Any]:
    """How to launch a kernel for so many threads, on the stream of an array."""
    return blocks(count, THREADS), max(1, min(count, THREADS)), array.stream


def _numbers(values: Any, kind: Any = float) -> Three:
    """Three numbers of a small host array, as kernels take them."""
    a, b, c = values
    return kind(a), kind(b), kind(c)


# Forces ------------------------------------------------------------------------------------------


@inlined
def _distance2(dx, dy, dz):  # type: ignore[no-untyped-def]
    """r^2."""
    return fma(dz, dz, fma(dy, dy, mul(dx, dx)))


@inlined
def _inverses(r2, cutoff2):  # type: ignore[no-untyped-def]
    """1 / r^2 and 1 / r^6, zero beyond the cutoff."""
    inverse2 = 1.0 / r2 if r2 < cutoff2 else 0.0
    return inverse2, inverse2 * inverse2 * inverse2


@inlined
def _pull(r2, cutoff2):  # type: ignore[no-untyped-def]
    """The force over the distance of atoms whose distance squared is given."""
    inverse2, inverse6 = _inverses(r2, cutoff2)
    return fma(48.0, inverse6, -24.0) * (inverse6 * inverse2)


@inlined
def _pull_in_single(r2, cutoff2):  # type: ignore[no-untyped-def]
    """The same in float32, from r^2 rounded once."""
    inverse2 = np.float32(1.0) / np.float32(r2) if r2 < cutoff2 else np.float32(0.0)
    inverse6 = mul(inverse2 * inverse2, inverse2)
    strength = np.float32(48.0) * (inverse6 * inverse2)
    return np.float64((inverse6 - np.float32(0.5)) * strength)


_rows, _sums = viewer("float64", 3), viewer("int64", 3)
_offsets, _indices = viewer("int64"), viewer("uint32")


@inlined
def _alarm(closest, i):  # type: ignore[no-untyped-def]
    """What says that an atom is too close to another one."""
    return (np.int64(closest / CLOSE_UNIT) << 32) + np.int64(i)


def _felt_by(pull: Any) -> Any:
    """What atoms feel of all others, with a formula for two."""

    @inlined
    def add(dx, dy, dz, there, cutoff2, fx, fy, fz, closest):  # type: ignore[no-untyped-def]
        """Add what an atom feels from another one to (fx, fy, fz, closest r^2 so far).

        The zero that is taken away has no bits in its lower half, so this costs no instruction.
        """
        r2 = _distance2(dx, dy, dz) if there else FAR
        felt = pull(r2, cutoff2)
        return (
            fx + (bits(fma(felt, dx, FORCE_MAGIC)) - FORCE_ZERO),
            fy + (bits(fma(felt, dy, FORCE_MAGIC)) - FORCE_ZERO),
            fz + (bits(fma(felt, dz, FORCE_MAGIC)) - FORCE_ZERO),
            r2 if r2 < closest else closest,
        )

    @inlined
    def felt_by(xi, yi, zi, others, neighbors, n, last, first, member, own, cutoff2):  # type: ignore[no-untyped-def]
        """What an atom feels from its list and, if ``own``, from its cluster; closest r^2."""
        x, y, z = others[0], others[1], others[2]
        fx = fy = fz = np.int64(0)
        closest = FAR
        while n < last:  # numba's range would count down beside it
            j = np.uint64(neighbors[n])
            dx, dy, dz = xi - x[j], yi - y[j], zi - z[j]
            fx, fy, fz, closest = add(dx, dy, dz, True, cutoff2, fx, fy, fz, closest)
            n += np.uint64(1)
        for m in range(np.uint64(WIDTH if own else 0)):
            j = first + np.uint64(m)
            dx, dy, dz = xi - x[j], yi - y[j], zi - z[j]
            fx, fy, fz, closest = add(dx, dy, dz, m != member, cutoff2, fx, fy, fz, closest)
        return fx, fy, fz, closest

    return felt_by


def _forces_by(felt_by: Any) -> Any:
    """The kernel `forces`, with what atoms feel."""

    @kernel(
        "void(uint32, uint32, float64[:, ::1], float64[:, ::1], uint32[::1], int64[::1],"
        "uint32[::1], boolean, float64, int64[:, ::1], int64[::1])"
    )
    def by_cluster(  # type: ignore[no-untyped-def]
        first, end, position, others, clusters, starts, neighbors, own, cutoff2, force, alarms
    ):
        thread = np.uint32(cuda.grid(1))
        place = np.uint64(first) + np.uint64(thread // np.uint32(WIDTH))
        if place >= end:
            return
        k = np.uint64(clusters[place])
        member = np.uint64(thread % np.uint32(WIDTH))
        start = k * np.uint64(WIDTH)
        i = start + member
        fx, fy, fz, closest = felt_by(
            position[0, i], position[1, i], position[2, i], others, neighbors,
            np.uint64(starts[k]), np.uint64(starts[k + np.uint64(1)]), start, member, own, cutoff2,
        )  # fmt: skip
        force[0, i], force[1, i], force[2, i] = fx, fy, fz
        if closest < CLOSEST2:
            cuda.atomic.min(alarms, CLOSE, _alarm(closest, i))

    return by_cluster


def _jobs_by(felt_by: Any) -> Any:
    """The kernel for `PairForces`, with what atoms feel."""

    @kernel("void(int64[::1], uint32)")
    def by_job(words, jobs):  # type: ignore[no-untyped-def]
        """The jobs of a table, as `leanmd_jobs` writes it; each has thread blocks of its own."""
        block = np.uint64(cuda.blockIdx.x)
        job = np.uint64(words[np.uint64(jobs * (1 + WORDS)) + block])
        row = np.uint64(jobs) + job * np.uint64(WORDS)
        places = words[row + np.uint64(PLACES)]
        thread = np.uint64(cuda.threadIdx.x)
        i = (block - np.uint64(words[row + np.uint64(BLOCK)])) * np.uint64(JOB_THREADS) + thread
        if i >= np.uint64(places):
            return
        member, k = i % np.uint64(WIDTH), i // np.uint64(WIDTH)
        starts = _offsets(words[row + np.uint64(STARTS)], places // WIDTH + 1)
        n, last = np.uint64(starts[k]), np.uint64(starts[k + np.uint64(1)])
        own = words[row + np.uint64(OWN)] != 0
        if n == last and not own:
            return
        position = _rows(words[row + np.uint64(POSITION)], words[row + np.uint64(COLUMNS)])
        fx, fy, fz, closest = felt_by(
            position[0, i] + from_bits(words[row + np.uint64(SHIFT)]),
            position[1, i] + from_bits(words[row + np.uint64(SHIFT + 1)]),
            position[2, i] + from_bits(words[row + np.uint64(SHIFT + 2)]),
            _rows(words[row + np.uint64(OTHERS)], words[row + np.uint64(OTHER_COLUMNS)]),
            _indices(words[row + np.uint64(NEIGHBORS)], words[row + np.uint64(ENTRIES)]),
            n, last, i - member, member, own, from_bits(words[row + np.uint64(CUTOFF2)]),
        )  # fmt: skip
        force = _sums(words[row + np.uint64(FORCE)], places)
        cuda.atomic.add(force, (np.uint64(0), i), fx)
        cuda.atomic.add(force, (np.uint64(1), i), fy)
        cuda.atomic.add(force, (np.uint64(2), i), fz)
        if closest < CLOSEST2:
            cuda.atomic.min(words, job, _alarm(closest, i))

    return by_job


_felt, _felt_in_single = _felt_by(_pull), _felt_by(_pull_in_single)
_forces, _forces_in_single = _forces_by(_felt), _forces_by(_felt_in_single)
_jobs, _jobs_in_single = _jobs_by(_felt), _jobs_by(_felt_in_single)


def forces(
    position: Any, others: Any, clusters: Any, first_cluster: int, end_cluster: int, starts: Any,
    neighbors: Any, own: bool, cutoff: float, force: Any, alarms: Any,
) -> None:  # fmt: skip
    """Set the forces on the atoms of some ``clusters``, and say if a pair is too close.

    ``others`` are the positions that the lists count, those of the block itself or of another;
    ``own`` says whether the atoms of a cluster meet each other too.
    """
    if first_cluster < end_cluster:
        _forces[_threads((end_cluster - first_cluster) * WIDTH, force)](
            first_cluster, end_cluster, position, others, clusters, starts, neighbors, own,
            cutoff * cutoff, force, alarms,
        )  # fmt: skip


def forces_in_single(
    position: Any, others: Any, clusters: Any, first_cluster: int, end_cluster: int, starts: Any,
    neighbors: Any, own: bool, cutoff: float, force: Any, alarms: Any,
) -> None:  # fmt: skip
    """As `forces`, but what two atoms feel is found in float32 from their distance.

    Distances and sums are as exact as there, so momentum is kept as well and the order of sums does
    not show; there is no such kernel on the CPU.
    """
    if first_cluster < end_cluster:
        _forces_in_single[_threads((end_cluster - first_cluster) * WIDTH, force)](
            first_cluster, end_cluster, position, others, clusters, starts, neighbors, own,
            cutoff * cutoff, force, alarms,
        )  # fmt: skip


@inlined
def _add_energies(dx, dy, dz, there, cutoff2, energy, virial, pairs):  # type: ignore[no-untyped-def]
    """Add what an atom shares with another one to (energy, virial, pairs)."""
    r2 = _distance2(dx, dy, dz) if there else FAR
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
    """Add up rows of integers, each sum as two integers, so that it cannot overflow."""
    for row in range(3):
        high = low = np.int64(0)
        for i in range(cuda.grid(1), np.int64(count), cuda.gridsize(1)):
            high += shares[row, i] >> 32
            low += shares[row, i] & 0xFFFFFFFF
        cuda.atomic.add(totals, 2 * row, high)
        cuda.atomic.add(totals, 2 * row + 1, low)


def energies(
    count: int, position: Any, others: Any, starts: Any, neighbors: Any, own: bool, cutoff: float,
    totals: Any,
) -> None:  # fmt: skip
    """Add up over all pairs (i, j) and (j, i): energy, virial (force times distance), pairs.

    ``totals`` (6,): each sum as two integers, 2^32 times the first plus the second; energies in
    `ENERGY_UNIT`, virials in `VIRIAL_UNIT`.
    """
    if count:
        shares = empty((3, count), np.int64, totals.stream)
        _energies[_threads(count, totals)](
            count, position, others, starts, neighbors, own, cutoff * cutoff, shares
        )
        _add_shares[_threads(min(count, SUMMING), totals)](count, shares, totals)


# Motion ------------------------------------------------------------------------------------------


@kernel(
    "void(uint32, float64[:, ::1], float64[:, ::1], int64[:, ::1], float64[:, ::1], float64,"
    "float64, float64, float64, int64[::1])"
)
def _kick_and_drift(  # type: ignore[no-untyped-def]
    count, position, velocity, force, origin, half, dt, magic, allowed2, alarms
):
    i = np.uint64(cuda.grid(1))
    if i >= count:
        return
    far2 = 0.0
    for axis in range(3):
        speed = fma(half, np.float64(force[axis, i]), velocity[axis, i])
        place = position[axis, i] + (fma(dt, speed, magic) - magic)
        velocity[axis, i], position[axis, i] = speed, place
        apart = place - origin[axis, i]
        far2 = far2 + mul(apart, apart)
    if not far2 <= allowed2:
        cuda.atomic.max(alarms, STRAY, bits(far2) & NOT_NEGATIVE)


def kick_and_drift(
    count: int, position: Any, velocity: Any, force: Any, origin: Any, dt: float, grain: float,
    allowed2: float, alarms: Any,
) -> None:  # fmt: skip
    """Half a step for the velocities, then a whole one for the positions, by multiples of a grain.

    Says how far the farthest atom is from its ``origin`` if that squared is more than is allowed;
    no number, where one is. So in most steps no atom says anything.
    """
    if count:
        _kick_and_drift[_threads(count, position)](
            count, position, velocity, force, origin, 0.5 * dt * FORCE_UNIT, dt,
            1.5 * 2.0**52 * grain, allowed2, alarms,
        )  # fmt: skip


@kernel("void(uint32, float64[:, ::1], int64[:, ::1], float64)")
def _kick(count, velocity, force, half):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i < count:
        for axis in range(3):
            velocity[axis, i] = fma(half, np.float64(force[axis, i]), velocity[axis, i])


def kick(count: int, velocity: Any, force: Any, dt: float) -> None:
    """Half a step for the velocities."""
    if count:
        _kick[_threads(count, velocity)](count, velocity, force, 0.5 * dt * FORCE_UNIT)


@kernel("void(uint32, float64[:, ::1], int64[:, ::1], int64[::1], int64[::1])")
def _sums_of_motion(count, velocity, force, totals, alarms):  # type: ignore[no-untyped-def]
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
            cuda.atomic.min(alarms, FAST, i)
    cuda.atomic.add(totals, 0, high)
    cuda.atomic.add(totals, 1, low)


def sums_of_motion(count: int, velocity: Any, force: Any, totals: Any, alarms: Any) -> None:
    """Add up v^2 (two integers, as `energies`), velocities and forces along each axis.

    ``totals`` (8,), in units of `ENERGY_UNIT`, `ENERGY_UNIT` and `FORCE_UNIT`. Says if an atom is
    too fast for that.
    """
    if count:
        launch = _threads(min(count, SUMMING), totals)
        _sums_of_motion[launch](count, velocity, force, totals, alarms)


@kernel("void(uint32, int64[::1], uint64, float64[:, ::1])")
def _draw(count, ids, seed, numbers):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i < count:
        for axis in range(3):
            drawn = _mix(seed + _mix(np.uint64(3 * ids[i] + axis)))
            whole = np.int64(drawn >> np.uint64(24)) - np.int64(1 << 39)
            numbers[axis, i] = whole * 2.0**-40


def draw(ids: Any, seed: int, numbers: Any) -> None:
    """Three numbers from -1/2 to 1/2 for each atom, which follow from its id alone; (3, n)."""
    if ids.size:
        _draw[_threads(ids.size, numbers)](ids.size, ids, seed, numbers)


@kernel("void(uint32, float64[:, ::1], UniTuple(float64, 3), float64)")
def _adjust(count, velocity, drift, factor):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i < count:
        for axis in range(3):
            velocity[axis, i] = (velocity[axis, i] - drift[axis]) * factor


def adjust(count: int, velocity: Any, drift: Any, factor: float) -> None:
    """Take a drift, (3,), away from all velocities, and multiply what is left."""
    if count:
        _adjust[_threads(count, velocity)](count, velocity, _numbers(drift), factor)


# Scans -------------------------------------------------------------------------------------------


@kernel("void(uint32, int64[::1], int64[::1])")
def _add_chunks(count, values, sums):  # type: ignore[no-untyped-def]
    chunk = cuda.grid(1)
    if chunk < sums.size:
        total = np.int64(0)
        for n in range(chunk * CHUNK, min((chunk + 1) * CHUNK, np.int64(count))):
            total += values[n]
        sums[chunk] = total


@kernel("void(uint32, int64[::1], int64[::1])")
def _spread_chunks(count, values, sums):  # type: ignore[no-untyped-def]
    chunk = cuda.grid(1)
    if chunk < sums.size:
        total = sums[chunk]
        for n in range(chunk * CHUNK, min((chunk + 1) * CHUNK, np.int64(count))):
            value = values[n]
            values[n] = total
            total += value


def scan(values: Any) -> None:
    """Replace each number of (n,) int64 by the sum of those before it."""
    chunks = blocks(values.size, CHUNK)
    sums = zeros((1,), np.int64, values.stream)
    if chunks > 1:
        sums = empty((chunks,), np.int64, values.stream)
        _add_chunks[_threads(chunks, values)](values.size, values, sums)
        scan(sums)
    _spread_chunks[_threads(chunks, values)](values.size, values, sums)


# Moving atoms about ------------------------------------------------------------------------------


@inlined
def _groups(value, below, above):  # type: ignore[no-untyped-def]
    """Whether a value is less than ``below``, from ``above`` on, or neither."""
    under, over = value < below, value >= above
    return under, over, not (under or over)


CHOOSE = tuple(
    f"void(uint32, {kind}[::1], float64, float64, uint32, int64[::1]{{}})"
    for kind in ("float64", "uint32")
)


@kernel(*(signature.format("") for signature in CHOOSE))
def _count_groups(count, values, below, above, chunks, counts):  # type: ignore[no-untyped-def]
    chunk = np.uint64(cuda.grid(1))
    if chunk < chunks:
        low = high = rest = np.int64(0)
        for n in range(chunk * np.uint64(CHUNK), (chunk + np.uint64(1)) * np.uint64(CHUNK)):
            if n < count:
                under, over, neither = _groups(values[n], below, above)
                low += np.int64(under)
                high += np.int64(over)
                rest += np.int64(neither)
        counts[chunk] = low
        counts[chunks + chunk] = high
        counts[np.uint64(2) * chunks + chunk] = rest


@kernel(*(signature.format(", uint32[::1], int64[::1]") for signature in CHOOSE))
def _number_groups(  # type: ignore[no-untyped-def]
    count, values, below, above, chunks, counts, which, ends
):
    chunk = np.uint64(cuda.grid(1))
    if chunk < chunks:
        a = counts[chunk]
        b = counts[chunks + chunk]
        c = counts[np.uint64(2) * chunks + chunk]
        for n in range(chunk * np.uint64(CHUNK), (chunk + np.uint64(1)) * np.uint64(CHUNK)):
            if n < count:
                under, over, neither = _groups(values[n], below, above)
                if under:
                    which[a] = n
                    a += 1
                if over:
                    which[b] = n
                    b += 1
                if neither:
                    which[c] = n
                    c += 1
        if chunk + np.uint64(1) == chunks:
            ends[0], ends[1], ends[2] = a, b, c


def choose(count: int, values: Any, below: float, above: float, which: Any) -> Sequence[int]:
    """Number the values that are less than ``below``, then those from ``above`` on, then the rest.

    The numbers go to ``which``, as many as there may be, each group in order. Returns how many
    there are of each.
    """
    if count == 0:
        return 0, 0, 0
    chunks = blocks(count, CHUNK)
    counts = empty((3 * chunks,), np.int64, which.stream)
    ends = empty((3,), np.int64, which.stream)
    what = count, values, below, above, chunks, counts
    _count_groups[_threads(chunks, which)](*what)
    scan(counts)
    _number_groups[_threads(chunks, which)](*what, which, ends)
    low, high, rest = to_host(ends).tolist()
    return low, high - low, rest - high


@kernel(
    "void(uint32, uint32, uint32, float64[:, ::1], uint32[::1], uint32, float64, float64,"
    "float64[::1], int64, int64)"
)
def _gather(  # type: ignore[no-untyped-def]
    height, low, high, rows, which, axis, over_low, over_high, buffer, start_low, start_high
):
    thread = np.int64(cuda.grid(1))
    if thread >= np.int64(low) + np.int64(high):
        return
    is_low = thread < low
    into = start_low + thread if is_low else start_high + thread - low
    over, size = (over_low, np.int64(low)) if is_low else (over_high, np.int64(high))
    atom = which[thread]
    for row in range(height):
        value = rows[row, atom]
        buffer[into] = value + over if row == axis else value
        into += size


def gather(rows: Any, which: Any, sizes: Any, axis: int, over: Any, messages: Any) -> None:
    """Fill two messages (m, size) with the first m ``rows`` of the atoms of which one is told.

    ``which`` holds ``sizes[0]`` numbers of atoms for the first message, then those for the second;
    ``over``, one number for each message, is added along an axis. One kernel fills both.
    """
    low, high = messages
    if sum(sizes):
        _gather[_threads(sum(sizes), rows)](
            low.shape[0], *sizes, rows, which, axis, *map(float, over), low.bundle.buffer,
            low.start, high.start,
        )  # fmt: skip


PLACE = tuple(
    f"void(uint32, {kind}[:, ::1], uint32, uint32, {kind}[::1], int64, uint32, {kind}[::1], int64)"
    for kind in ("float64", "int64")
)


@kernel(*PLACE)
def _place(height, rows, first, size_a, a, start_a, size_b, b, start_b):  # type: ignore[no-untyped-def]
    thread = np.int64(cuda.grid(1))
    column = np.int64(first) + thread
    if thread < size_a:
        for row in range(np.int64(height)):
            rows[row, column] = a[start_a + row * size_a + thread]
    elif thread < np.int64(size_a) + np.int64(size_b):
        for row in range(np.int64(height)):
            rows[row, column] = b[start_b + row * size_b + thread - size_a]


def _source(part: Any) -> tuple[int, Any, int]:
    """Columns of an array or a message, a flat array that holds it, and where it begins there."""
    if hasattr(part, "bundle"):
        return part.shape[1], part.bundle.buffer, part.start
    return part.shape[1], flat(part), 0


def place(rows: Any, first: int, parts: Any) -> None:
    """Put one or two messages (m, size) down in the first m rows, from column ``first`` on."""
    size = sum(part.shape[1] for part in parts)
    if size:
        sources = [_source(part) for part in (*parts, *parts)[:2]]
        if len(parts) == 1:
            sources[1] = 0, *sources[1][1:]
        height = parts[0].shape[0]
        _place[_threads(size, rows)](height, rows, first, *sources[0], *sources[1])


@kernel("void(uint32, uint32, float64[:, ::1], uint32[::1], float64[:, ::1])")
def _arrange(first, count, rows, order, into):  # type: ignore[no-untyped-def]
    n = np.uint64(cuda.grid(1))
    if n < count:
        atom = order[np.uint64(first) + n]
        for row in range(into.shape[0]):
            into[row, n] = rows[row, atom]


def arrange(first: int, count: int, rows: Any, order: Any, into: Any) -> None:
    """Put ``count`` columns of some rows down in the order that ``order[first:]`` gives."""
    if count:
        _arrange[_threads(count, into)](first, count, rows, order, into)


@kernel("void(float64[:, ::1], uint32)")
def _end_here(position, total):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < WIDTH:
        for axis in range(3):
            position[axis, np.int64(total) + n] = FAR * (n + 1)


def end_here(position: Any, total: int) -> None:
    """Put places where no atom is behind the others, far from each other too."""
    _end_here[_threads(WIDTH, position)](position, total)


@kernel("void(uint32, float64[:, ::1], UniTuple(float64, 3), UniTuple(float64, 3), int64[::1])")
def _first_outside(count, position, low, high, first):  # type: ignore[no-untyped-def]
    i = np.int64(cuda.grid(1))
    if i < count:
        for axis in range(3):
            x = position[axis, i]
            if x < low[axis] or x >= high[axis]:
                cuda.atomic.min(first, 0, i)


def first_outside(count: int, position: Any, low: Any, high: Any) -> int:
    """The first atom that is not in [low, high); -1 where there is none."""
    first = zeros((1,), np.int64, position.stream)
    if count == 0:
        return -1
    _set[_threads(1, first)](1, first, count)
    box = _numbers(low), _numbers(high)
    _first_outside[_threads(count, position)](count, position, *box, first)
    found = int(to_host(first)[0])
    return found if found < count else -1


@kernel("void(uint32, int64[::1], int64)")
def _set(count, values, value):  # type: ignore[no-untyped-def]
    n = np.uint64(cuda.grid(1))
    if n < count:
        values[n] = value


# Pairs of cells ----------------------------------------------------------------------------------


@kernel("void(uint32, uint32, float64[:, ::1], float64[::1], int64)")
def _tell(height, size, rows, buffer, start):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < size:
        for row in range(np.int64(height)):
            # The fourth row of a message is the last of an atom's.
            buffer[start + row * size + n] = rows[row if row < 3 else rows.shape[0] - 1, n]


def tell(rows: Any, told: Any) -> None:
    """Fill a message (3, n), or (4, n) with ids, with positions and with the ids' bits."""
    height, size = told.shape
    _tell[_threads(size, rows)](height, size, rows, told.bundle.buffer, told.start)


@kernel("void(uint32, uint32, float64[::1], int64, UniTuple(float64, 3), float64[:, ::1])")
def _shift(height, size, buffer, start, over, into):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < size:
        for row in range(np.int64(height)):
            value = buffer[start + row * size + n]
            into[row, n] = value + over[row] if row < 3 else value


class Told:
    """What a cell told, as it came, and what is to be added to its positions."""

    def __init__(self, parcel: Any, over: Any, device: Any) -> None:
        self.parcel, self.over, self.device = parcel, over or NO_SHIFT, device
        self.shape = parcel.shape

    @cached_property
    def rows(self) -> Any:
        """An array with the sums; `PairForces` does without."""
        (told,) = self.device.received({(): self.parcel}).values()
        height, size = told.shape
        into = self.device.empty((height, size), np.float64)
        _shift[_threads(size, into)](
            height, size, told.bundle.buffer, told.start, _numbers(self.over), into
        )
        return into


def shifted(told: Any, over: Any, device: Any) -> Told:
    """What a cell told, with ``over`` (3,), or None, added to its positions."""
    return Told(told, over, device)


def rows_of(told: Told) -> Any:
    """What `shifted` gave, as an array."""
    return told.rows


def pair_forces(
    position: Told, others: Told, clusters: Any, starts: Any, neighbors: Any, own: bool,
    cutoff: float, heed: Any,
) -> PairForces:  # fmt: skip
    """The forces on the atoms of all clusters of a cell, not computed yet.

    They are (3, places) int64, where there is a place for each atom and a few more. ``heed`` is
    told if a pair is too close, some time after they have been computed.
    """
    shape, lists = (3, clusters.size * WIDTH), (starts, neighbors)
    return PairForces(_jobs, shape, position, others, lists, own, cutoff, heed)


def pair_forces_in_single(
    position: Told, others: Told, clusters: Any, starts: Any, neighbors: Any, own: bool,
    cutoff: float, heed: Any,
) -> PairForces:  # fmt: skip
    """As `pair_forces`, but what two atoms feel is found in float32, as in `forces_in_single`."""
    shape, lists = (3, clusters.size * WIDTH), (starts, neighbors)
    return PairForces(_jobs_in_single, shape, position, others, lists, own, cutoff, heed)


# Lists -------------------------------------------------------------------------------------------


@inlined
def _bin(value, low, density, bins):  # type: ignore[no-untyped-def]
    """The bin of a coordinate, the first or last where it lies beyond."""
    return min(max(np.int64((value - low) * density), np.int64(0)), bins - 1)


@kernel(
    "void(uint32, float64[:, ::1], UniTuple(float64, 3), UniTuple(float64, 3), UniTuple(int64, 3),"
    "boolean, int64[::1], int64[::1], uint32[::1])"
)
def _count_bins(count, position, low, density, bins, turning, counts, keys, ranks):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i >= count:
        return
    a = _bin(position[0, i], low[0], density[0], bins[0])
    b = _bin(position[1, i], low[1], density[1], bins[1])
    c = _bin(position[2, i], low[2], density[2], bins[2])
    if turning:
        b = bins[1] - 1 - b if a & 1 else b
        c = bins[2] - 1 - c if (a * bins[1] + b) & 1 else c
    key = (a * bins[1] + b) * bins[2] + c
    keys[i] = key
    ranks[i] = cuda.atomic.add(counts, key, 1)


@kernel("void(uint32, int64[::1], int64[::1], uint32[::1], uint32[::1])")
def _fill_bins(count, starts, keys, ranks, order):  # type: ignore[no-untyped-def]
    i = np.uint64(cuda.grid(1))
    if i < count:
        order[starts[keys[i]] + np.int64(ranks[i])] = i


@kernel("void(uint32, int64[::1], uint32[::1])")
def _tidy_bins(bins, starts, order):  # type: ignore[no-untyped-def]
    """Sort each bin by number: which atom came first to a bin is chance. A bin holds one or two."""
    b = np.int64(cuda.grid(1))
    if b < bins:
        for n in range(starts[b] + 1, starts[b + 1]):
            atom, m = order[n], n
            while m > starts[b] and order[m - 1] > atom:
                order[m] = order[m - 1]
                m -= 1
            order[m] = atom


def sort_into_bins(
    count: int, position: Any, low: Any, density: Any, bins: Any, turning: bool, starts: Any,
    order: Any,
) -> None:  # fmt: skip
    """Number atoms bin by bin: bins (x, y, z) in C order, from ``low``, ``density`` per length.

    ``order`` (count,) is set to the atoms as they come, those of bin b from ``starts[b]`` to
    ``starts[b + 1]``. With ``turning`` every other row of bins is walked backwards, so that atoms
    which follow each other are always near each other; ``starts`` then means nothing.
    """
    stream = starts.stream
    _set[_threads(starts.size, starts)](starts.size, starts, 0)
    if count == 0:
        return
    keys, ranks = empty((count,), np.int64, stream), empty((count,), np.uint32, stream)
    grid = _numbers(low), _numbers(density), _numbers(bins, int)
    _count_bins[_threads(count, starts)](count, position, *grid, turning, starts, keys, ranks)
    scan(starts)
    _fill_bins[_threads(count, starts)](count, starts, keys, ranks, order)
    _tidy_bins[_threads(starts.size - 1, starts)](starts.size - 1, starts, order)


@inlined
def _gap(low, high, bin_low, bin_high, outermost):  # type: ignore[no-untyped-def]
    """How far a bin is from [low, high]; an outermost one holds what lies beyond it too."""
    return 0.0 if outermost else max(0.0, bin_low - high, low - bin_high)


@inlined
def _is_near(position, first, xj, yj, zj, reach2):  # type: ignore[no-untyped-def]
    """Whether any atom of a cluster is near a point."""
    for i in range(first, first + np.uint64(WIDTH)):
        dx, dy, dz = position[0, i] - xj, position[1, i] - yj, position[2, i] - zj
        if _distance2(dx, dy, dz) < reach2:
            return True
    return False


@inlined
def _span(values, first, end):  # type: ignore[no-untyped-def]
    """The smallest and largest of some values."""
    low = high = values[first]
    for i in range(first + np.uint64(1), end):
        low, high = min(low, values[i]), max(high, values[i])
    return low, high


@inlined
def _look(  # type: ignore[no-untyped-def]
    position, others, own, first, order, begin, end, reach2, found, filling, neighbors
):
    """Count what is near a cluster of a thread's share of ``order[begin:end]``, and list it."""
    for m in range(begin, end, np.int64(WIDTH)):
        j = order[m]
        mine = own and first <= j and j < first + np.uint64(WIDTH)
        if not mine and _is_near(position, first, others[0, j], others[1, j], others[2, j], reach2):
            if filling:
                neighbors[found] = j
            found += 1
    return found


@kernel(
    "void(uint32, uint32, float64[:, ::1], float64[:, ::1], boolean, UniTuple(float64, 3),"
    "UniTuple(float64, 3), UniTuple(int64, 3), int64[::1], uint32[::1], float64, boolean,"
    "int64[::1], uint32[::1])"
)
def _list(  # type: ignore[no-untyped-def]
    count, clusters, position, others, own, low, density, bins, first_in, order, reach, filling,
    found_before, neighbors,
):  # fmt: skip
    """Every `WIDTH`-th candidate of a cluster: count those that are near, or list them.

    Threads of a cluster look at the same bins side by side, and so at the same atoms of the
    cluster at the same time.
    """
    thread = np.uint32(cuda.grid(1))
    k, member = np.uint64(thread // np.uint32(WIDTH)), np.int64(thread % np.uint32(WIDTH))
    if k >= clusters:
        return
    first = k * np.uint64(WIDTH)
    end = min(first + np.uint64(WIDTH), np.uint64(count))
    x0, x1 = _span(position[0], first, end)
    y0, y1 = _span(position[1], first, end)
    z0, z1 = _span(position[2], first, end)
    wide, high, reach2 = 1.0 / density[0], 1.0 / density[1], mul(reach, reach)
    found = found_before[thread] if filling else np.int64(0)
    for a in range(
        _bin(x0 - reach, low[0], density[0], bins[0]),
        _bin(x1 + reach, low[0], density[0], bins[0]) + 1,
    ):
        edge = low[0] + mul(a, wide)
        gap_x = _gap(x0, x1, edge, edge + wide, a == 0 or a == bins[0] - 1)
        for b in range(
            _bin(y0 - reach, low[1], density[1], bins[1]),
            _bin(y1 + reach, low[1], density[1], bins[1]) + 1,
        ):
            edge = low[1] + mul(b, high)
            gap_y = _gap(y0, y1, edge, edge + high, b == 0 or b == bins[1] - 1)
            left2 = reach2 - mul(gap_x, gap_x) - mul(gap_y, gap_y)
            if left2 >= -ROUNDING:
                left = math.sqrt(max(left2, 0.0)) + ROUNDING
                row = (a * bins[1] + b) * bins[2]
                begin = first_in[row + _bin(z0 - left, low[2], density[2], bins[2])]
                stop = first_in[row + _bin(z1 + left, low[2], density[2], bins[2]) + 1]
                found = _look(
                    position, others, own, first, order, begin + member, stop, reach2, found,
                    filling, neighbors,
                )  # fmt: skip
    if not filling:
        found_before[thread] = found


@kernel("void(uint32, boolean, int64[::1], uint32[::1], int64[::1], uint32[::1])")
def _finish(clusters, own, found_before, neighbors, starts, last):  # type: ignore[no-untyped-def]
    """Where the list of each cluster begins, and its highest number."""
    k = np.int64(cuda.grid(1))
    if k > clusters:
        return
    starts[k] = found_before[k * WIDTH]
    if k < clusters:
        highest = np.uint32((k + 1) * WIDTH - 1 if own else 0)
        for n in range(found_before[k * WIDTH], found_before[(k + 1) * WIDTH]):
            highest = max(highest, neighbors[n])
        last[k] = highest


def fill_lists(
    count: int, position: Any, others: Any, own: bool, low: Any, density: Any, bins: Any,
    first_in: Any, order: Any, reach: float, starts: Any, neighbors: Any, last: Any,
) -> int:  # fmt: skip
    """List for each cluster the ``others`` within reach of any of its atoms, but not its own.

    ``others`` lie in bins as `sort_into_bins` gives them in ``first_in`` and ``order``; ``own``
    says that they are the same atoms as those of the clusters, which then are not listed. Sets
    ``starts`` (clusters + 1,), ``neighbors`` and ``last`` (clusters,), the highest number in each
    list and, if ``own``, cluster. Returns the number of entries, or -1 where there was too little
    room for them. Entries come in another order than on the CPU.
    """
    clusters = starts.size - 1
    found = zeros((clusters * WIDTH + 1,), np.int64, starts.stream)
    grid = _numbers(low), _numbers(density), _numbers(bins, int)
    what = count, clusters, position, others, own, *grid, first_in, order, reach
    launch = _threads(clusters * WIDTH, starts)
    if clusters:
        _list[launch](*what, False, found, neighbors)
    scan(found)
    total = int(to_host(found[clusters * WIDTH :])[0])
    if total > neighbors.size:
        return -1
    if clusters:
        _list[launch](*what, True, found, neighbors)
    _finish[_threads(clusters + 1, starts)](clusters, own, found, neighbors, starts, last)
    return total
