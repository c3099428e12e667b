"""You return the number of units.

The result is about 10^12 times too large: multiply the sum by UNIT at the very end.
"""

import numpy as np

UNIT = 2.0**-40


def total(comm, mine):
    """As in the lesson."""
    units = np.array([np.rint(mine / UNIT).astype(np.int64).sum()])
    everywhere = np.empty_like(units)
    comm.Allreduce(units, everywhere)
    return everywhere.astype(float)
