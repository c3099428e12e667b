"""Model answer of the lesson ring, for mpi4py."""

import numpy as np
from mpi4py import MPI


def collect(comm: MPI.Comm, mine: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes, in the order of their ranks: shape (size, len(mine))."""
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    travelling = mine
    for turn in range(1, comm.size):
        came = np.empty_like(travelling)
        comm.Sendrecv(travelling, right, recvbuf=came, source=left)
        everything[(comm.rank - turn) % comm.size] = came
        travelling = came
    return everything
