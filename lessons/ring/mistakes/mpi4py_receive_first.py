"""Every process receives before it sends.

So all of them wait, and none ever sends. Use Sendrecv, or begin with Irecv, which
does not wait.
"""

import numpy as np

STOPS = "Recv"


def collect(comm, mine):
    """As in the lesson."""
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    travelling = mine
    for turn in range(1, comm.size):
        came = np.empty_like(travelling)
        comm.Recv(came, left)
        comm.Send(travelling, right)
        everything[(comm.rank - turn) % comm.size] = came
        travelling = came
    return everything
