"""You return a number, and not an array with one number.

comm.allreduce returns what it gets: a number for a number. Put it into an array: np.array([...]).
"""

import numpy as np

UNIT = 2.0**-40  # numbers are added in whole units


def total(comm, mine):
    """Return the sum of the numbers of all processes, as an array with one float64.

    comm: the communicator; mine: this process's part of the numbers, float64. Each number is
    rounded to the nearest whole number of units first. So the sum of all is a whole number of
    units, too.
    """
    units = np.rint(mine / UNIT).astype(np.int64)
    return comm.allreduce(np.sum(units)) * UNIT
