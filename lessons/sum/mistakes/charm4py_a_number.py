"""You call done with a number, and not with an array with one number.

The sum of arrays of length 1 comes as a plain number. Put it into an array: np.array([...]).
"""

import numpy as np
from charm4py import Chare, Reducer

UNIT = 2.0**-40  # numbers are added in whole units


class Part(Chare):
    """One chare, with its part of the numbers."""

    def prepare(self, size, mine, done):
        """Keep what this chare needs. All chares are prepared before one starts.

        size: the number of chares; mine: this chare's part of the numbers, float64; done: to be
        called with the sum of the numbers of all chares, as an array with one float64. Each number
        is rounded to the nearest whole number of units first. So the sum of all is a whole number
        of units, too.
        """
        self.mine, self.done = mine, done

    def start(self):
        """Contribute to the sum."""
        units = np.rint(self.mine / UNIT).astype(np.int64)
        self.reduce(self.thisProxy.finish, np.array([np.sum(units)]), Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares, which every chare gets."""
        self.done(everywhere * UNIT)
