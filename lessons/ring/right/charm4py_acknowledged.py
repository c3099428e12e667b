"""Style: a coroutine that awaits each call of its right neighbour (awaitable, get)."""

import numpy as np
from charm4py import Chare, coro


class Member(Chare):
    def prepare(self, size, mine, done):
        self.size, self.rank, self.done = size, self.thisIndex[0], done
        self.everything = np.zeros((size, len(mine)))
        self.everything[self.rank] = mine
        self.seen, self.sent_all, self.finished = 1, size == 1, False

    @coro
    def start(self):
        for hop in range(self.size - 1):
            owner = (self.rank - hop) % self.size
            self.hop = hop
            self.wait("self.seen > self.hop")
            right = self.thisProxy[(self.rank + 1) % self.size]
            right.put(owner, self.everything[owner], awaitable=True).get()
        self.sent_all = True
        self.look()

    @coro
    def put(self, owner, came):
        self.everything[owner] = came
        self.seen += 1
        self.look()

    def look(self):
        if self.sent_all and self.seen == self.size and not self.finished:
            self.finished = True
            self.done(self.everything)
