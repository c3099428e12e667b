"""Every process returns its own times.

They differ, because the processes do not have the same share of the work. The work is done when the
last process is done, and all processes must return the same table.
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
            times.append(clock() - start)
        time = np.median(times)
        speed_up = table[0, 0] / time if count > 1 else 1.0
        fraction = (1 / speed_up - 1 / count) / (1 - 1 / count) if count > 1 else 0.0
        table[count - 1] = time, speed_up, speed_up / count, fraction
    return np.round(table, 3)
