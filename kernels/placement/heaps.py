"""The two heaps of Charm++'s load balancers, whose order among equal loads decides placements.

`make`, `push` and `pop` do as those of the C++ standard library of GCC (`bits/stl_heap.h`) do with
a comparison by "has more load": the least load is on top. For most load on top, loads are negated.
`Q*` functions do as `pheap.h`: a heap from which a PE can be removed at any position.
A step costs some 20 memory accesses for 10^5 PEs.
"""

from __future__ import annotations

from miniapps.devices.cpu.compiler import njit


@njit("void(float32[::1], int32[::1], int64, int64, float32, int32)", cache=True)
def rise(keys, pes, hole, top, key, pe):
    """Put a PE into the hole, or above it until no PE above has more load."""
    parent = (hole - 1) // 2
    while hole > top and keys[parent] > key:
        keys[hole], pes[hole] = keys[parent], pes[parent]
        hole, parent = parent, (parent - 1) // 2
    keys[hole], pes[hole] = key, pe


@njit("void(float32[::1], int32[::1], int64, int64, float32, int32)", cache=True)
def sink(keys, pes, hole, size, key, pe):
    """Move the hole down to the end of the heap, and put a PE there, or above."""
    top = below = hole
    while below < (size - 1) // 2:
        below = 2 * (below + 1)
        if keys[below] > keys[below - 1]:
            below -= 1
        keys[hole], pes[hole] = keys[below], pes[below]
        hole = below
    if size % 2 == 0 and below == (size - 2) // 2:
        below = 2 * (below + 1)
        keys[hole], pes[hole] = keys[below - 1], pes[below - 1]
        hole = below - 1
    rise(keys, pes, hole, top, key, pe)


@njit("void(float32[::1], int32[::1], int64)", cache=True)
def make(keys, pes, size):
    """Make a heap of the first ``size`` PEs."""
    for parent in range((size - 2) // 2, -1, -1):
        sink(keys, pes, parent, size, keys[parent], pes[parent])


@njit("void(float32[::1], int32[::1], int64, float32, int32)", cache=True)
def push(keys, pes, size, key, pe):
    """Add a PE to a heap of ``size``."""
    rise(keys, pes, size, 0, key, pe)


@njit("void(float32[::1], int32[::1], int64)", cache=True)
def pop(keys, pes, size):
    """Remove the top of a heap of ``size``."""
    if size > 1:
        sink(keys, pes, 0, size - 1, keys[size - 1], pes[size - 1])


# pheap.h: position 0 is unused, ``size`` counts it; ``at`` (PEs,) has the position of each PE.


@njit("void(float32[::1], int32[::1], int32[::1], int64, int64)", cache=True)
def q_swap(keys, pes, at, one, two):
    """Exchange two positions."""
    keys[one], keys[two] = keys[two], keys[one]
    pes[one], pes[two] = pes[two], pes[one]
    for position in (one, two):
        if pes[position] >= 0:
            at[pes[position]] = position


@njit("void(float32[::1], int32[::1], int32[::1], int64, int64)", cache=True)
def q_sink(keys, pes, at, size, position):
    """Move a PE down until no PE below has less load."""
    while True:
        left, right = 2 * position, 2 * position + 1
        if left >= size:
            return
        child = left if right >= size or keys[left] < keys[right] else right
        if not keys[position] > keys[child]:
            return
        q_swap(keys, pes, at, position, child)
        position = child


@njit("void(float32[::1], int32[::1], int32[::1], int64)", cache=True)
def q_rise(keys, pes, at, position):
    """Move a PE up until no PE above has more load."""
    while position != 1 and keys[position // 2] > keys[position]:
        q_swap(keys, pes, at, position // 2, position)
        position //= 2


@njit("void(float32[::1], int32[::1], int32[::1], int64)", cache=True)
def q_make(keys, pes, at, size):
    """Make a heap of the PEs at positions from 1 to below ``size``."""
    for position in range(1, size):
        at[pes[position]] = position
    for first in range(size // 2, 0, -1):
        position = first
        while True:
            least = position
            for child in (2 * position, 2 * position + 1):
                if child < size and keys[child] < keys[least]:
                    least = child
            if least == position:
                break
            q_swap(keys, pes, at, position, least)
            position = least


@njit("int64(float32[::1], int32[::1], int32[::1], int64, int32)", cache=True)
def q_remove(keys, pes, at, size, pe):
    """Remove a PE; returns the new size. One that is not there has position 0, as in pheap.h."""
    position = at[pe]
    last = size - 1
    if size == 2 or position == last:
        return last
    keys[position], pes[position] = keys[last], pes[last]
    at[pes[position]] = position
    if position > 1 and keys[position // 2] > keys[position]:
        q_rise(keys, pes, at, position)
    else:
        q_sink(keys, pes, at, last, position)
    return last


@njit("int64(float32[::1], int32[::1], int32[::1], int64, float32, int32)", cache=True)
def q_push(keys, pes, at, size, key, pe):
    """Add a PE; returns the new size."""
    keys[size], pes[size], at[pe] = key, pe, size
    q_rise(keys, pes, at, size)
    return size + 1
