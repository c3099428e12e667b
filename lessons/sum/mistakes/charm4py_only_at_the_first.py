"""Only chare 0 gets the sum.

The first argument of reduce says who gets the result: self.thisProxy[0].finish is a method of one
chare, self.thisProxy.finish that of all.
"""

import numpy as np
from charm4py import Chare, Reducer

STOPS = "stuck 1, 0"
UNIT = 2.0**-40


class Part(Chare):
    """One chare, with its part of the numbers."""

    def prepare(self, size, mine, done):
        """Keep what the chare needs."""
        self.mine, self.done = mine, done

    def start(self):
        """Contribute whole units to the sum."""
        units = np.array([np.rint(self.mine / UNIT).astype(np.int64).sum()])
        self.reduce(self.thisProxy[0].finish, units, Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([everywhere * UNIT]))
