"""Model answer of the lesson sum, for mpi4py."""

import numpy as np
from mpi4py import MPI

UNIT = 2.0**-40


def total(comm, mine):
    """Return the sum of the numbers of all processes."""
    units = np.array([np.rint(mine / UNIT).astype(np.int64).sum()])
    everywhere = np.empty_like(units)
    comm.Allreduce(units, everywhere, MPI.SUM)
    return everywhere * UNIT
