"""Style: a coroutine with one channel to each neighbour of the ring."""

import numpy as np
from charm4py import Channel, Chare, coro


class Member(Chare):
    def prepare(self, size, mine, done):
        self.size, self.rank, self.mine, self.done = size, self.thisIndex[0], mine, done

    @coro
    def start(self):
        size, rank = self.size, self.rank
        everything = np.empty((size, len(self.mine)))
        everything[rank] = self.mine
        if size == 2:
            left = right = Channel(self, remote=self.thisProxy[1 - rank])
        elif size > 2:
            right = Channel(self, remote=self.thisProxy[(rank + 1) % size])
            left = Channel(self, remote=self.thisProxy[(rank - 1) % size])
        travelling = self.mine
        for turn in range(1, size):
            right.send(travelling)
            travelling = left.recv()
            everything[(rank - turn) % size] = travelling
        self.done(everything)
