"""Load balancing by moving blocks, with mpi4py.

    mpiexec -n 3 python balancing.py

Each process has several blocks. In each step it computes all of them, and the load of each turns
out. Then some blocks move to other processes, so that the next step is shared more evenly.
"""

import math

import numpy as np
from mpi4py import MPI

LIMIT = 1.05  # times the mean load: more is too much


def place(loads, where, pes):
    """Decide where blocks are to be; returns an array like where, which stays as it is.

    loads: (blocks,), the load of each block; where: (blocks,), the process of each, 0 to pes - 1.
    """
    where = where.copy()
    # TODO 2: the rule of the page. np.bincount(where, loads, pes) is the load of each process.
    return where


def migrate(comm, blocks, where, new):
    """Move blocks from their processes in where to those in new, both (blocks,).

    blocks: this process's blocks, a dict from the block's number to its cells; it is changed.
    """
    # TODO 3: send what leaves, and take it out of the dict. Put into the dict what comes. Which
    #         blocks leave this process, and which come, follows from where and new.


def advance(comm, blocks, where, steps, compute):
    """Make some steps; returns for each block, also those elsewhere, the sum of its cells."""
    for step in range(steps):
        loads = np.zeros(len(where))
        for number, cells in blocks.items():
            loads[number] = compute(number, step, cells)  # changes the cells
        # TODO 1: loads has the loads of this process's blocks, and zeros. All processes need all
        #         loads, as all must come to the same decision.
        new = place(loads, where, comm.size)
        if step < steps - 1:
            report(comm, step, loads, where, new)
            migrate(comm, blocks, where, new)
            # TODO 4: where are the blocks now?
    sums = np.zeros(len(where))
    for number, cells in blocks.items():
        sums[number] = math.fsum(cells)
    # TODO 1 again: sums has the sums of this process's blocks, and zeros; all processes need all.
    return sums


def report(comm, step, loads, where, new):
    """Print max/mean of the load per process, before and after moving blocks."""
    pers = [np.bincount(there, loads, comm.size) for there in (where, new)]
    if comm.rank == 0 and loads.any():
        before, after = (f"{per.max() / per.mean():.2f}" for per in pers)
        print(f"after step {step}: max/mean {before} -> {after}, {(new != where).sum()} moved")


def main():
    """Let 12 blocks, of which the last ones are hot, cool down."""
    from miniapps.lessons.balancing import compute

    comm, count = MPI.COMM_WORLD, 12
    where = np.arange(count) * comm.size // count
    cells = [(0.5 + 0.1 * b) * np.random.default_rng(b).random(400) for b in range(count)]
    blocks = {b: cells[b] for b in range(count) if where[b] == comm.rank}
    advance(comm, blocks, where, 5, compute)


if __name__ == "__main__":
    main()
