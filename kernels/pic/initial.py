"""How particles of PIC begin, and which of them removals will take: on the CPU for every device.

These run once for each particle that begins, and the last bits of a draw depend on its logarithm
and cosine.
"""

from __future__ import annotations

import math

import numpy as np

from devices.cpu.compiler import njit
from kernels.state_hash.cpu import mix

SEED = 27182818285  # of the Parallel Research Kernels' linear congruential generator
MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
HALF = 0xFFFFFFFF  # 2^32 - 1, the bound of a draw that decides between 0 and 1


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


@njit("boolean(int64, uint64, uint64)", cache=True, inline="always")
def chosen(particle, seed, limit):
    """Whether a removal takes the particle of that id: it takes ``limit`` + 1 of 2^64 hashes."""
    return mix(np.uint64(particle) + seed) <= limit


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
