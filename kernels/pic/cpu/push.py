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
from typing import Any

import numpy as np

from devices.cpu.compiler import DISTINCT, njit
from kernels.pic.counters import FIRST_LOST, HERE, LEFT, LOST

CHUNK = 512  # particles that make several steps together


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

    ``mesh``, ``frame``: see `push`. ``owners`` (count,): as `kernels.pic.counters` numbers them.
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
    frame: np.ndarray, size: float, known: int, owners: Any, counters: Any, leaving: Any,
) -> None:  # fmt: skip
    """Move ``count`` particles by some ``steps``, and list and count those that leave.

    ``mesh``: the charges at the corners of the block's cells, and of as many above, below and to
    the right as particles may get to before their last step. ``frame`` (9,): the block's cells x0,
    x1, y0, y1; counted from x0, where the next block but one begins and where that ends; counted
    from y0, where the block above ends and where the one below begins; and the mesh's lowest row.
    All are of the periodic grid of ``size`` cells. ``known``: see `find_leaving`.
    """
    _move(count, steps, x, y, vx, vy, charge, mesh, frame, size, owners)
    find_leaving(count, owners, known, counters, leaving)


@njit("void(int64, uint8[::1], int64, int64[::1], int64[::1])", cache=True)
def find_leaving(count, owners, known, counters, leaving):
    """List the places of the particles that leave, and count them in the ``counters``, by owner.

    It counts how many leave even if ``leaving`` has room for fewer. ``known``: the owners that
    there are, one bit each; the first particle that went to another one ends the search. Looks at
    eight owners at a time, since nearly all particles stay.
    """
    counters[: LEFT + 1] = 0
    total = 0
    eights = owners[: count // 8 * 8].view(np.uint64)
    for n in range(eights.size + 1):
        if n < eights.size and eights[n] == np.uint64(0x0101010101010101 * HERE):
            continue
        for k in range(8 * n, min(8 * n + 8, count)):
            if owners[k] != HERE:
                if not known >> owners[k] & 1:
                    counters[FIRST_LOST] = k
                    return
                counters[owners[k]] += 1
                if total < leaving.size:
                    leaving[total] = k
                total += 1
    counters[LEFT] = total
