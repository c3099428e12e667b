"""No chare sends on what it gets.

Each array reaches the right neighbour only. What came from the left must be sent on to
the right, until it has been around.
"""

import numpy as np
from charm4py import Chare

STOPS = "stuck 1, 1, 1"


class Member(Chare):
    """One chare of the ring."""

    def prepare(self, size, mine, done):
        """Keep what the chare needs."""
        self.size, self.rank, self.done = size, self.thisIndex[0], done
        self.everything = np.empty((size, len(mine)))
        self.everything[self.rank] = mine
        self.missing = size - 1

    def start(self):
        """Send the own array to the right. The left neighbour's may have come before."""
        if self.size == 1:
            self.done(self.everything)
        else:
            self.send(self.rank, self.everything[self.rank])

    def pass_on(self, owner, came):
        """Take an array that comes from the left."""
        self.everything[owner] = came
        self.missing -= 1
        if self.missing == 0:
            self.done(self.everything)

    def send(self, owner, array):
        """Send an array to the right."""
        self.thisProxy[(self.rank + 1) % self.size].pass_on(owner, array)
