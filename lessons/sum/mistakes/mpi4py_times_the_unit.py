"""You multiply by the unit, and divide by it at the end.

How many units of 2^-40 are in a number? Many: number / UNIT. Multiplied by UNIT nearly every number
is rounded to 0.
"""

import numpy as np

UNIT = 2.0**-40  # numbers are added in whole units


def total(comm, mine):
    """Return the sum of the numbers of all processes, as an array with one float64.

    comm: the communicator; mine: this process's part of the numbers, float64. Each number is
    rounded to the nearest whole number of units first. So the sum of all is a whole number of
    units, too.
    """
    units = np.rint(mine * UNIT).astype(np.int64)
    local = np.array([np.sum(units)])
    everywhere = np.empty(1, dtype=np.int64)
    comm.Allreduce(local, everywhere)
    return everywhere / UNIT
