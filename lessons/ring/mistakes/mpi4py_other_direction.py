"""The arrays travel to the left.

You send to the process on the left and receive from the one on the right, but store
what comes as if it had come from the left.
"""

import numpy as np


def collect(comm, mine):
    """As in the lesson."""
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    left, right = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    travelling = mine
    for turn in range(1, comm.size):
        came = np.empty_like(travelling)
        comm.Sendrecv(travelling, right, recvbuf=came, source=left)
        everything[(comm.rank - turn) % comm.size] = came
        travelling = came
    return everything
