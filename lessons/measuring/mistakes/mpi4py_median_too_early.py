"""Each process takes the median of its own times, and then you take the largest of the medians.

What is to be repeated is the work of all. Another process may be the slowest one in each
repetition: find the largest time of each repetition first, and take the median of these.
"""

import numpy as np
from mpi4py import MPI


def measure(comm, clock, work, repetitions):
    """As in the lesson."""
    table = np.zeros((comm.size, 4))
    for count in range(1, comm.size + 1):
        work(comm, count)
        times = []
        for _ in range(repetitions):
            comm.Barrier()
            start = clock()
            work(comm, count)
            times.append(clock() - start)
        time = comm.allreduce(np.median(times), MPI.MAX)
        speed_up = table[0, 0] / time if count > 1 else 1.0
        fraction = (1 / speed_up - 1 / count) / (1 - 1 / count) if count > 1 else 0.0
        table[count - 1] = time, speed_up, speed_up / count, fraction
    return np.round(table, 3)
