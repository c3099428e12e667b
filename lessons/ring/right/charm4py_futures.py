"""Style: a coroutine with one future per array; what comes before `start` is kept until then."""

import numpy as np
from charm4py import Chare, Future, coro


class Member(Chare):
    def prepare(self, size, mine, done):
        self.size, self.mine, self.done = size, mine, done
        self.boxes, self.early = None, []

    @coro
    def start(self):
        size, rank = self.size, self.thisIndex[0]
        self.boxes = [Future() for _ in range(size)]  # one per owner
        for owner, came in self.early:
            self.boxes[owner].send(came)
        right = self.thisProxy[(rank + 1) % size]
        result = np.empty((size, len(self.mine)))
        result[rank] = self.mine
        for turn in range(1, size):
            last, this = (rank - turn + 1) % size, (rank - turn) % size
            right.fill(last, result[last])
            result[this] = self.boxes[this].get()
        self.done(result)

    def fill(self, owner, came):
        if self.boxes is None:
            self.early.append((owner, came))
        else:
            self.boxes[owner].send(came)
