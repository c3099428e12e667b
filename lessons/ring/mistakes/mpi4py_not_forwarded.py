"""You send your own array in every turn.

So your neighbour gets it again and again, and never sees those of the others: what came
from the left must be sent on to the right in the next turn.
"""

import numpy as np


def collect(comm, mine):
    """As in the lesson."""
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for turn in range(1, comm.size):
        came = np.empty_like(mine)
        comm.Sendrecv(mine, right, recvbuf=came, source=left)
        everything[(comm.rank - turn) % comm.size] = came
    return everything
