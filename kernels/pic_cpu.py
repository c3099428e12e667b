"""Particles among fixed charges: placing, pushing and sorting them on the CPU.

The particle-in-cell kernel of the Parallel Research Kernels (Georganas, Van der Wijngaart and
Mattson, IPDPS 2016). A mesh point (x, y) holds a charge Q(x, y). A particle of charge q in cell
(i, j) feels the Coulomb force of the cell's four corners, and with unit mass and time step

    a = sum over corners of  q Q r / |r|^3          r from the corner to the particle
    x += v + a / 2          v += a          x modulo the grid's size, y likewise

Particles lie as structure of arrays of which the first ``count`` numbers are in use: ``x``, ``y``
(cells), ``vx``, ``vy`` (cells per step), ``charge``, all float64; ``ids``, ``cells`` (x L + y of
the cell where a particle began), ``motions``, all int64. Those that travel lie in a message
(particles, 8), the eight numbers of a particle side by side, integers as the bits they are.

A push moves 72 B of a particle (x, y, vx, vy both ways, the charge), writes a byte of owner and
reads four mesh charges from two columns. It takes 4 square roots, 4 divisions and about 50 other
operations: the roots and divisions bound it, as long as the charges come from cache. Therefore they
are kept as bytes, in whole numbers of the unit charge, and blocks sort their particles by column
from time to time.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64, njit, uint8, uint64, void

from kernels import DISTINCT
from kernels.state_hash import mix

FLOATS, INTEGERS = float64[::1], int64[::1]
PARTICLES = (FLOATS,) * 5 + (INTEGERS,) * 3
MESSAGE = float64[:, ::1]

SEED = 27182818285  # of the Parallel Research Kernels' linear congruential generator
MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
HALF = 0xFFFFFFFF  # 2^32 - 1, the bound of a draw that decides between 0 and 1
LOST = 255  # owner of a particle that is neither in this block nor next to it


# Random numbers ----------------------------------------------------------------------------------


@njit("uint64(uint64, uint64)", cache=True)
def jump(state, steps):
    """The generator's state ``steps`` numbers on, in O(log steps).

    Applying s -> a s + c twice is s -> a^2 s + (a + 1) c: square the map for each bit of ``steps``.
    """
    factor, increment = np.uint64(MULTIPLIER), np.uint64(INCREMENT)
    while steps:
        if steps & np.uint64(1):
            state = factor * state + increment
        increment = (factor + np.uint64(1)) * increment
        factor = factor * factor
        steps >>= np.uint64(1)
    return state


@njit("int64(float64, uint64, uint64)", cache=True, error_model="numpy", inline="always")
def draw(mean, first, second):
    """A random count of the given mean, made of two states of the generator in a row.

    Below 1: one or none. From 1 on: normally distributed (Box and Muller) with deviation 0.15 mean,
    rounded.
    """
    if mean < 1.0:
        return np.int64(second % np.uint64(HALF) <= np.uint64(mean * HALF))
    whole = np.uint64(0xFFFFFFFFFFFFFFFF)
    u0 = np.float64(first % whole) / np.float64(whole)
    u1 = np.float64(second % whole) / np.float64(whole)
    z = math.sqrt(-2.0 * math.log(u0)) * math.cos(2.0 * math.pi * u1)
    return max(np.int64(0), np.int64(math.floor(0.15 * mean * z + mean + 0.5)))


@njit("void(float64[::1], int64[::1], int64[::1], int64, int64[::1])", cache=True)
def count_columns(means, own, kept, size, counts):
    """How many particles begin in each column of a block: ``counts`` (width,).

    ``means`` (width,): expected particles in a cell of each column. ``own``: the block's cells x0,
    x1, y0, y1 of ``size`` x ``size``; only those in ``kept`` (likewise) keep what was drawn. Every
    cell of the grid takes two numbers of the generator, column by column.
    """
    two, factor, increment = np.uint64(2), np.uint64(MULTIPLIER), np.uint64(INCREMENT)
    for x in range(own[0], own[1]):
        state = jump(np.uint64(SEED), two * np.uint64(x * size + own[2]))
        total = 0
        for y in range(own[2], own[3]):
            first = factor * state + increment
            state = factor * first + increment
            inside = kept[0] <= x < kept[1] and kept[2] <= y < kept[3]
            total += draw(means[x - own[0]], first, state) * inside
        counts[x - own[0]] = total


@njit("void(float64[::1], int64[::1], int64[::1], int64, int64[::1])", cache=True)
def place(means, own, kept, size, cells):
    """The cells in which those particles begin, column by column: ``cells`` (particles,).

    Draws what `count_columns` drew, for that takes less memory than keeping a count per cell.
    """
    two, factor, increment = np.uint64(2), np.uint64(MULTIPLIER), np.uint64(INCREMENT)
    at = 0
    for x in range(own[0], own[1]):
        state = jump(np.uint64(SEED), two * np.uint64(x * size + own[2]))
        for y in range(own[2], own[3]):
            first = factor * state + increment
            state = factor * first + increment
            if kept[0] <= x < kept[1] and kept[2] <= y < kept[3]:
                for _ in range(draw(means[x - own[0]], first, state)):
                    cells[at] = x * size + y
                    at += 1


@njit(
    "void(int64, int64, int64[::1], int64, int64, float64, float64[::1], float64[::1],"
    "float64[::1], float64[::1], float64[::1])",
    cache=True,
)
def start(first, count, cells, size, drift, force, x, y, vx, vy, charge):
    """Put particles ``first`` to ``count`` at the centres of their ``cells``, moving by ``drift``.

    ``force``: the charge that makes the mesh move a particle as asked, positive in even columns.
    """
    for n in range(first, count):
        column, row = cells[n] // size, cells[n] % size
        x[n], y[n] = column + 0.5, row + 0.5
        vx[n], vy[n] = 0.0, drift
        charge[n] = force if column % 2 == 0 else -force


# Pushing -----------------------------------------------------------------------------------------


@njit(
    "void(int64, float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    "int8[:, ::1], float64[::1], float64, uint8[::1])",
    cache=True,
    error_model="numpy",
    **DISTINCT,
)
def push(count, x, y, vx, vy, charge, mesh, frame, size, owners):
    """Move ``count`` particles by one step and say in which block each of them is then.

    ``mesh`` (width + 1, height + 1): the charges at the corners of the block's cells. ``frame``:
    x0, x1, y0, y1 of those cells, then the sides beyond which a particle is in the block before,
    the next and the next but one along x, and before and next along y; infinite where there is no
    other. ``owners`` (count,): 3 (1 + blocks along x) + (1 + blocks along y), or `LOST`.
    """
    x0, x1, y0, y1 = frame[0], frame[1], frame[2], frame[3]
    left, right, beyond, below, above = frame[4], frame[5], frame[6], frame[7], frame[8]
    height = np.uint64(mesh.shape[1])
    corners = mesh.reshape(mesh.size)
    for n in range(count):
        column, row = math.floor(x[n]), math.floor(y[n])
        corner = np.uint64(column - x0) * height + np.uint64(row - y0)
        dx, dy = x[n] - column, y[n] - row
        ex, ey = dx - 1.0, dy - 1.0
        near, high = dx * dx + dy * dy, dx * dx + ey * ey
        far, both = ex * ex + dy * dy, ex * ex + ey * ey
        f00 = corners[corner] / (near * math.sqrt(near))
        f01 = corners[corner + np.uint64(1)] / (high * math.sqrt(high))
        f10 = corners[corner + height] / (far * math.sqrt(far))
        f11 = corners[corner + height + np.uint64(1)] / (both * math.sqrt(both))
        ax = charge[n] * (dx * (f00 + f01) + ex * (f10 + f11))
        ay = charge[n] * (dy * (f00 + f10) + ey * (f01 + f11))
        to_x, to_y = x[n] + (vx[n] + 0.5 * ax), y[n] + (vy[n] + 0.5 * ay)
        vx[n] += ax
        vy[n] += ay
        along_x = 1 + (to_x >= right) + (to_x >= beyond) - (to_x < left)
        along_y = 1 + (to_y >= above) - (to_y < below)
        to_x -= size * ((to_x >= size) + (to_x >= 2.0 * size) - (to_x < 0.0))
        to_y -= size * ((to_y >= size) + (to_y >= 2.0 * size) - (to_y < 0.0))
        x[n], y[n] = to_x, to_y
        owner = 3 * along_x + along_y
        here = (to_x >= x0) & (to_x < x1) & (to_y >= y0) & (to_y < y1)
        owners[n] = owner if here | (owner != 4) else LOST


# Order -------------------------------------------------------------------------------------------


@njit("int64(uint8[::1], boolean[::1], int64[::1], int64[::1])", cache=True)
def find_leaving(owners, known, counts, leaving):
    """List the places of the particles that leave; ``counts`` (256,): how many, per owner.

    Returns how many leave, even if ``leaving`` has room for fewer; or, of the first particle whose
    owner is not ``known`` (256,), its place n as -1 - n. Looks at eight owners at a time, since
    nearly all particles stay (owner 4).
    """
    counts[:] = 0
    total = 0
    eights = owners[: owners.size // 8 * 8].view(np.uint64)
    for n in range(eights.size + 1):
        if n < eights.size and eights[n] == np.uint64(0x0404040404040404):
            continue
        for k in range(8 * n, min(8 * n + 8, owners.size)):
            if owners[k] != 4:
                if not known[owners[k]]:
                    return -1 - k
                counts[owners[k]] += 1
                if total < leaving.size:
                    leaving[total] = k
                total += 1
    return total


@njit(void(INTEGERS, uint8[::1], int64, *PARTICLES, MESSAGE), cache=True)
def pack(leaving, owners, owner, x, y, vx, vy, charge, ids, cells, motions, message):
    """Copy those of the ``leaving`` particles that go to ``owner`` into a message."""
    bits = message.view(np.int64)
    at = 0
    for n in leaving:
        if owners[n] == owner:
            message[at, 0], message[at, 1], message[at, 2] = x[n], y[n], vx[n]
            message[at, 3], message[at, 4] = vy[n], charge[n]
            bits[at, 5], bits[at, 6], bits[at, 7] = ids[n], cells[n], motions[n]
            at += 1


@njit(int64(MESSAGE, FLOATS, INTEGERS, int64, *PARTICLES), cache=True)
def unpack(message, frame, gaps, count, x, y, vx, vy, charge, ids, cells, motions):
    """Put a message into the ``gaps`` and, when those are full, behind ``count`` particles.

    Returns the first row that does not belong here, or -1. ``frame`` begins with the block's cells
    x0, x1, y0, y1.
    """
    bits = message.view(np.int64)
    for n in range(message.shape[0]):
        to_x, to_y = message[n, 0], message[n, 1]
        if not (frame[0] <= to_x < frame[1] and frame[2] <= to_y < frame[3]):
            return n
        at = gaps[n] if n < gaps.size else count + n - gaps.size
        x[at], y[at], vx[at], vy[at] = to_x, to_y, message[n, 2], message[n, 3]
        charge[at] = message[n, 4]
        ids[at], cells[at], motions[at] = bits[n, 5], bits[n, 6], bits[n, 7]
    return -1


@njit(void(int64, INTEGERS, *PARTICLES), cache=True)
def close_gaps(count, gaps, x, y, vx, vy, charge, ids, cells, motions):
    """Move the last of ``count`` particles into the ``gaps``, which are in ascending order."""
    last, final = count - 1, gaps.size - 1
    for n in range(gaps.size):
        while final >= n and gaps[final] == last:
            last -= 1
            final -= 1
        gap = gaps[n]
        if gap >= last:
            return
        x[gap], y[gap], vx[gap], vy[gap], charge[gap] = (
            x[last],
            y[last],
            vx[last],
            vy[last],
            charge[last],
        )
        ids[gap], cells[gap], motions[gap] = ids[last], cells[last], motions[last]
        last -= 1


@njit("void(int64, float64[::1], float64, int64[::1], int32[::1])", cache=True)
def places_by_column(count, x, x0, starts, places):
    """Where each particle goes so that they lie column by column: ``places`` (count,).

    ``starts`` (width + 1,) is work space. A counting sort; it keeps the order within a column.
    """
    starts[:] = 0
    for n in range(count):
        starts[np.int64(x[n] - x0) + 1] += 1
    for column in range(1, starts.size):
        starts[column] += starts[column - 1]
    for n in range(count):
        mine = np.int64(x[n] - x0)
        places[n] = starts[mine]
        starts[mine] += 1


@njit("void(int64, int32[::1], uint64[::1], uint64[::1])", cache=True)
def move(count, places, values, moved):
    """Put each of ``count`` values into its place."""
    for n in range(count):
        moved[places[n]] = values[n]


# Events and checks -------------------------------------------------------------------------------


@njit("boolean(int64, uint64, uint64)", cache=True, inline="always")
def chosen(particle, seed, limit):
    """Whether a removal takes the particle of that id: it takes ``limit`` + 1 of 2^64 hashes."""
    return mix(np.uint64(particle) + seed) <= limit


@njit(
    int64(int64, FLOATS, FLOATS, INTEGERS, INTEGERS, uint64, uint64, INTEGERS),
    cache=True,
)
def find_removed(count, x, y, ids, patch, seed, limit, removed):
    """List the places of the particles that a removal takes from a ``patch``; returns how many.

    ``patch``: cells x0, x1, y0, y1. ``removed`` (count,). By where the particles are.
    """
    total = 0
    for n in range(count):
        if patch[0] <= x[n] < patch[1] and patch[2] <= y[n] < patch[3]:
            if chosen(ids[n], seed, limit):
                removed[total] = n
                total += 1
    return total


@njit(
    "void(int64[::1], int64[::1], boolean[::1], int64, int64[::1], int64[::1], uint64, uint64,"
    "uint64[::1])",
    cache=True,
)
def foresee_removed(cells, ids, alive, size, shift, patch, seed, limit, sums):
    """Find which of newly begun particles a removal will take; they are no longer ``alive``.

    By arithmetic of integers alone: a particle will have moved by ``shift`` cells along x and y.
    Adds to ``sums`` the number of them, of their ids, and of their mixed ids.
    """
    for n in range(cells.size):
        x, y = (cells[n] // size + shift[0]) % size, (cells[n] % size + shift[1]) % size
        if alive[n] and patch[0] <= x < patch[1] and patch[2] <= y < patch[3]:
            if chosen(ids[n], seed, limit):
                alive[n] = False
                sums[0] += np.uint64(1)
                sums[1] += np.uint64(ids[n])
                sums[2] += mix(np.uint64(ids[n]))


@njit(
    "float64(int64, float64[::1], float64[::1], int64[::1], int64[::1], int64[:, ::1], float64)",
    cache=True,
    error_model="numpy",
)
def largest_error(count, x, y, cells, motions, shifts, size):
    """How far the particle that is farthest off is from where it must be, in cells; NaN for NaN.

    ``shifts`` (motions, 2): cells that a particle of each motion has moved along x and y. Distances
    are those on the periodic grid.
    """
    worst = 0.0
    edge = np.int64(size)
    for n in range(count):
        to_x = (cells[n] // edge + shifts[motions[n], 0]) % edge + 0.5
        to_y = (cells[n] % edge + shifts[motions[n], 1]) % edge + 0.5
        off_x, off_y = abs(x[n] - to_x), abs(y[n] - to_y)
        off = max(min(off_x, size - off_x), min(off_y, size - off_y))
        if math.isnan(x[n] + y[n]):
            return math.nan
        worst = max(worst, off)
    return worst
