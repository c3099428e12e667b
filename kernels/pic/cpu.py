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

A push of one step moves 72 B of a particle (x, y, vx, vy both ways, the charge), writes a byte of
owner and reads four mesh charges from two columns. It takes 4 square roots, 4 divisions and about
50 other operations: the roots and divisions bound it, as long as the charges come from cache.
Therefore they are kept as bytes, in whole numbers of the unit charge, and blocks sort their
particles by column from time to time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import float64, int64, uint8, uint64, void

from devices.cpu.compiler import DISTINCT, njit
from kernels.pic.tally import ASTRAY, HERE, LEFT, LOST, MISPLACED, owner_at
from kernels.state_hash.cpu import mix
from kernels.state_hash.cpu import sums_of_ids as sums_of_ids

FLOATS, INTEGERS = float64[::1], int64[::1]
PARTICLES = (FLOATS,) * 5 + (INTEGERS,) * 3
MESSAGE = float64[:, ::1]

SEED = 27182818285  # of the Parallel Research Kernels' linear congruential generator
MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
CHUNK = 512  # particles that make several steps together
HALF = 0xFFFFFFFF  # 2^32 - 1, the bound of a draw that decides between 0 and 1


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


@njit(void(int64, INTEGERS, INTEGERS, int64, int64, float64, float64, *PARTICLES), cache=True)
def start(
    first, numbers, begin, motion, size, drift, force, x, y, vx, vy, charge, ids, cells, motions
):
    """Put particles of those ``numbers`` at the centres of the cells where they ``begin``.

    They take the places from ``first`` on and move by ``drift`` along y. ``force``: the charge that
    makes the mesh move a particle as asked, positive in even columns.
    """
    for n in range(numbers.size):
        at, column, row = first + n, begin[n] // size, begin[n] % size
        x[at], y[at] = column + 0.5, row + 0.5
        vx[at], vy[at] = 0.0, drift
        charge[at] = force if column % 2 == 0 else -force
        ids[at], cells[at], motions[at] = numbers[n], begin[n], motion


# Pushing -----------------------------------------------------------------------------------------


@njit(inline="always")
def ahead(place, start, size):
    """How far a coordinate lies from a start, forward on the periodic grid."""
    apart = place - start
    return apart + size if apart < 0 else apart


@njit(inline="always")
def owner_of(x, y, frame, size):
    """Who owns a particle at (x, y); `push` says what is in a ``frame``."""
    right, up = ahead(x, frame[0], size), ahead(y, frame[2], size)
    owner = HERE + 3 * ((right >= frame[1] - frame[0]) + (right >= frame[4]))
    owner += (up >= frame[3] - frame[2]) - 2 * (up >= frame[7])
    known = (x >= 0.0) & (right < frame[5])
    known &= (y >= 0.0) & (up < size) & ((up < frame[6]) | (up >= frame[7]))
    return owner if known else LOST


@njit(
    "void(int64, int64, float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    "int8[:, ::1], float64[::1], float64, uint8[::1])",
    cache=True,
    error_model="numpy",
    **DISTINCT,
)
def _move(count, steps, x, y, vx, vy, charge, mesh, frame, size, owners):
    """Move ``count`` particles by some ``steps`` and say in which block each of them is then.

    ``mesh``, ``frame``: see `push`. ``owners`` (count,): as `kernels.pic.tally` numbers them.
    Particles make all steps a chunk at a time, so that in the second step they come from L1.
    """
    height, corners = np.uint64(mesh.shape[1]), mesh.reshape(mesh.size)
    inside = np.uint64(mesh.size) - height - np.uint64(1)
    for start in range(0, count, CHUNK):
        first, end = np.uint64(start), np.uint64(min(start + CHUNK, count))
        for _ in range(steps):
            for n in range(first, end):
                column, row = math.floor(x[n]), math.floor(y[n])
                right, up = ahead(column, frame[0], size), ahead(row, frame[8], size)
                corner = np.uint64(right) * height + np.uint64(up)
                corner = corner if corner < inside else np.uint64(0)
                dx, dy = x[n] - column, y[n] - row
                ex, ey = dx - 1.0, dy - 1.0
                near, top = dx * dx + dy * dy, dx * dx + ey * ey
                side, both = ex * ex + dy * dy, ex * ex + ey * ey
                f00 = corners[corner] / (near * math.sqrt(near))
                f01 = corners[corner + np.uint64(1)] / (top * math.sqrt(top))
                f10 = corners[corner + height] / (side * math.sqrt(side))
                f11 = corners[corner + height + np.uint64(1)] / (both * math.sqrt(both))
                ax = charge[n] * (dx * (f00 + f01) + ex * (f10 + f11))
                ay = charge[n] * (dy * (f00 + f10) + ey * (f01 + f11))
                to_x, to_y = x[n] + (vx[n] + 0.5 * ax), y[n] + (vy[n] + 0.5 * ay)
                vx[n] += ax
                vy[n] += ay
                x[n] = to_x - size * ((to_x >= size) + (to_x >= 2.0 * size) - (to_x < 0.0))
                y[n] = to_y - size * ((to_y >= size) + (to_y >= 2.0 * size) - (to_y < 0.0))
        for n in range(first, end):
            owners[n] = owner_of(x[n], y[n], frame, size)


def push(
    count: int, steps: int, x: Any, y: Any, vx: Any, vy: Any, charge: Any, mesh: Any,
    frame: np.ndarray, size: float, known: int, owners: Any, tally: Any, leaving: Any,
) -> None:  # fmt: skip
    """Move ``count`` particles by some ``steps``, and list and count those that leave.

    ``mesh``: the charges at the corners of the block's cells, and of as many above, below and to
    the right as particles may get to before their last step. ``frame`` (9,): the block's cells x0,
    x1, y0, y1; counted from x0, where the next block but one begins and where that ends; counted
    from y0, where the block above ends and where the one below begins; and the mesh's lowest row.
    All are of the periodic grid of ``size`` cells. ``known``: see `find_leaving`.
    """
    _move(count, steps, x, y, vx, vy, charge, mesh, frame, size, owners)
    find_leaving(count, owners, known, tally, leaving)


# Leaving and coming ------------------------------------------------------------------------------


@njit("void(int64, uint8[::1], int64, int64[::1], int64[::1])", cache=True)
def find_leaving(count, owners, known, tally, leaving):
    """List the places of the particles that leave, and count them in the ``tally``, by owner.

    It counts how many leave even if ``leaving`` has room for fewer. ``known``: the owners that
    there are, one bit each; the first particle that went to another one ends the search. Looks at
    eight owners at a time, since nearly all particles stay.
    """
    tally[: LEFT + 1] = 0
    total = 0
    eights = owners[: count // 8 * 8].view(np.uint64)
    for n in range(eights.size + 1):
        if n < eights.size and eights[n] == np.uint64(0x0101010101010101 * HERE):
            continue
        for k in range(8 * n, min(8 * n + 8, count)):
            if owners[k] != HERE:
                if not known >> owners[k] & 1:
                    tally[ASTRAY] = k
                    return
                tally[owners[k]] += 1
                if total < leaving.size:
                    leaving[total] = k
                total += 1
    tally[LEFT] = total


@njit(void(MESSAGE, INTEGERS, uint8[::1], int64, *PARTICLES), cache=True)
def _pack(message, leaving, owners, owner, x, y, vx, vy, charge, ids, cells, motions):
    """Copy those of the ``leaving`` particles that go to ``owner`` into a message."""
    bits = message.view(np.int64)
    at = 0
    for n in leaving:
        if owners[n] == owner:
            message[at, 0], message[at, 1], message[at, 2] = x[n], y[n], vx[n]
            message[at, 3], message[at, 4] = vy[n], charge[n]
            bits[at, 5], bits[at, 6], bits[at, 7] = ids[n], cells[n], motions[n]
            at += 1


def pack(
    total: int, leaving: Any, owners: Any, tally: Any, arrays: tuple[Any, ...],
    messages: Mapping[Any, Any],
) -> None:  # fmt: skip
    """Copy the first ``total`` of the ``leaving`` particles into the message of their owner's edge.

    ``arrays``: the particles'. Each message (particles, 8) has room for as many as the ``tally`` of
    the push says, which is used up thereby.
    """
    for edge, message in messages.items():
        _pack(message, leaving[:total], owners, owner_at(edge), *arrays)
    tally[: LEFT + 1] = 0


@njit(int64(MESSAGE, FLOATS, INTEGERS, int64, *PARTICLES), cache=True)
def _unpack(message, frame, gaps, count, x, y, vx, vy, charge, ids, cells, motions):
    """Put one message into the ``gaps`` and behind ``count``; its first wrong row, or -1."""
    bits = message.view(np.int64)
    wrong = -1
    for n in range(message.shape[0]):
        at = gaps[n] if n < gaps.size else count + n - gaps.size
        x[at], y[at], vx[at], vy[at] = message[n, 0], message[n, 1], message[n, 2], message[n, 3]
        charge[at] = message[n, 4]
        ids[at], cells[at], motions[at] = bits[n, 5], bits[n, 6], bits[n, 7]
        if not (frame[0] <= x[at] < frame[1] and frame[2] <= y[at] < frame[3]):
            x[at], y[at] = frame[0] + 0.5, frame[2] + 0.5
            wrong = n if wrong < 0 else wrong
    return wrong


def unpack(
    came: Mapping[Any, Any], frame: np.ndarray, gaps: Any, free: int, count: int, owners: Any,
    tally: Any, arrays: tuple[Any, ...],
) -> None:  # fmt: skip
    """Put messages into the first ``free`` of the ``gaps`` and, when full, behind ``count``.

    ``frame`` begins with the block's cells x0, x1, y0, y1. A row that is in none of them goes into
    the first, so that no kernel reads beyond the mesh; the first such row, of all messages one
    after another, stands in the ``tally`` for whoever looks at it next.
    """
    first = 0
    for message in came.values():
        rows = len(message)
        behind = count + max(0, first - free)
        wrong = _unpack(message, frame, gaps[min(first, free) : free], behind, *arrays)
        if wrong >= 0:
            tally[MISPLACED] = min(tally[MISPLACED], first + wrong)
        first += rows


def row_of(message: Any, row: int) -> np.ndarray:
    """One row of a message, (8,) float64, on the host."""
    return message[row]


# Order -------------------------------------------------------------------------------------------


def grown(array: Any, used: int, room: int) -> Any:
    """The array with room for more; on the CPU where it lies, so that no second copy is needed."""
    array.resize(room, refcheck=False)
    return array


@njit(void(int64, INTEGERS, *PARTICLES), cache=True)
def _close_gaps(count, gaps, x, y, vx, vy, charge, ids, cells, motions):
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


def close_gaps(
    count: int, gaps: Any, first: int, end: int, owners: Any, tally: Any, spare: Any,
    arrays: tuple[Any, ...],
) -> None:  # fmt: skip
    """Move the last of ``count`` particles into the ``gaps`` from ``first`` to ``end``.

    The gaps are as `find_leaving`, `push` or `find_removed` list them. The GPU's needs to know of
    ``owners`` who stays, and room in ``spare``.
    """
    _close_gaps(count, gaps[first:end], *arrays)


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
def _scatter(count, places, values, moved):
    """Put each of ``count`` values into its place."""
    for n in range(count):
        moved[places[n]] = values[n]


def reorder(count: int, places: Any, spare: Any, arrays: tuple[Any, ...]) -> None:
    """Put each of ``count`` particles into its place, one array after another."""
    for array in arrays:
        values = array.view(np.uint64)
        _scatter(count, places, values, spare)
        values[:count] = spare[:count]


# Events and checks -------------------------------------------------------------------------------


@njit("boolean(int64, uint64, uint64)", cache=True, inline="always")
def chosen(particle, seed, limit):
    """Whether a removal takes the particle of that id: it takes ``limit`` + 1 of 2^64 hashes."""
    return mix(np.uint64(particle) + seed) <= limit


@njit(
    void(int64, FLOATS, FLOATS, INTEGERS, INTEGERS, uint64, uint64, uint8[::1], INTEGERS, INTEGERS),
    cache=True,
)
def find_removed(count, x, y, ids, patch, seed, limit, owners, tally, removed):
    """List the places of the particles that a removal takes from a ``patch``, by where they are.

    ``patch``: cells x0, x1, y0, y1. ``removed`` (count,). The ``tally`` says how many leave;
    ``owners`` (count,), who stays.
    """
    total = 0
    for n in range(count):
        owners[n] = HERE
        if patch[0] <= x[n] < patch[1] and patch[2] <= y[n] < patch[3]:
            if chosen(ids[n], seed, limit):
                owners[n] = LOST
                removed[total] = n
                total += 1
    tally[LEFT] = total


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
