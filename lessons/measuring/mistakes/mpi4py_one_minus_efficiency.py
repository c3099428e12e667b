"""You take what is missing of the efficiency for the serial fraction.

A program with a small serial fraction loses the more efficiency the more processes there are. Solve
Amdahl's law for f, as on the page.
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
            times.append(comm.allreduce(clock() - start, MPI.MAX))
        time = np.median(times)
        speed_up = table[0, 0] / time if count > 1 else 1.0
        fraction = 1 - speed_up / count
        table[count - 1] = time, speed_up, speed_up / count, fraction
    return np.round(table, 3)
