"""You round down, to the next smaller whole number.

Every number loses half a unit on average, and all errors have the same sign, so they add
up. np.rint rounds to the nearest whole number.
"""

import numpy as np

UNIT = 2.0**-40


def total(comm, mine):
    """As in the lesson."""
    units = np.array([np.floor(mine / UNIT).astype(np.int64).sum()])
    everywhere = np.empty_like(units)
    comm.Allreduce(units, everywhere)
    return everywhere * UNIT
