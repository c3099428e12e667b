"""You round the sum of each process, not each number.

The sum of a process was rounded after each of its additions already, so it depends on
which numbers the process has. Round first, then add.
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
        units = np.array([np.rint(np.sum(self.mine) / UNIT).astype(np.int64)])
        self.reduce(self.thisProxy.finish, units, Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([everywhere * UNIT]))
