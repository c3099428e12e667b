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

import math
from typing import Any

import numpy as np
from numba import boolean, float64, int64, types, uint32, uint64, void

from devices.cpu.compiler import DISTINCT, njit
from devices.cpu.vectors import WIDTH, bits, every, fma, lane, load, numbers, some, store, where
from devices.cpu.vectors import fused as fused
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
    QUIET,
    ROUNDING,
    STRAY,
    VIRIAL_MAGIC,
    VIRIAL_ZERO,
)
from kernels.state_hash.cpu import mix

NOBODY = 1 << 62  # number of no atom

ROWS, WHOLE = float64[:, ::1], int64[:, ::1]
SEEN = types.Array(float64, 2, "C", readonly=True)  # rows that a kernel only reads
FLOATS, INTS, INDICES = float64[::1], int64[::1], uint32[::1]
ROW, NUMBERS = (types.Array(kind, 1, "C", readonly=True) for kind in (float64, uint32))


# Forces ------------------------------------------------------------------------------------------


@njit(inline="always")
def _inverse6(dx, dy, dz, there, cutoff2):
    """r^2, 1 / r^2 and 1 / r^6; the latter two zero beyond the cutoff and where no pair is."""
    r2 = where(there, fma(dz, dz, fma(dy, dy, dx * dx)), every(FAR))
    inverse2 = where(r2 < cutoff2, every(1.0) / r2, every(0.0))
    return r2, inverse2, inverse2 * inverse2 * inverse2


@njit(inline="always")
def _add_forces(dx, dy, dz, there, cutoff2, sums):
    """Add what four atoms feel from another one to (fx, fy, fz, closest r^2 so far)."""
    fx, fy, fz, closest = sums
    r2, inverse2, inverse6 = _inverse6(dx, dy, dz, there, cutoff2)
    pull = fma(every(48.0), inverse6, every(-24.0)) * (inverse6 * inverse2)
    magic = every(FORCE_MAGIC)
    return (
        fx + bits(fma(pull, dx, magic)),
        fy + bits(fma(pull, dy, magic)),
        fz + bits(fma(pull, dz, magic)),
        where(r2 < closest, r2, closest),
    )


@njit
def _closest(position, others, clusters, starts, neighbors, own):
    """The closest pair of some clusters, as alarms have it; for the end of a run, so not fast."""
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
    alarms,
):  # fmt: skip
    """Set the forces on the atoms of some ``clusters``, and say if a pair is too close.

    ``others`` are the positions that the lists count, those of the block itself or of another;
    ``own`` says whether the atoms of a cluster meet each other too.
    """
    x, y, z = position[0], position[1], position[2]
    ox, oy, oz = others[0], others[1], others[2]
    cutoff2, always = every(cutoff * cutoff), numbers() != every(-1)
    closest = every(FAR)
    for c in range(np.uint64(first_cluster), np.uint64(end_cluster)):
        k = clusters[c]
        first = np.uint64(k) * np.uint64(WIDTH)
        xi, yi, zi = load(x, first), load(y, first), load(z, first)
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + 1])
        zero = every(-(np.int64(end - begin) + WIDTH * np.int64(own)) * FORCE_ZERO)
        sums = zero, zero, zero, closest
        for n in range(begin, end):
            j = neighbors[n]
            dx, dy, dz = xi - every(ox[j]), yi - every(oy[j]), zi - every(oz[j])
            sums = _add_forces(dx, dy, dz, always, cutoff2, sums)
        for member in range(WIDTH * own):
            j = first + np.uint64(member)
            dx, dy, dz = xi - every(x[j]), yi - every(y[j]), zi - every(z[j])
            sums = _add_forces(dx, dy, dz, numbers() != every(member), cutoff2, sums)
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
        alarms[CLOSE] = min(alarms[CLOSE], pair)


_QUIET = np.array(QUIET)


def pair_forces(
    position: Any, others: Any, clusters: Any, starts: Any, neighbors: Any, own: bool,
    cutoff: float, heed: Any,
) -> Any:  # fmt: skip
    """The forces on the atoms of all clusters of a cell; ``heed`` is told if a pair is too close.

    They are (3, places) int64, where there is a place for each atom and a few more.
    """
    count = clusters.size
    force, alarms = np.empty((3, count * WIDTH), np.int64), _QUIET.copy()
    forces(position, others, clusters, 0, count, starts, neighbors, own, cutoff, force, alarms)
    if alarms[CLOSE] != QUIET[CLOSE]:
        heed(int(alarms[CLOSE]))
    return force


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
    u = fma(every(4.0), inverse6, every(-4.0)) * inverse6
    w = fma(every(48.0), inverse6, every(-24.0)) * inverse6
    return (
        energy + bits(u + every(ENERGY_MAGIC)),
        virial + bits(w + every(VIRIAL_MAGIC)),
        pairs + where(r2 < cutoff2, every(1), every(0)),
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
    cutoff2, always = every(cutoff * cutoff), numbers() != every(-1)
    for k in range((count + WIDTH - 1) // WIDTH):
        first = np.uint64(k) * np.uint64(WIDTH)
        xi, yi, zi = load(x, first), load(y, first), load(z, first)
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + 1])
        terms = np.int64(end - begin) + WIDTH * np.int64(own)
        sums = every(-terms * ENERGY_ZERO), every(-terms * VIRIAL_ZERO), every(0)
        for n in range(begin, end):
            j = neighbors[n]
            dx, dy, dz = xi - every(ox[j]), yi - every(oy[j]), zi - every(oz[j])
            sums = _add_energies(dx, dy, dz, always, cutoff2, sums)
        for member in range(WIDTH * own):
            j = first + np.uint64(member)
            dx, dy, dz = xi - every(x[j]), yi - every(y[j]), zi - every(z[j])
            sums = _add_energies(dx, dy, dz, numbers() != every(member), cutoff2, sums)
        energy, virial, pairs = sums
        for number in range(min(WIDTH, count - k * WIDTH)):
            _add_wide(totals, 0, lane(energy, number))
            _add_wide(totals, 2, lane(virial, number))
            _add_wide(totals, 4, lane(pairs, number))


# Motion ------------------------------------------------------------------------------------------


@njit(
    void(int64, ROWS, ROWS, WHOLE, ROWS, float64, float64, float64, INTS),
    cache=True, error_model="numpy", **DISTINCT,
)  # fmt: skip
def kick_and_drift(count, position, velocity, force, origin, dt, grain, allowed2, alarms):
    """Half a step for the velocities, then a whole one for the positions, by multiples of a grain.

    Says how far the farthest atom is from its ``origin`` if that squared is more than is allowed;
    no number, where one is.
    """
    half = 0.5 * dt * FORCE_UNIT
    magic = 1.5 * 2.0**52 * grain
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
        # As bits, floats that are not negative keep their order and those that are no numbers,
        # which have any sign, come last: a maximum that vectorises and loses none of them.
        far = uint64(bits(dx * dx + dy * dy + dz * dz))
        farthest = max(far, farthest)
    if farthest > uint64(bits(allowed2)):
        alarms[STRAY] = max(alarms[STRAY], int64(farthest & uint64((1 << 63) - 1)))


@njit(void(int64, ROWS, WHOLE, float64), cache=True, **DISTINCT)
def kick(count, velocity, force, dt):
    """Half a step for the velocities."""
    half = 0.5 * dt * FORCE_UNIT
    for axis in range(3):
        v, f = velocity[axis], force[axis]
        for i in range(count):
            v[i] = fma(half, float64(f[i]), v[i])


@njit(void(int64, ROWS, WHOLE, INTS, INTS), cache=True)
def sums_of_motion(count, velocity, force, totals, alarms):
    """Add up v^2 (two integers, as `energies`), velocities and forces along each axis.

    ``totals`` (8,), in units of `ENERGY_UNIT`, `ENERGY_UNIT` and `FORCE_UNIT`. Says if an atom is
    too fast for that.
    """
    for i in range(count):
        v2 = 0.0
        for axis in range(3):
            v = velocity[axis, i]
            v2 = fma(v, v, v2)
            if abs(v) > FASTEST:
                alarms[FAST] = min(alarms[FAST], i)
            totals[2 + axis] += int64(np.rint(v / ENERGY_UNIT))
            totals[5 + axis] += force[axis, i]
        _add_wide(totals, 0, int64(np.rint(v2 / ENERGY_UNIT)))


@njit(void(INTS, uint64, ROWS), cache=True)
def draw(ids, seed, numbers):
    """Three numbers from -1/2 to 1/2 for each atom, which follow from its id alone; (3, n)."""
    for i in range(ids.size):
        for axis in range(3):
            drawn = mix(seed + mix(np.uint64(3 * ids[i] + axis)))
            numbers[axis, i] = (int64(drawn >> np.uint64(24)) - (1 << 39)) * 2.0**-40


@njit(void(int64, ROWS, FLOATS, float64), cache=True)
def adjust(count, velocity, drift, factor):
    """Take a drift, (3,), away from all velocities, and multiply what is left."""
    for axis in range(3):
        for i in range(count):
            velocity[axis, i] = (velocity[axis, i] - drift[axis]) * factor


# Moving atoms about ------------------------------------------------------------------------------


@njit([(int64, ROW, float64, float64, INDICES), (int64, NUMBERS, float64, float64, INDICES)],
      cache=True)  # fmt: skip
def choose(count, values, below, above, which):
    """Number the values that are less than ``below``, then those from ``above`` on, then the rest.

    The numbers go to ``which``, as many as there may be, each group in order. Returns how many
    there are of each.
    """
    low = high = rest = 0
    for n in range(count):
        low += values[n] < below
        high += values[n] >= above
    a, b, c = 0, low, low + high
    for n in range(count):
        under, over = values[n] < below, values[n] >= above
        if under:
            which[a] = n
            a += 1
        if over:
            which[b] = n
            b += 1
        if not (under or over):
            which[c + rest] = n
            rest += 1
    return low, high, rest


@njit(void(SEEN, INDICES, int64, int64, float64, ROWS), cache=True)
def _gather(rows, which, first, axis, over, message):
    """One message of `gather`."""
    for row in range(message.shape[0]):
        values, into = rows[row], message[row]
        for n in range(into.size):
            into[n] = values[which[first + n]]
    for n in range(message.shape[1]):
        message[axis, n] += over


def gather(rows: Any, which: Any, sizes: Any, axis: int, over: Any, messages: Any) -> None:
    """Fill two messages (m, size) with the first m ``rows`` of the atoms of which one is told.

    ``which`` holds ``sizes[0]`` numbers of atoms for the first message, then those for the second;
    ``over``, one number for each message, is added along an axis.
    """
    _gather(rows, which, 0, axis, over[0], messages[0])
    _gather(rows, which, sizes[0], axis, over[1], messages[1])


def place(rows: Any, first: int, parts: Any) -> None:
    """Put one or two messages (m, size) down in the first m rows, from column ``first`` on."""
    for part in parts:
        rows[: part.shape[0], first : first + part.shape[1]] = part
        first += part.shape[1]


@njit(void(int64, int64, SEEN, INDICES, ROWS), cache=True)
def arrange(first, count, rows, order, into):
    """Put ``count`` columns of some rows down in the order that ``order[first:]`` gives."""
    for row in range(into.shape[0]):
        values, here = rows[row], into[row]
        for n in range(count):
            here[n] = values[order[first + n]]


@njit(void(ROWS, int64), cache=True)
def end_here(position, total):
    """Put places where no atom is behind the others, far from each other too."""
    for axis in range(3):
        for n in range(WIDTH):
            position[axis, total + n] = FAR * (n + 1)


@njit(int64(int64, SEEN, FLOATS, FLOATS), cache=True)
def first_outside(count, position, low, high):
    """The first atom that is not in [low, high); -1 where there is none."""
    for i in range(count):
        for axis in range(3):
            if position[axis, i] < low[axis] or position[axis, i] >= high[axis]:
                return i
    return -1


def tell(rows: Any, told: Any) -> None:
    """Fill a message (3, n), or (4, n) with ids, with positions and with the ids' bits."""
    told[:3] = rows[:3, : told.shape[1]]
    told[3:] = rows[-1, : told.shape[1]]


def shifted(told: Any, over: Any, device: Any) -> Any:
    """What a cell told, with ``over`` (3,) added to its positions; the same array for None."""
    if over is None:
        return told
    moved = told.copy()
    moved[:3] += np.array(over)[:, np.newaxis]
    return moved


def rows_of(told: Any) -> Any:
    """What `shifted` gave, as an array."""
    return told


# Lists -------------------------------------------------------------------------------------------


@njit(inline="always")
def _place(value, low, density, bins):
    """The bin of a coordinate, the first or last where it lies beyond."""
    return min(max(int64((value - low) * density), 0), bins - 1)


@njit(void(int64, SEEN, FLOATS, FLOATS, INTS, boolean, INTS, INDICES), cache=True)
def sort_into_bins(count, position, low, density, bins, turning, starts, order):
    """Number atoms bin by bin: bins (x, y, z) in C order, from ``low``, ``density`` per length.

    ``order`` (count,) is set to the atoms as they come, those of bin b from ``starts[b]`` to
    ``starts[b + 1]``. With ``turning`` every other row of bins is walked backwards, so that atoms
    which follow each other are always near each other; ``starts`` then means nothing.
    """
    keys = np.empty(count, np.uint32)
    starts[:] = 0
    for i in range(count):
        a = _place(position[0, i], low[0], density[0], bins[0])
        b = _place(position[1, i], low[1], density[1], bins[1])
        c = _place(position[2, i], low[2], density[2], bins[2])
        if turning:
            b = bins[1] - 1 - b if a & 1 else b
            c = bins[2] - 1 - c if (a * bins[1] + b) & 1 else c
        keys[i] = (a * bins[1] + b) * bins[2] + c
        starts[keys[i] + 1] += 1
    for b in range(starts.size - 1):
        starts[b + 1] += starts[b]
    for i in range(count):
        order[starts[keys[i]]] = i
        starts[keys[i]] += 1
    for b in range(starts.size - 1, 0, -1):
        starts[b] = starts[b - 1]
    starts[0] = 0


@njit(inline="always")
def _span(values, first, last):
    """The smallest and largest of some values."""
    low = high = values[first]
    for i in range(first + 1, last):
        low, high = min(low, values[i]), max(high, values[i])
    return low, high


@njit(inline="always")
def _gap(low, high, bin_low, bin_high, outermost):
    """How far a bin is from [low, high]; an outermost one holds what lies beyond it too."""
    return 0.0 if outermost else max(0.0, bin_low - high, low - bin_high)


@njit(inline="always")
def _list_near(position, others, own, first, order, begin, stop, reach, neighbors, found):
    """Append those of ``order[begin:stop]`` that are near a cluster; returns how many are listed.

    Each is written and then counted or not, for a branch would be guessed wrong every third time.
    """
    start, reach2 = np.uint64(first), every(reach * reach)
    mine = start if own else np.uint64(NOBODY)
    xi, yi, zi = load(position[0], start), load(position[1], start), load(position[2], start)
    for m in range(np.uint64(begin), np.uint64(stop)):
        j = order[m]
        dx = xi - every(others[0, j])
        dy = yi - every(others[1, j])
        dz = zi - every(others[2, j])
        near = some(fma(dz, dz, fma(dy, dy, dx * dx)) < reach2)
        neighbors[found] = j
        found += np.uint64(near & (np.uint64(j) - mine >= np.uint64(WIDTH)))
    return found


@njit(
    int64(
        int64, SEEN, SEEN, boolean, FLOATS, FLOATS, INTS, INTS, INDICES, float64, INTS, INDICES,
        INDICES,
    ),
    cache=True, error_model="numpy", **DISTINCT,
)  # fmt: skip
def fill_lists(
    count, position, others, own, low, density, bins, first_in, order, reach,
    starts, neighbors, last,
):  # fmt: skip
    """List for each cluster the ``others`` within reach of any of its atoms, but not its own.

    ``others`` lie in bins as `sort_into_bins` gives them in ``first_in`` and ``order``; ``own``
    says that they are the same atoms as those of the clusters, which then are not listed. Sets
    ``starts`` (clusters + 1,), ``neighbors`` and ``last`` (clusters,), the highest number in each
    list and, if ``own``, cluster. Returns the number of entries, or -1 where there was too little
    room for them.
    """
    x, y, z = position[0], position[1], position[2]
    wide, high = 1.0 / density[0], 1.0 / density[1]
    found = np.uint64(0)
    for k in range(starts.size - 1):
        starts[k] = found
        first, end = k * WIDTH, min(count, (k + 1) * WIDTH)
        (x0, x1), (y0, y1), (z0, z1) = (
            _span(x, first, end), _span(y, first, end), _span(z, first, end),
        )  # fmt: skip
        rows = (
            _place(x0 - reach, low[0], density[0], bins[0]),
            _place(x1 + reach, low[0], density[0], bins[0]) + 1,
            _place(y0 - reach, low[1], density[1], bins[1]),
            _place(y1 + reach, low[1], density[1], bins[1]) + 1,
        )
        for a in range(rows[0], rows[1]):
            edge = low[0] + a * wide
            gap_x = _gap(x0, x1, edge, edge + wide, a == 0 or a == bins[0] - 1)
            for b in range(rows[2], rows[3]):
                edge = low[1] + b * high
                gap_y = _gap(y0, y1, edge, edge + high, b == 0 or b == bins[1] - 1)
                left2 = reach * reach - gap_x * gap_x - gap_y * gap_y
                if left2 < -ROUNDING:
                    continue
                left = math.sqrt(max(left2, 0.0)) + ROUNDING
                row = (a * bins[1] + b) * bins[2]
                begin = first_in[row + _place(z0 - left, low[2], density[2], bins[2])]
                stop = first_in[row + _place(z1 + left, low[2], density[2], bins[2]) + 1]
                if np.int64(found) + stop - begin > neighbors.size:
                    return -1
                found = _list_near(
                    position, others, own, first, order, begin, stop, reach, neighbors, found
                )
        highest = np.uint32((first + WIDTH - 1) * own)
        for m in range(np.uint64(starts[k]), found):
            highest = max(highest, neighbors[m])
        last[k] = highest
    starts[starts.size - 1] = found
    return found
