"""You round down, to the next smaller whole number.

Every number loses half a unit on average, and all errors have the same sign, so they add
up. np.rint rounds to the nearest whole number.
"""

import numpy as np
from charm4py import Chare, Reducer

UNIT = 2.0**-40


class Part(Chare):
    """One chare, with its part of the numbers."""

    def prepare(self, size, mine, done):
        """Keep what the chare needs."""
        self.mine, self.done = mine, done

    def start(self):
        """Contribute to the sum."""
        units = np.array([np.floor(self.mine / UNIT).astype(np.int64).sum()])
        self.reduce(self.thisProxy.finish, units, Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([everywhere * UNIT]))
