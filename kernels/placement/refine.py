"""RefineA and RefineB: blocks leave PEs with more than a threshold of load; a bisection finds it.

The threshold lies between the load of Greedy's heaviest PE and 1.5 times that. Both take the
heaviest block that fits from the PE with most load, and stop when none fits on the PE with least.
RefineB puts it there; RefineA on the first PE, in the order of its list, on which it fits. `first`
finds that one by a tree of minima, as the list may have 10^5 PEs. Loads are in s, in single
precision. Cost: O(blocks + moves log PEs) per threshold, of which there are about six.
"""

from __future__ import annotations

import numpy as np
from numba import float32

from miniapps.devices.cpu.compiler import njit
from miniapps.kernels.placement import heaps
from miniapps.kernels.placement.greedy import greedy


@njit("Tuple((int64[::1], int64[::1]))(int64[::1], int32[::1], int64)", cache=True)
def lists(order, old, pes):
    """The first block of each PE, and the one after each block, in ``order``; -1: none."""
    first, after = np.full(pes, -1), np.full(old.size, -1)
    for block in order[::-1]:
        after[block], first[old[block]] = first[old[block]], block
    return first, after


@njit("int64(float32[::1], int64, int64[::1], int64[::1], float32, float32)", cache=True)
def take(loads, pe, first, after, least, most):
    """Take the heaviest block from a PE's list that fits on ``least`` load; -1: none fits."""
    before, block = -1, first[pe]
    while block >= 0:
        if least + loads[block] <= most:
            if before < 0:
                first[pe] = after[block]
            else:
                after[before] = after[block]
            return block
        before, block = block, after[block]
    return -1


@njit(
    "float32(float32[::1], int32[::1], float32[::1], int64[::1], int64[::1], float32, int32[::1])",
    cache=True,
)
def once_b(loads, arrival, now, first, after, most, placed):
    """Move blocks from PEs above ``most`` to the least loaded one; returns the largest load."""
    room = arrival.size + 1
    heavy, heavy_pes, heavies = np.empty(room, np.float32), np.empty(room, np.int32), 0
    light, light_pes, lights = np.empty(room, np.float32), np.empty(room, np.int32), 0
    largest = float32(0)
    for pe in arrival:
        if now[pe] > most:
            heaps.push(heavy, heavy_pes, heavies, -now[pe], pe)
            heavies += 1
        else:
            heaps.push(light, light_pes, lights, now[pe], pe)
            lights, largest = lights + 1, max(largest, now[pe])
    while heavies and lights:
        source, target = heavy_pes[0], light_pes[0]
        heaps.pop(heavy, heavy_pes, heavies)
        heaps.pop(light, light_pes, lights)
        heavies, lights = heavies - 1, lights - 1
        block = take(loads, source, first, after, now[target], most)
        if block >= 0:
            now[source] -= loads[block]
            now[target] += loads[block]
            placed[block], largest = target, max(largest, now[target])
        if now[source] > most:
            heaps.push(heavy, heavy_pes, heavies, -now[source], source)
            heavies += 1
        else:
            heaps.push(light, light_pes, lights, now[source], source)
            lights, largest = lights + 1, max(largest, now[source])
        if block < 0:
            break
        if now[target] <= most:
            heaps.push(light, light_pes, lights, now[target], target)
            lights += 1
    return -heavy[0] if heavies else largest


@njit("void(float32[::1], int64, float32)", cache=True)
def set_leaf(tree, leaf, load):
    """Store the load at a position of the list, and the minima above it."""
    node = tree.size // 2 + leaf
    tree[node] = load
    while node > 1:
        node //= 2
        tree[node] = min(tree[2 * node], tree[2 * node + 1])


@njit("int64(float32[::1], float32, float32)", cache=True)
def first_that_fits(tree, load, most):
    """The first position of the list on which a block fits; it must fit somewhere."""
    node, leaves = 1, tree.size // 2
    while node < leaves:
        node *= 2
        if not tree[node] + load <= most:
            node += 1
    return node - leaves


@njit(
    "float32(float32[::1], int32[::1], float32[::1], int64[::1], int64[::1], float32, int32[::1])",
    cache=True,
)
def once_a(loads, arrival, now, first, after, most, placed):
    """Move blocks from PEs above ``most`` to the first with room; returns the largest load.

    PEs that come below the threshold are added to the list, but not to the heap of light PEs, in
    which pheap.h looks for them at position 0.
    """
    room, leaves = arrival.size + 2, 1
    while leaves < arrival.size:
        leaves *= 2
    tree, listed, lights = np.full(2 * leaves, np.float32(np.inf)), np.empty(room, np.int32), 0
    heavy, heavy_pes, heavies = np.empty(room, np.float32), np.empty(room, np.int32), 0
    largest = float32(0)
    for pe in arrival:
        if now[pe] > most:
            heaps.push(heavy, heavy_pes, heavies, -now[pe], pe)
            heavies += 1
        else:
            set_leaf(tree, lights, now[pe])
            listed[lights], lights, largest = pe, lights + 1, max(largest, now[pe])
    size, at = lights + 1, np.zeros(arrival.size, np.int32)
    q, q_pes = np.zeros(2 * room, np.float32), np.full(2 * room, -1, np.int32)
    for position in range(1, size):
        q_pes[position] = listed[position - 1]
        q[position] = now[q_pes[position]]
    heaps.q_make(q, q_pes, at, size)
    while heavies and lights:
        source = heavy_pes[0]
        block = take(loads, source, first, after, q[1], most)
        if block < 0:
            break
        heaps.pop(heavy, heavy_pes, heavies)
        heavies -= 1
        now[source] -= loads[block]
        position = first_that_fits(tree, loads[block], most)
        target = listed[position]
        now[target] += loads[block]
        set_leaf(tree, position, now[target])
        placed[block], largest = target, max(largest, now[target])
        size = heaps.q_remove(q, q_pes, at, size, target)
        size = heaps.q_push(q, q_pes, at, size, now[target], target)
        if now[source] > most:
            heaps.push(heavy, heavy_pes, heavies, -now[source], source)
            heavies += 1
        else:
            set_leaf(tree, lights, now[source])
            listed[lights], lights, largest = source, lights + 1, max(largest, now[source])
    return -heavy[0] if heavies else largest


@njit("int32[::1](float32[::1], int64[::1], int32[::1], int32[::1], boolean)", cache=True)
def refine(loads, order, arrival, old, by_list):
    """The PE of each block (blocks,). Arguments: as of `greedy_refine`; ``by_list``: RefineA."""
    placed = np.empty_like(old)
    lower = greedy(loads, order, arrival, placed)
    upper = float32(lower * 1.5)
    start = np.zeros(arrival.size, np.float32)
    for block in order:
        start[old[block]] += loads[block]
    first, after = lists(order, old, arrival.size)
    best, least = old.copy(), float32(np.inf)
    while max(lower, upper) / min(lower, upper) > 1.01:
        most = float32((lower + upper) / float32(2))
        placed[:] = old
        if by_list:
            reached = once_a(loads, arrival, start.copy(), first.copy(), after.copy(), most, placed)
        else:
            reached = once_b(loads, arrival, start.copy(), first.copy(), after.copy(), most, placed)
        if reached < least:
            best[:], least = placed, reached
        if reached / most < 1.01:
            upper = most
        else:
            lower = most
    return best
