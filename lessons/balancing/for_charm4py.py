"""Load balancing by moving chares, with Charm4Py.

    python -m charmrun.start +p3 balancing.py

Each chare is a block. In each step it computes, and its load turns out. Then some chares move to
other PEs, so that the next step is shared more evenly.
"""

import numpy as np
from charm4py import Array, Chare, Future, charm

LIMIT = 1.05  # times the mean load: more is too much


def place(loads, where, pes):
    """Decide where blocks are to be; returns an array like where, which stays as it is.

    loads: (blocks,), the load of each block; where: (blocks,), the PE of each, 0 to pes - 1.
    """
    where = where.copy()
    # TODO 2: the rule of the page. np.bincount(where, loads, pes) is the load of each PE.
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
        # TODO 1: else let the method balance of all chares get the loads of all: add up these
        #         arrays by a reduction, as in lesson 3 (import Reducer from charm4py).

    def balance(self, loads):
        """Move, if this chare is to move, and continue. loads: (size,), the loads of all chares."""
        # TODO 3: let place decide, and keep its answer in self.where: the next decision needs it.
        # TODO 4: continue with make_step, on the right PE. self.migrate(pe) moves this chare, an
        #         ordinary int, and must be the last statement: what comes after it happens to a
        #         copy that is thrown away. A message that the chare has sent to itself before,
        #         self.thisProxy[self.thisIndex].make_step(), comes with it.


def main(args):
    """Let 12 blocks, of which the last ones are hot, cool down, and show what is left."""
    from miniapps.lessons.balancing import compute

    count, pes = 12, charm.numPes()
    chares, done = Array(Block, ndims=1), [Future() for _ in range(count)]
    where = np.arange(count) * pes // count
    for b in range(count):
        chares.ckInsert(b, [], onPE=int(where[b]))
        cells = (0.5 + 0.1 * b) * np.random.default_rng(b).random(400)
        chares[b].prepare(count, cells, where, 5, compute, done[b], awaitable=True).get()
    chares.ckDoneInserting()
    chares.start()
    print("cells that are still active:", [int((f.get() > 0.5).sum()) for f in done])
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
