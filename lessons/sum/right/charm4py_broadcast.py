"""Style: reduction to one chare, which scales the sum and broadcasts it through the proxy."""

import numpy as np
from charm4py import Chare, Reducer

UNIT = 2.0**-40


class Part(Chare):
    def prepare(self, size, mine, done):
        self.done = done
        self.units = np.sum(np.round(mine / UNIT).astype("int64"), keepdims=True)

    def start(self):
        self.reduce(self.thisProxy[0].scale, self.units, Reducer.sum)

    def scale(self, units):
        self.thisProxy.finish(np.atleast_1d(units).astype(float) * UNIT)

    def finish(self, result):
        self.done(result)
