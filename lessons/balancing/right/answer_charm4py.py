"""Model answer of the lesson balancing, for Charm4Py."""

import numpy as np
from charm4py import Chare, Reducer, charm

LIMIT = 1.05  # times the mean load: more is too much


def place(loads, where, pes):
    """Decide where blocks are to be."""
    where = where.copy()
    while True:
        per = np.bincount(where, loads, pes)
        full, empty = per.argmax(), per.argmin()
        gap = per[full] - per[empty]
        useful = [b for b in range(len(loads)) if where[b] == full and 0 < loads[b] < gap]
        if per[full] <= LIMIT * per.mean() or not useful:
            return where
        where[min(useful, key=lambda b: abs(2 * loads[b] - gap))] = empty


class Block(Chare):
    """A block, with all its state in attributes."""

    def prepare(self, size, cells, where, steps, compute, done):
        """Keep what this chare needs."""
        self.size, self.cells, self.where = size, cells, where
        self.steps, self.step, self.compute, self.done = steps, 0, compute, done

    def start(self):
        """Begin."""
        self.make_step()

    def make_step(self):
        """Make a step, and contribute the load, unless it was the last step."""
        number = self.thisIndex[0]
        loads = np.zeros(self.size)
        loads[number] = self.compute(number, self.step, self.cells)
        self.step += 1
        if self.step == self.steps:
            self.done(self.cells)
        else:
            self.reduce(self.thisProxy.balance, loads, Reducer.sum)

    def balance(self, loads):
        """Continue, perhaps elsewhere."""
        self.where = place(loads, self.where, charm.numPes())
        self.thisProxy[self.thisIndex].make_step()
        pe = int(self.where[self.thisIndex[0]])
        if pe != charm.myPe():
            self.migrate(pe)
