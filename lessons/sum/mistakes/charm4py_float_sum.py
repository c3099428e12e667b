"""You add floating-point numbers.

Each addition is rounded, so the sum depends on which numbers a process has: it changes
with the number of processes. Round every number to whole units first, and add integers.
"""

import numpy as np
from charm4py import Chare, Reducer


class Part(Chare):
    """One chare, with its part of the numbers."""

    def prepare(self, size, mine, done):
        """Keep what the chare needs."""
        self.mine, self.done = mine, done

    def start(self):
        """Contribute to the sum."""
        self.reduce(self.thisProxy.finish, np.array([np.sum(self.mine)]), Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares."""
        self.done(np.array([everywhere]))
