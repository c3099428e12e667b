"""Style: running sums by a pickled scan; the last process has the sum of all and sends it round."""

import numpy as np
from mpi4py import MPI

UNIT = 2.0**-40


def total(comm: MPI.Comm, mine):
    units = 0
    for number in mine:
        units += int(np.rint(number / UNIT))
    running = comm.scan(units)
    return np.array([comm.bcast(running, root=comm.size - 1) * UNIT], dtype=np.float64)
