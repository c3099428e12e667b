"""Style: Allreduce in place, units by np.rint."""

import numpy as np
from mpi4py import MPI


def total(comm, mine):
    units = np.zeros(1, np.int64)
    units[0] = np.rint(mine * 2.0**40).astype(np.int64).sum()
    comm.Allreduce(MPI.IN_PLACE, units, op=MPI.SUM)
    return units / 2.0**40
