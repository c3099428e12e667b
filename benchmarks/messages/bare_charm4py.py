"""The cost of a message with Charm4Py alone: chares on two PEs exchange arrays, nothing else.

    python -m charmrun.start +p2 bare_charm4py.py BYTES ROUNDS direct|pickled ++local

As `bare_mpi4py.py`, with entry methods. Charm4Py copies an array that is an argument directly into
the message; in a list it is pickled. If an array of a wrong round arrives, the program never
ends.
"""

import sys
from collections import Counter
from time import perf_counter
from typing import Any

import numpy as np
from charm4py import Array, Chare, Future, charm

ARRAYS = 2  # per round


class Block(Chare):
    """One of two chares, each on a PE of its own."""

    def __init__(self, words: int, rounds: int, pickled: bool) -> None:
        self.words, self.rounds, self.round, self.pickled = words, rounds, 0, pickled
        self.came: Counter[int] = Counter()  # arrays by round; the other chare may be ahead

    def start(self, done: Any) -> None:
        """Begin the first round."""
        self.done, self.other = done, self.thisProxy[1 - self.thisIndex[0]]
        self.send()
        self.go_on()

    def send(self) -> None:
        """Send the arrays of a round."""
        for _ in range(ARRAYS):
            array = np.zeros(self.words, np.int64)
            array[0] = self.round
            self.other.take([array] if self.pickled else array)

    def take(self, came: Any) -> None:
        """Count an array; the last array of a round begins the next round."""
        (array,) = came if self.pickled else (came,)
        self.came[int(array[0])] += 1
        if hasattr(self, "other"):
            self.go_on()

    def go_on(self) -> None:
        """Begin the next round while the arrays of this one are complete."""
        while self.came[self.round] == ARRAYS:
            self.round += 1
            if self.round == self.rounds:
                self.contribute(None, None, self.done)
            else:
                self.send()


def main(_: Any) -> None:
    """Run the exchange with the size and rounds of the command line."""
    size, rounds = (int(word) for word in sys.argv[1:3])
    blocks = Array(Block, 2, args=[size // 8, rounds, sys.argv[3] == "pickled"])
    charm.awaitCreation(blocks)
    done = Future()
    began = perf_counter()
    blocks.start(done)
    done.get()
    print((perf_counter() - began) / (rounds * ARRAYS) * 1e6, flush=True)
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
