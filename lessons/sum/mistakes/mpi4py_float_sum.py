"""You add floating-point numbers.

Each addition is rounded, so the sum depends on which numbers a process has: it changes
with the number of processes. Round every number to whole units first, and add integers.
"""

import numpy as np


def total(comm, mine):
    """As in the lesson."""
    everywhere = np.empty(1)
    comm.Allreduce(np.array([np.sum(mine)]), everywhere)
    return everywhere
