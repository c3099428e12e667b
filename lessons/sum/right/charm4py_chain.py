"""Style: a chain with `when`: a running sum goes from chare to chare, the last one tells all."""

import numpy as np
from charm4py import Chare, when

UNIT = 2.0**-40


class Part(Chare):
    def prepare(self, size, mine, done):
        self.size, self.mine, self.done, self.started = size, mine, done, False

    def start(self):
        self.started = True
        if self.thisIndex[0] == 0:
            self.thisProxy[0].add(0)

    @when("self.started")
    def add(self, running):
        running += int(np.sum(np.rint(self.mine / UNIT).astype(np.int64)))
        following = self.thisIndex[0] + 1
        if following < self.size:
            self.thisProxy[following].add(running)
        else:
            self.thisProxy.finish(running)

    @when("self.started")
    def finish(self, units):
        self.done(np.array([units * UNIT]))
