"""You count units in floating-point numbers.

A float64 holds whole numbers exactly only up to 2^53, which is 8192 in units of 2^-40. Beyond, each
addition is rounded again, and the order matters as before. Use np.int64.
"""

import numpy as np

UNIT = 2.0**-40


def total(comm, mine):
    """As in the lesson."""
    units = np.array([np.rint(mine / UNIT).sum()])
    everywhere = np.empty_like(units)
    comm.Allreduce(units, everywhere)
    return everywhere * UNIT
