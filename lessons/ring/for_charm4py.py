"""A ring of chares, with Charm4Py.

    python -m charmrun.start +p2 ring.py

Each chare has an array. All arrays travel around the ring: every chare sends to the one on its
right and gets arrays from the one on its left, until it has seen them all.
"""

import numpy as np
from charm4py import Array, Chare, Future, charm


class Member(Chare):
    """One chare of the ring. Its methods run when messages for them arrive."""

    def prepare(self, size, mine, done):
        """Keep what this chare needs. All chares are prepared before one starts.

        size: the number of chares; mine: this chare's array of float64; done: to be called with
        the result.
        """
        self.size, self.rank, self.done = size, self.thisIndex[0], done
        self.everything = np.empty((size, len(mine)))  # all arrays, in the order of the chares
        self.everything[self.rank] = mine
        self.missing = size - 1  # arrays that have not come yet

    def start(self):
        """Begin: send the own array to the right."""
        # TODO 1: if there is no other chare, call self.done(self.everything).
        # TODO 2: else send to the right neighbour: self.thisProxy[right].pass_on(owner, array). The
        #         right neighbour of the last chare is the first one.

    def pass_on(self, owner, came):
        """Take the array of the chare `owner`, which the left neighbour has sent.

        It may come before `start` has been called, and before an array that was sent earlier.
        """
        # TODO 3: put the array where it belongs.
        # TODO 4: send it on, unless it has been around.
        # TODO 5: call self.done(self.everything) if it was the last one.


def main(args):
    """Let four chares begin with ten times their index, and show what the first has collected."""
    members, done = Array(Member, 4), [Future() for _ in range(4)]
    for index in range(4):
        mine = np.full(2, 10.0 * index)
        members[index].prepare(4, mine, done[index], awaitable=True).get()
    members.start()
    print(done[0].get())
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
