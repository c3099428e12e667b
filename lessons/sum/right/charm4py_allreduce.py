"""Style: a coroutine that waits for the future of allreduce."""

import numpy as np
from charm4py import Chare, Reducer, coro

UNIT = 2.0**-40


class Part(Chare):
    def prepare(self, size, mine, done):
        self.mine, self.done = mine, done

    @coro
    def start(self):
        units = int(np.rint(self.mine / UNIT).astype(np.int64).sum())
        everywhere = self.allreduce(units, Reducer.sum).get()
        self.done(np.array([everywhere * UNIT]))
