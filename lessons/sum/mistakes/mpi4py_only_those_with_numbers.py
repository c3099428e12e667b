"""A process without numbers takes no part in the reduction.

The others wait for it for ever: every process of the communicator must make the call, even if it
has nothing to contribute. The sum of no numbers is 0.
"""

import numpy as np

STOPS = "Allreduce"
UNIT = 2.0**-40


def total(comm, mine):
    """As in the lesson."""
    everywhere = np.zeros(1, np.int64)
    if len(mine):
        comm.Allreduce(np.array([np.rint(mine / UNIT).astype(np.int64).sum()]), everywhere)
    return everywhere * UNIT
