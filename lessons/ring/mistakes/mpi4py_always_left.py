"""You store every array that comes in the place of the left neighbour.

Only the first one is its own. It sends on what it gets, so in turn t an array comes that has
travelled t places. Which rank does it belong to?
"""

import numpy as np


def collect(comm, mine):
    """Return the arrays of all processes, in the order of their ranks: shape (size, len(mine)).

    comm: the communicator; mine: this process's array of float64. A process may send to its right
    neighbour only, and receive from its left neighbour only.
    """
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    travelling = mine
    for _ in range(1, comm.size):
        arrived = np.empty_like(travelling)
        comm.Sendrecv(travelling, right, recvbuf=arrived, source=left)
        everything[left] = arrived
        travelling = arrived
    return everything
