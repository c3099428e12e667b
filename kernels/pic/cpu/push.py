"""Pushing the particles of PIC on the CPU; `kernels.pic.interface` gives formula and arrays.

A push of one step moves 72 B of a particle (x, y, vx, vy both ways, the charge), writes a byte of
owner and reads four mesh charges from two columns. It takes 4 square roots, 4 divisions and about
50 other operations: the roots and divisions are the limit as long as the charges come from cache.
Therefore the charges are stored as bytes, in units of the mesh's charge, and blocks sort their
particles by column from time to time.
"""

from __future__ import annotations

import math

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.kernels.pic.counters import FIRST_LOST, HERE, LEFT, LOST

CHUNK = 512  # particles that make several steps together


@njit(inline="always")
def ahead(place, start, size):
    """Return how far a coordinate is ahead of a start, on the periodic grid."""
    apart = place - start
    return apart + size if apart < 0 else apart


@njit(inline="always")
def owner_of(x, y, frame, size):
    """Return the owner of a particle at (x, y); `PicKernels.push` describes ``frame``."""
    right, up = ahead(x, frame[0], size), ahead(y, frame[2], size)
    # Without compiler the comparisons are NumPy's: they add up as numbers only if the first is one.
    owner = HERE + 3 * (0 + (right >= frame[1] - frame[0]) + (right >= frame[4]))
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
    """Move ``count`` particles by some steps, and set their ``owners``, as `push`.

    A chunk of particles makes all steps before the next one begins, so that in the second step
    the particles come from L1.
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
                x[n] = to_x - size * (0 + (to_x >= size) + (to_x >= 2.0 * size) - (to_x < 0.0))
                y[n] = to_y - size * (0 + (to_y >= size) + (to_y >= 2.0 * size) - (to_y < 0.0))
        for n in range(first, end):
            owners[n] = owner_of(x[n], y[n], frame, size)


def push(
    count: int, steps: int, x: Array, y: Array, vx: Array, vy: Array, charge: Array, mesh: Array,
    frame: np.ndarray, size: float, known: int, owners: Array, counters: Array, leaving: Array,
    motions: Array = None, shifts: Array = None,
) -> None:  # fmt: skip
    """Move the particles, then search the owners for those that leave; nothing is foreseen."""
    _move(count, steps, x, y, vx, vy, charge, mesh, frame, size, owners)
    find_leaving(count, owners, known, counters, leaving)


@njit("void(int64, uint8[::1], int64, int64[::1], int64[::1])", cache=True)
def find_leaving(count, owners, known, counters, leaving):
    """Compare eight owners at a time, because nearly all particles stay.

    Places are listed in ascending order. The first particle with an unknown owner ends the search.
    """
    counters[: LEFT + 1] = 0
    total = 0
    eights = owners[: count // 8 * 8].view(np.uint64)
    for n in range(eights.size + 1):
        if n < eights.size and eights[n] == np.uint64(0x0101010101010101 * HERE):
            continue
        for k in range(8 * n, min(8 * n + 8, count)):
            if owners[k] != HERE:
                if not known >> np.int64(owners[k]) & 1:
                    counters[FIRST_LOST] = k
                    return
                counters[owners[k]] += 1
                if total < leaving.size:
                    leaving[total] = k
                total += 1
    counters[LEFT] = total
