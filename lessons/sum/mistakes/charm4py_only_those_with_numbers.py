"""A chare without numbers takes no part in the reduction.

The others wait for it for ever: every chare of the array must contribute, even if it has nothing.
The sum of no numbers is 0.
"""

import numpy as np
from charm4py import Chare, Reducer

STOPS = "stuck 0, 0, 0, 0"
UNIT = 2.0**-40


class Part(Chare):
    """One chare, with its part of the numbers."""

    def prepare(self, size, mine, done):
        """Keep what the chare needs."""
        self.mine, self.done = mine, done

    def start(self):
        """Contribute whole units to the sum."""
        if len(self.mine):
            units = np.array([np.rint(self.mine / UNIT).astype(np.int64).sum()])
            self.reduce(self.thisProxy.finish, units, Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([everywhere * UNIT]))
