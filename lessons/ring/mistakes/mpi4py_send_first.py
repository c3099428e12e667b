"""Every process sends before it receives.

Send may return only when its receiver has begun to receive, and here every process
waits for the next one to do so. With small arrays MPI keeps a copy and Send returns at
once, so the program seems to work. Use Sendrecv, or begin with Irecv.
"""

import numpy as np

STOPS = "Send"


def collect(comm, mine):
    """As in the lesson."""
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    travelling = mine
    for turn in range(1, comm.size):
        comm.Send(travelling, right)
        came = np.empty_like(travelling)
        comm.Recv(came, left)
        everything[(comm.rank - turn) % comm.size] = came
        travelling = came
    return everything
