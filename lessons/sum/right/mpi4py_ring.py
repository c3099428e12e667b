"""Style: partial sums travel around a ring by Sendrecv; no collective call."""

import numpy as np
from mpi4py import MPI

UNIT = 2.0**-40


def total(comm: MPI.Comm, mine):
    travelling = np.array([np.rint(mine / UNIT).astype(np.int64).sum()])
    units, came = travelling.copy(), np.empty_like(travelling)
    for _ in range(comm.size - 1):
        comm.Sendrecv(
            travelling, (comm.rank + 1) % comm.size, 0, came, (comm.rank - 1) % comm.size, 0
        )
        units += came
        travelling, came = came, travelling
    return units * UNIT
