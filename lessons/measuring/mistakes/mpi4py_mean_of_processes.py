"""You take the mean of the processes' times.

A process that is done early waits for the others; that makes nothing faster. The work takes as long
as the slowest process.
"""

import numpy as np


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
            times.append(comm.allreduce(clock() - start) / comm.size)
        time = np.median(times)
        speed_up = table[0, 0] / time if count > 1 else 1.0
        fraction = (1 / speed_up - 1 / count) / (1 - 1 / count) if count > 1 else 0.0
        table[count - 1] = time, speed_up, speed_up / count, fraction
    return np.round(table, 3)
