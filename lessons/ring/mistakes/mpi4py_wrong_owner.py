"""You store the arrays in the wrong places.

You take the array that comes in turn t for that of rank + t. It comes from the left and
has travelled t places, so it belongs to rank - t, modulo the number of processes.
"""

import numpy as np


def collect(comm, mine):
    """As in the lesson."""
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    travelling = mine
    for turn in range(1, comm.size):
        came = np.empty_like(travelling)
        comm.Sendrecv(travelling, right, recvbuf=came, source=left)
        everything[(comm.rank + turn) % comm.size] = came
        travelling = came
    return everything
