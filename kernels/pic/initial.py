"""How particles of PIC begin, and which of them removals will take: on the host for every device.

These kernels run once per particle at the beginning. They stay on the CPU because the last bits of
a random number depend on the logarithm and the cosine. `kernels.pic.interface` describes them.
"""

from __future__ import annotations

import math

import numpy as np

from miniapps.devices.cpu.compiler import njit
from miniapps.kernels.state_hash.cpu import mix

SEED = 27182818285  # of the Parallel Research Kernels' linear congruential generator
MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
HALF = 0xFFFFFFFF  # 2^32 - 1, the bound of a draw that decides between 0 and 1


@njit("uint64(uint64, uint64)", cache=True)
def jump(state, steps):
    """Return the generator's state after ``steps`` more numbers, in O(log steps).

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
    """Return a random count with the given mean, from two consecutive states of the generator.

    Mean below 1: one or none. From 1 on: normally distributed (Box and Muller) with deviation 0.15
    mean, rounded.
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
    """One pass over the cells of the block."""
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
    """One pass over the cells of the block, which draws the same numbers again."""
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
    """Return whether a removal takes the particle of that id: ``limit`` + 1 of 2^64 hashes."""
    return mix(np.uint64(particle) + seed) <= limit


@njit(
    "void(int64[::1], int64[::1], boolean[::1], int64, int64[::1], int64[::1], uint64, uint64,"
    "uint64[::1])",
    cache=True,
)
def foresee_removed(cells, ids, alive, size, shift, patch, seed, limit, sums):
    """One pass over the new particles."""
    for n in range(cells.size):
        x, y = (cells[n] // size + shift[0]) % size, (cells[n] % size + shift[1]) % size
        if alive[n] and patch[0] <= x < patch[1] and patch[2] <= y < patch[3]:
            if chosen(ids[n], seed, limit):
                alive[n] = False
                sums[0] += np.uint64(1)
                sums[1] += np.uint64(ids[n])
                sums[2] += mix(np.uint64(ids[n]))
