"""Style: reduction of two integers per chare, the high and the low part of its sum."""

import numpy as np
from charm4py import Chare, Reducer

UNIT = 2.0**-40
PART = 2**32


class Part(Chare):
    def prepare(self, size, mine, done):
        self.mine, self.done = mine, done

    def start(self):
        units = np.rint(self.mine / UNIT).astype(np.int64)
        pair = np.array([np.sum(units // PART), np.sum(units % PART)], dtype=np.int64)
        self.reduce(self.thisProxy.finish, pair, Reducer.sum)

    def finish(self, pair):
        self.done(np.array([(int(pair[0]) * PART + int(pair[1])) * UNIT]))
