"""Style: a second barrier, after the work, ends with the last process; no reduction of times."""

import numpy as np
from mpi4py import MPI


def measure(comm, clock, work, repetitions):
    table = np.zeros((comm.size, 4))
    for count in range(1, comm.size + 1):
        times = []
        for repetition in range(-1, repetitions):  # the first one only warms up
            comm.Barrier()
            start = clock()
            work(comm, count)
            comm.Barrier()
            if repetition >= 0:
                times.append(clock() - start)
        time = comm.bcast(float(np.median(times)))
        table[count - 1, 0] = time
    time, p = table[:, 0], np.arange(1, comm.size + 1)
    table[:, 1] = time[0] / time
    table[:, 2] = table[:, 1] / p
    table[1:, 3] = ((1 / table[:, 1] - 1 / p)[1:]) / (1 - 1 / p[1:])
    return np.round(table, 3)
