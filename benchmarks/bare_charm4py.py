"""The cost of a message with Charm4Py alone: chares on two PEs exchange arrays, nothing else.

    python -m charmrun.start +p2 bare_charm4py.py BYTES ROUNDS ++local

As `bare_mpi4py.py`, with entry methods. If an array of a wrong round arrives, the program never
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

    def __init__(self, words: int, rounds: int) -> None:
        self.words, self.rounds, self.round = words, rounds, 0
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
            self.other.take(array)

    def take(self, array: np.ndarray) -> None:
        """Count an array; the last array of a round begins the next round."""
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
    blocks = Array(Block, 2, args=[size // 8, rounds])
    charm.awaitCreation(blocks)
    done = Future()
    began = perf_counter()
    blocks.start(done)
    done.get()
    print((perf_counter() - began) / (rounds * ARRAYS) * 1e6, flush=True)
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
