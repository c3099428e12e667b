"""The halo exchange of a grid, with Charm4Py.

    python -m charmrun.start +p2 halo.py

A grid of numbers is cut into blocks, one per chare. In each step every cell becomes the mean of
itself and its four neighbours. Cells at the edge of a block have neighbours in another chare.
"""

import numpy as np
from charm4py import Array, Chare, Future, charm

OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}


class Block(Chare):
    """One block of the grid. Its methods run when messages for them arrive."""

    def prepare(self, size, field, neighbours, steps, done):
        """Keep what this chare needs. All chares are prepared before one starts.

        field: (n + 2, m + 2), float64: the block's own cells, field[1:-1, 1:-1], and one line of
        ghosts on each side. neighbours: the indices of the blocks "up", "down", "left" and "right"
        of this one; None where the grid ends: there the ghosts stay as they are. A neighbour may be
        this chare itself, or the same chare on two sides. done: to be called with the own cells
        after all steps.
        """
        self.field, self.steps, self.done = field, steps, done
        self.neighbours = {side: i for side, i in neighbours.items() if i is not None}
        self.step, self.started = 0, False
        self.came = {}  # lines that have come, by the step and the side for which they are

    def start(self):
        """Begin the first step. Lines from other blocks may have come before."""
        self.started = True
        self.send_lines()
        self.go_on()

    def send_lines(self):
        """Send the outermost own cells of each side to the block there."""
        # TODO 1: self.thisProxy[index].receive(step, side, line) for each neighbour; our line for
        #         the side "up" is self.field[FIRST["up"]]. For which side of the neighbour is it?
        #         Copy a column: it must be contiguous.

    def receive(self, step, side, line):
        """Keep a line, perhaps for the next step already, and continue if nothing is missing."""
        self.came[step, side] = line
        self.go_on()

    def go_on(self):
        """Make steps as long as the lines for them are there."""
        # TODO 2: while we have started and all lines of this step have come: put them into the
        #         ghosts, sweep, count the step, and either send the lines of the next one, or call
        #         self.done with the own cells. It must not be called twice.

    def sweep(self):
        """Let every cell become the mean of five."""
        f = self.field
        around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]
        f[1:-1, 1:-1] = 0.2 * (f[1:-1, 1:-1] + around)


def main(args):
    """Cut a grid of 4 columns into three blocks, with a hot row above, and show what comes out."""
    blocks, done = Array(Block, 3), [Future() for _ in range(3)]
    for index in range(3):
        around = {"up": index - 1 if index else None, "down": index + 1 if index < 2 else None}
        field = np.zeros((4, 6))
        field[0] = 0 if index else 100
        around |= {"left": None, "right": None}
        blocks[index].prepare(3, field, around, 5, done[index], awaitable=True).get()
    blocks.start()
    print(*(future.get().round(2) for future in done), sep="\n")
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
