"""A sum that has the same bits for any number of chares, with Charm4Py.

    python -m charmrun.start +p2 sum.py

Each chare has a part of the numbers, perhaps an empty one. All want the sum of all of them.
"""

import numpy as np
from charm4py import Array, Chare, Future, Reducer, charm

UNIT = 2.0**-40  # numbers are added in whole units


class Part(Chare):
    """One chare, with its part of the numbers."""

    def prepare(self, size, mine, done):
        """Keep what this chare needs. All chares are prepared before one starts.

        size: the number of chares; mine: this chare's part of the numbers, float64; done: to be
        called with the sum of the numbers of all chares, as an array with one float64. Each number
        is rounded to the nearest whole number of units first. So the sum of all is a whole number
        of units, too.
        """
        self.mine, self.done = mine, done

    def start(self):
        """Contribute to the sum."""
        # TODO 1: this sum depends on how the numbers are distributed. Change main to 1, 2 and 3
        #         chares, and compare the last digits.
        # TODO 2: round each number to units, as integers of 64 bits, and add these up.
        self.reduce(self.thisProxy.finish, np.array([np.sum(self.mine)]), Reducer.sum)

    def finish(self, everywhere):
        """Take the sum over all chares, which every chare gets."""
        # TODO 3: pass on the sum in the numbers' own scale, not in units.
        self.done(np.array([everywhere]))


def main(args):
    """Add up 1000 numbers, of which each chare has a part."""
    count = 3
    parts, done = Array(Part, count), [Future() for _ in range(count)]
    numbers = np.random.default_rng(1).random(1000) - 0.5
    for index in range(count):
        low, high = (1000 * (index + more) // count for more in (0, 1))
        parts[index].prepare(count, numbers[low:high], done[index], awaitable=True).get()
    parts.start()
    print(f"{count} chares: {done[0].get()[0]:.20f}")
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
