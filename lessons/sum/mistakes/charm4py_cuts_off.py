"""You cut the numbers off instead of rounding them.

A conversion to an integer drops all that is behind the point. Then every positive number
becomes smaller and every negative one larger, and these errors add up. Use np.rint.
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
        units = np.array([(self.mine / UNIT).astype(np.int64).sum()])
        self.reduce(self.thisProxy.finish, units, Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([everywhere * UNIT]))
