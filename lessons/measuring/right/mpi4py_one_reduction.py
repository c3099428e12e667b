"""Style: each process keeps its times; one reduction of all repetitions, then sorting."""

import numpy as np
from mpi4py import MPI


def measure(comm, clock, work, repetitions):
    times = {}
    for count in range(1, comm.size + 1):
        own = np.zeros(repetitions)
        work(comm, count)
        for i in range(repetitions):
            comm.Barrier()
            begin = clock()
            work(comm, count)
            own[i] = clock() - begin
        comm.Allreduce(MPI.IN_PLACE, own, op=MPI.MAX)
        times[count] = sorted(own)[repetitions // 2]
    return np.round([row(times[1], time, count) for count, time in times.items()], 3)


def row(alone, time, count):
    """What follows from the times on one process and on several."""
    fraction = 0.0 if count == 1 else (time / alone * count - 1) / (count - 1)
    return time, alone / time, alone / (time * count), fraction
