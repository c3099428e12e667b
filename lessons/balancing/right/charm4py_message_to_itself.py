"""Style: each chare sends itself the next step, then migrates."""

import numpy as np
from charm4py import Array, Chare, Future, Reducer, charm

LIMIT = 1.05  # times the mean load: more is too much


def place(loads, where, pes):
    """Decide where blocks are to be; returns an array like where, which stays as it is.

    loads: (blocks,), the load of each block; where: (blocks,), the PE of each, 0 to pes - 1.
    """
    where = where.copy()
    while True:
        per = np.bincount(where, loads, pes)
        full, empty = int(np.argmax(per)), int(np.argmin(per))
        difference = per[full] - per[empty]
        if per[full] <= LIMIT * per.mean():
            break
        here = [b for b in np.flatnonzero(where == full) if 0 < loads[b] < difference]
        if not here:
            break
        block = min(here, key=lambda b: abs(loads[b] - difference / 2))
        where[block] = empty
    return where


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
        """Move, if this chare is to move, and go on. loads: (size,), the loads of all chares."""
        me = self.thisIndex[0]
        before = self.where[me]
        self.where = place(loads, self.where, charm.numPes())
        self.thisProxy[self.thisIndex].make_step()
        if self.where[me] != before:
            self.migrate(int(self.where[me]))
