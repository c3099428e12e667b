"""Style: all chares send their load to chare 0, which decides and sends the answer to all."""

import numpy as np
from charm4py import Chare, charm


def place(loads, where, pes):
    homes = [*map(int, where)]
    while True:
        per = [sum(loads[b] for b, pe in enumerate(homes) if pe == one) for one in range(pes)]
        full = max(range(pes), key=lambda pe: per[pe])
        empty = min(range(pes), key=lambda pe: per[pe])
        gap = per[full] - per[empty]
        fits = [b for b, pe in enumerate(homes) if pe == full and 0 < loads[b] < gap]
        if not fits or per[full] <= 1.05 * sum(per) / pes:
            return homes
        homes[min(fits, key=lambda b: abs(loads[b] - gap / 2))] = empty


class Block(Chare):
    def prepare(self, size, cells, where, steps, compute, done):
        self.size, self.cells, self.homes = size, cells, [*map(int, where)]
        self.left, self.made, self.compute, self.done = steps, 0, compute, done
        self.loads = {}

    def start(self):
        self.make_step()

    def make_step(self):
        load = self.compute(self.thisIndex[0], self.made, self.cells)
        self.made, self.left = self.made + 1, self.left - 1
        if self.left == 0:
            self.done(self.cells)
        else:
            self.thisProxy[0].collect(self.thisIndex[0], load)

    def collect(self, block, load):
        """Of chare 0 alone: when all loads are there, decide."""
        self.loads[block] = load
        if len(self.loads) == self.size:
            loads = [self.loads[b] for b in range(self.size)]
            self.loads = {}
            self.homes = place(np.array(loads), self.homes, charm.numPes())
            self.thisProxy.move(self.homes)

    def move(self, homes):
        self.thisProxy[self.thisIndex].make_step()
        if homes[self.thisIndex[0]] != charm.myPe():
            self.migrate(homes[self.thisIndex[0]])
