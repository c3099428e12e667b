"""Each process decides from the loads of its own blocks only.

For all others it has zeros, so each comes to another decision, and blocks are sent that no process
receives. Add up the arrays of all processes before place is called.
"""

import math

import numpy as np

LIMIT = 1.05  # times the mean load: more is too much


def place(loads, where, pes):
    """Decide where blocks are to be; returns an array like where, which stays as it is.

    loads: (blocks,), the load of each block; where: (blocks,), the process of each, 0 to pes - 1.
    """
    where = where.copy()
    while True:
        per = np.bincount(where, loads, pes)
        full, empty = int(np.argmax(per)), int(np.argmin(per))
        if per[full] <= LIMIT * per.mean():
            return where
        gap = per[full] - per[empty]
        candidates = [b for b in range(len(loads)) if where[b] == full and 0 < loads[b] < gap]
        if not candidates:
            return where
        best = min(candidates, key=lambda b: abs(loads[b] - gap / 2))
        where[best] = empty


def migrate(comm, blocks, where, new):
    """Move blocks from their processes in where to those in new, both (blocks,).

    blocks: this process's blocks, a dict from the block's number to its cells; it is changed.
    """
    for number in range(len(where)):
        old, to = where[number], new[number]
        if old == to:
            continue
        if comm.rank == old:
            comm.send(blocks.pop(number), to)
        if comm.rank == to:
            blocks[number] = comm.recv(source=old)


def advance(comm, blocks, where, steps, compute):
    """Make some steps; returns for each block, also those elsewhere, the sum of its cells."""
    for step in range(steps):
        loads = np.zeros(len(where))
        for number, cells in blocks.items():
            loads[number] = compute(number, step, cells)  # changes the cells
        new = place(loads, where, comm.size)
        if step < steps - 1:
            report(comm, step, loads, where, new)
            migrate(comm, blocks, where, new)
            where = new
    sums = np.zeros(len(where))
    for number, cells in blocks.items():
        sums[number] = math.fsum(cells)
    sums = comm.allreduce(sums)
    return sums


def report(comm, step, loads, where, new):
    """Print max/mean of the load per process, before and after moving blocks."""
    pers = [np.bincount(there, loads, comm.size) for there in (where, new)]
    if comm.rank == 0 and loads.any():
        before, after = (f"{per.max() / per.mean():.2f}" for per in pers)
        print(f"after step {step}: max/mean {before} -> {after}, {(new != where).sum()} moved")
