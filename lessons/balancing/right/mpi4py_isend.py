"""Style: pickled blocks by isend and recv, with the number of the block as tag."""

import math

import numpy as np
from mpi4py import MPI

LIMIT = 1.05  # times the mean load: more is too much


def place(loads, where, pes):
    """Decide where blocks are to be; returns an array like where, which stays as it is.

    loads: (blocks,), the load of each block; where: (blocks,), the process of each, 0 to pes - 1.
    """
    where = where.copy()
    while True:
        per = np.bincount(where, loads, pes)
        full, empty = int(np.argmax(per)), int(np.argmin(per))
        difference = per[full] - per[empty]
        if per[full] <= LIMIT * per.mean():
            break
        here = [b for b in np.flatnonzero(where == full) if 0 < loads[b] < difference]
        if not here:
            break
        block = min(here, key=lambda b: abs(loads[b] - difference / 2))
        where[block] = empty
    return where


def migrate(comm, blocks, where, new):
    """Move blocks from their processes in where to those in new, both (blocks,).

    blocks: this process's blocks, a dict from the block's number to its cells; it is changed.
    """
    requests = []
    for b in np.flatnonzero(where != new):
        if where[b] == comm.rank:
            requests.append(comm.isend(blocks.pop(b), int(new[b]), tag=int(b)))
    for b in np.flatnonzero(where != new):
        if new[b] == comm.rank:
            blocks[b] = comm.recv(source=int(where[b]), tag=int(b))
    for request in requests:
        request.wait()


def advance(comm, blocks, where, steps, compute):
    """Make some steps; returns for each block, also those elsewhere, the sum of its cells."""
    for step in range(steps):
        loads = np.zeros(len(where))
        for number, cells in blocks.items():
            loads[number] = compute(number, step, cells)  # changes the cells
        everywhere = np.empty_like(loads)
        comm.Allreduce(loads, everywhere)
        loads = everywhere
        new = place(loads, where, comm.size)
        if step < steps - 1:
            migrate(comm, blocks, where, new)
            where = new
    sums = np.zeros(len(where))
    for number, cells in blocks.items():
        sums[number] = math.fsum(cells)
    everywhere = np.empty_like(sums)
    comm.Allreduce(sums, everywhere)
    return everywhere
