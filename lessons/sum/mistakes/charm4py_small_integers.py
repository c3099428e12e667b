"""You use integers of 32 bits.

They hold whole numbers up to 2147483647 only, which is 0.002 in units of 2^-40. A number
that does not fit becomes another one, without a word. Use np.int64.
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
        small = np.rint(self.mine / UNIT).astype(np.int64).astype(np.int32)
        self.reduce(self.thisProxy.finish, np.array([small.sum()]), Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([everywhere * UNIT]))
