"""You add your own part to a sum that contains it already.

A reduction adds the contributions of all processes, your own among them.
"""

import numpy as np

UNIT = 2.0**-40


def total(comm, mine):
    """As in the lesson."""
    units = np.array([np.rint(mine / UNIT).astype(np.int64).sum()])
    everywhere = np.empty_like(units)
    comm.Allreduce(units, everywhere)
    return (units + everywhere) * UNIT
