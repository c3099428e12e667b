"""Style: Python integers, added by the pickled lower-case allreduce."""

import numpy as np
from mpi4py import MPI

UNIT = 2.0**-40


def total(comm: MPI.Comm, mine):
    units = sum(round(x / UNIT) for x in mine.tolist())
    return np.array([comm.allreduce(units) * UNIT])
