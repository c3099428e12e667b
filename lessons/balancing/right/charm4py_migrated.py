"""Style: the runtime calls migrated on the new PE; chares that stay go on at once."""

import numpy as np
from charm4py import Chare, Reducer, charm


def place(loads, where, pes):
    where = np.array(where)
    while True:
        per = np.bincount(where, weights=loads, minlength=pes)
        full, empty = per.argmax(), per.argmin()
        gap = per[full] - per[empty]
        order = sorted(np.flatnonzero(where == full), key=lambda b: (abs(loads[b] - gap / 2), b))
        order = [b for b in order if 0 < loads[b] < gap]
        if per[full] <= per.mean() * 1.05 or not order:
            return where
        where[order[0]] = empty


class Block(Chare):
    def prepare(self, size, cells, where, steps, compute, done):
        self.loads, self.cells, self.where = np.zeros(size), cells, where
        self.steps, self.step, self.compute, self.done = steps, 0, compute, done

    def start(self):
        me = self.thisIndex[0]
        self.loads[:] = 0
        self.loads[me] = self.compute(me, self.step, self.cells)
        self.step += 1
        if self.step < self.steps:
            self.allreduce_loads()
        else:
            self.done(self.cells)

    def allreduce_loads(self):
        self.reduce(self.thisProxy.balance, self.loads, Reducer.sum)

    def balance(self, loads):
        self.where = place(loads, self.where, charm.numPes())
        target = int(self.where[self.thisIndex[0]])
        if target == charm.myPe():
            self.start()
        else:
            self.migrate(target)

    def migrated(self):
        self.start()
