"""All arrays have come, but no chare calls done.

Nothing waits for what a method returns. Count each array that comes, self.missing -= 1, and call
self.done(self.everything) when none is missing.
"""

import numpy as np
from charm4py import Chare

STOPS = "stuck 1, 1"


class Member(Chare):
    """One chare of the ring. Its methods run when messages for them arrive."""

    def prepare(self, size, mine, done):
        """Keep what this chare needs. All chares are prepared before one starts.

        size: the number of chares; mine: this chare's array of float64; done: to be called with
        the result.
        """
        self.size, self.rank, self.done = size, self.thisIndex[0], done
        self.everything = np.empty((size, len(mine)))  # all arrays, in the order of the chares
        self.everything[self.rank] = mine
        self.missing = size - 1  # arrays that have not come yet

    def start(self):
        """Begin: send the own array to the right."""
        if self.size == 1:
            self.done(self.everything)
        else:
            right = (self.rank + 1) % self.size
            self.thisProxy[right].pass_on(self.rank, self.everything[self.rank])

    def pass_on(self, owner, came):
        """Take the array of the chare `owner`, which the left neighbour has sent.

        It may come before `start` has been called, and before an array that was sent earlier.
        """
        self.everything[owner] = came
        right = (self.rank + 1) % self.size
        if owner != right:
            self.thisProxy[right].pass_on(owner, came)
        if self.missing == 0:
            self.done(self.everything)
