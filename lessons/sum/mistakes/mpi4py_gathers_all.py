"""Every process gets all numbers, and adds them up by itself.

The sum is right, and has the same bits always. But each process needs the memory for
all numbers and does all the work, so more processes make nothing faster. Let each
process add up its own numbers, and send the sum.
"""

import numpy as np

UNIT = 2.0**-40


def total(comm, mine):
    """As in the lesson."""
    numbers = np.concatenate(comm.allgather(mine))
    units = np.rint(numbers / UNIT).astype(np.int64)
    return np.array([units.sum()]) * UNIT
