"""Greedy and GreedyRefine: from the heaviest block on, each goes to the PE with the least load.

GreedyRefine leaves a block where it is if its PE then has no more load than Greedy's heaviest PE.
Loads are in s, in single precision. Cost: O(log PEs) per block, 24 B per block and 12 B per PE.
"""

from __future__ import annotations

import numpy as np
from numba import float32

from miniapps.devices.cpu.compiler import njit
from miniapps.kernels.placement import heaps


@njit("float32(float32[::1], int64[::1], int32[::1], int32[::1])", cache=True)
def greedy(loads, order, arrival, placed):
    """Place the blocks in ``order``, heaviest first; returns the load of the heaviest PE.

    ``arrival`` (PEs,): the PEs in the order in which the runtime's root heard from them, which
    decides between equal loads; ``placed`` (blocks,): the PE of each, which this writes.
    """
    size = arrival.size
    keys, pes = np.zeros(size, np.float32), arrival.copy()
    heaps.make(keys, pes, size)
    most = float32(0)
    for block in order:
        load, pe = keys[0] + loads[block], pes[0]
        heaps.pop(keys, pes, size)
        heaps.push(keys, pes, size - 1, load, pe)
        placed[block] = pe
        most = max(most, load)
    return most


@njit("void(float32[::1], int64[::1], int32[::1], int32[::1], int32[::1])", cache=True)
def greedy_refine(loads, order, arrival, old, placed):
    """Place blocks as `greedy` does; ``old`` (blocks,): the PE that each is on."""
    most = greedy(loads, order, arrival, placed)
    size = arrival.size + 1
    keys, pes = np.zeros(size, np.float32), np.full(size, -1, np.int32)
    at = np.zeros(arrival.size, np.int32)
    pes[1:] = arrival
    heaps.q_make(keys, pes, at, size)
    for block in order:
        position = at[old[block]]
        if not keys[position] + loads[block] <= most:
            position = 1
        load, pe = keys[position] + loads[block], pes[position]
        size = heaps.q_remove(keys, pes, at, size, pe)
        size = heaps.q_push(keys, pes, at, size, load, pe)
        placed[block] = pe
        most = max(most, load)
