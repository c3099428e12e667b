"""You take the largest contribution, not the sum of all.

The operation of a reduction is one of its arguments: MPI.SUM or Reducer.sum adds.
"""

import numpy as np
from mpi4py import MPI

UNIT = 2.0**-40


def total(comm, mine):
    """As in the lesson."""
    units = np.array([np.rint(mine / UNIT).astype(np.int64).sum()])
    everywhere = np.empty_like(units)
    comm.Allreduce(units, everywhere, MPI.MAX)
    return everywhere * UNIT
