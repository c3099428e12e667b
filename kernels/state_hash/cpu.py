"""The compiled part of `kernels.state_hash`: mixing, and sums of mixed numbers.

Mixing is the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Cost: 8 B and about 45
integer operations per element.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from miniapps.devices.cpu.compiler import njit


@njit(uint64(uint64), cache=True, inline="always")
def mix(z):
    """Scatter every input bit over all output bits (SplitMix64's finalizer)."""
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@njit("void(uint64[:], uint64, uint64, uint64[:])", cache=True, nogil=True)
def add_run(bits, first, seed, words):
    """Add the hashes of elements with consecutive global indices from ``first`` to ``words``."""
    h0, h1, h2, h3 = words[0], words[1], words[2], words[3]
    for n in range(bits.size):
        place = mix((first + uint64(n)) * uint64(0x9E3779B97F4A7C15) + seed)
        element = bits[n] ^ place
        h0 += mix(element)
        h1 += mix(element + place * uint64(0xD1342543DE82EF95))
        h2 += mix(element * uint64(0x2545F4914F6CDD1D) + place)
        h3 += mix(~element + (place << uint64(1)))
    words[0], words[1], words[2], words[3] = h0, h1, h2, h3


@njit("void(uint64[:], uint64[:], uint64, uint64, uint64[:])", cache=True, nogil=True)
def add_rows(bits, firsts, width, seed, words):
    """Add the hashes of rows of ``width`` elements, which begin at the indices ``firsts``."""
    for row in range(firsts.size):
        run = bits[row * width : (row + 1) * width]
        add_run(run, firsts[row], seed, words)


@njit("uint64[::1](int64, int64[::1])", cache=True)
def sums_of_ids(count, ids):
    """Return number, sum of ids and sum of mixed ids, modulo 2^64: (3,) uint64."""
    sums = np.zeros(3, np.uint64)
    for n in range(count):
        sums[0] += np.uint64(1)
        sums[1] += np.uint64(ids[n])
        sums[2] += mix(np.uint64(ids[n]))
    return sums


@njit("uint64[::1](int64)", cache=True)
def sums_of_first_ids(count):
    """Return the result of `sums_of_ids` for the ids 1 to ``count``, without their array."""
    sums = np.zeros(3, np.uint64)
    for n in range(1, count + 1):
        sums[0] += np.uint64(1)
        sums[1] += np.uint64(n)
        sums[2] += mix(np.uint64(n))
    return sums
