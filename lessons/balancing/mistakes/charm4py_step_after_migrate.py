"""You continue after self.migrate, on the chare that has left.

What comes after migrate happens to a copy that is thrown away, and it has no runtime any more. Send
yourself the message make_step first; it comes with the chare.
"""

import numpy as np
from charm4py import Chare, Reducer, charm

STOPS = "AttributeError in make_step"

LIMIT = 1.05  # times the mean load: more is too much


def place(loads, where, pes):
    """Decide where blocks are to be; returns an array like where, which stays as it is.

    loads: (blocks,), the load of each block; where: (blocks,), the PE of each, 0 to pes - 1.
    """
    where = where.copy()
    while True:
        per = np.bincount(where, loads, pes)
        full, empty = int(np.argmax(per)), int(np.argmin(per))
        if per[full] <= LIMIT * per.mean():
            return where
        gap = per[full] - per[empty]
        candidates = [b for b in range(len(loads)) if where[b] == full and 0 < loads[b] < gap]
        if not candidates:
            return where
        best = min(candidates, key=lambda b: abs(loads[b] - gap / 2))
        where[best] = empty


class Block(Chare):
    """A block. What it must not lose when it moves is in attributes of self."""

    def prepare(self, size, cells, where, steps, compute, done):
        """Keep what this chare needs. All chares are prepared before one starts.

        size: the number of chares; cells: this block's own; where: (size,), the PE of each block;
        compute: what makes a step; done: to be called with the cells after all steps.
        """
        self.size, self.cells, self.where = size, cells, where
        self.steps, self.step, self.compute, self.done = steps, 0, compute, done

    def start(self):
        """Begin."""
        self.make_step()

    def make_step(self):
        """Make a step. Then either the next one is prepared, or this was the last one."""
        number = self.thisIndex[0]
        loads = np.zeros(self.size)
        loads[number] = self.compute(number, self.step, self.cells)  # changes the cells
        self.step += 1
        if self.step == self.steps:
            self.done(self.cells)
        else:
            self.reduce(self.thisProxy.balance, loads, Reducer.sum)

    def balance(self, loads):
        """Move, if this chare is to move, and continue. loads: (size,), the loads of all chares."""
        number = self.thisIndex[0]
        self.where = place(loads, self.where, charm.numPes())
        if self.where[number] != charm.myPe():
            self.migrate(int(self.where[number]))
        self.make_step()
