"""The halo exchange of a grid, as a block of this project's contract.

    miniapps lesson check halo.py

A grid of numbers is cut into blocks. In each step every cell becomes the mean of itself and its
four neighbours. A block calls neither MPI nor Charm4Py: it yields what it needs, and a driver gives
it the answer. The check serves blocks in a random order, and moves them between steps.
"""

import numpy as np

from miniapps.contract import Collect, Peer, Post

OWN = slice(1, -1)
EDGES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}  # names of edges
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}


class Block:
    """One block of the grid."""

    kind = "block"  # all blocks are of one kind

    def __init__(self, rank, field, neighbours, steps):
        """Keep what this block needs.

        rank: the number of this block. field: (n + 2, m + 2), float64: its own cells,
        field[1:-1, 1:-1], and one line of ghosts on each side. neighbours: the numbers of the
        blocks "up", "down", "left" and "right" of this one; None where the grid ends: there the
        ghosts stay as they are. A neighbour may be this block itself, or the same block on two
        sides.
        """
        self.index, self.field, self.steps, self.made = (rank,), field, steps, 0
        self.neighbors = {}
        # TODO 1: self.neighbors[edge] = Peer(self.kind, (number,), its_edge) for each side with a
        #         neighbour. Our edge "up" leads to the block above: which of its edges leads to us?

    def step(self, count):
        """Make one step (count is 1), as a generator; returns whether it was the last one."""
        # TODO 2: yield Post("halo", {edge: line, ...}) with the outermost own cells of each side.
        #         A line belongs to the driver then: give it a copy.
        # TODO 3: halo = yield Collect("halo", (edge, ...)); put halo[edge] into the ghosts.
        yield from ()
        self.sweep()
        self.made += 1
        return self.made == self.steps

    def sweep(self):
        """Let every cell become the mean of five."""
        f = self.field
        around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]
        f[1:-1, 1:-1] = 0.2 * (f[1:-1, 1:-1] + around)

    def result(self):
        """The own cells, (n, m)."""
        return np.ascontiguousarray(self.field[1:-1, 1:-1])
