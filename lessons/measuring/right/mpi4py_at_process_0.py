"""Style: process 0 gathers all times, computes the whole table, and sends it to the others."""

import statistics

import numpy as np
from mpi4py import MPI


def once(comm, clock, work, count):
    """This process's time of one call; all begin together."""
    comm.barrier()
    start = clock()
    work(comm, count)
    return clock() - start


def measure(comm, clock, work, repetitions):
    rows = []
    for count in range(1, comm.size + 1):
        work(comm, count)
        own = [once(comm, clock, work, count) for _ in range(repetitions)]
        times = comm.gather(own, root=0)
        if comm.rank == 0:
            rows.append(statistics.median(max(one) for one in zip(*times, strict=True)))
    table = None
    if comm.rank == 0:
        times, count = np.array(rows), np.arange(1, comm.size + 1)
        speed_up = times[0] / times
        serial = np.zeros(comm.size)
        serial[1:] = (1 / speed_up[1:] - 1 / count[1:]) / (1 - 1 / count[1:])
        table = np.column_stack([times, speed_up, speed_up / count, serial]).round(3)
    return comm.bcast(table, root=0)
