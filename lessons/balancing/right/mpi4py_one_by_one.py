"""Style: blocking messages, one block after the other, in the same order in all processes."""

import math

import numpy as np
from mpi4py import MPI


def place(loads, where, pes):
    """By lists and plain Python."""
    homes, loads = [int(pe) for pe in where], [float(load) for load in loads]
    while True:
        per = [0.0] * pes
        for home, load in zip(homes, loads, strict=True):
            per[home] += load
        full, empty = per.index(max(per)), per.index(min(per))
        gap = per[full] - per[empty]
        best = None
        for block, home in enumerate(homes):
            if home == full and 0 < loads[block] < gap:
                far = abs(loads[block] - gap / 2)
                if best is None or far < best[0]:
                    best = far, block
        if best is None or per[full] <= 1.05 * sum(per) / pes:
            return np.array(homes)
        homes[best[1]] = empty


def migrate(comm, blocks, where, new):
    for block, (before, after) in enumerate(zip(where.tolist(), new.tolist(), strict=True)):
        if before == after:
            continue
        if comm.rank == before:
            comm.send(blocks.pop(block), after)
        elif comm.rank == after:
            blocks[block] = comm.recv(source=before)


def shared(comm, own, count):
    """A list by block, from dicts of all processes."""
    known = {}
    for part in comm.allgather(own):
        known |= part
    return np.array([known[block] for block in range(count)])


def advance(comm, blocks, where, steps, compute):
    for step in range(steps):
        own = {block: compute(block, step, cells) for block, cells in sorted(blocks.items())}
        loads = shared(comm, own, len(where))
        if step + 1 < steps:
            new = place(loads, where, comm.size)
            migrate(comm, blocks, where, new)
            where = new
    return shared(comm, {b: math.fsum(cells) for b, cells in blocks.items()}, len(where))
