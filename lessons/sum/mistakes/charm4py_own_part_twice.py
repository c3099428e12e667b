"""You add your own part to a sum that contains it already.

A reduction adds the contributions of all processes, your own among them.
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
        self.units = np.array([np.rint(self.mine / UNIT).astype(np.int64).sum()])
        self.reduce(self.thisProxy.finish, self.units, Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([(self.units + everywhere) * UNIT]))
