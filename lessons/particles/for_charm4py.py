"""Particles that cross blocks, with Charm4Py.

    python -m charmrun.start +p2 particles.py

Particles fly over a periodic square of cells, among charges that are fixed. The square is cut into
blocks of whole columns, one per chare. Particles that leave a block are sent to the others.
"""

import numpy as np
from charm4py import Array, Chare, Future, charm

X, ID = 0, 5  # in a row of an array of particles: x, y, velocity in x, in y, charge, id


def push(particles, charges, low, size):
    """Let each particle feel the charges at the four corners of its cell, and move for one step.

    charges: of the mesh points in columns from low on. size: of the square, in cells.
    """
    position, velocity, charge = particles[:, 0:2], particles[:, 2:4], particles[:, 4:5]
    cell = np.floor(position)
    acceleration = np.zeros_like(position)
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        r = position - cell - corner
        fixed = charges.take(cell[:, :1].astype(int) - low + corner[0], mode="clip")
        square = (r * r).sum(axis=1, keepdims=True)
        acceleration += charge * fixed * r / (square * np.sqrt(square))
    position += velocity + 0.5 * acceleration
    velocity[:] = acceleration
    position %= size


def test_push():
    """Compare push with the closed form."""
    # TODO 1: push one particle for some steps, and print after each where it is and where it should
    #         be. Then mend push.


class Block(Chare):
    """The columns from edges[index] to edges[index + 1]. Its methods run when messages arrive."""

    def prepare(self, size, particles, charges, edges, steps, done):
        """Keep what this chare needs, before any chare starts.

        particles: (n, 6), float64, one per row; n may be 0. charges: of this block's mesh points.
        done: to be called with the particles of this block after all steps, in order of their ids.
        """
        self.size, self.index, self.done = size, self.thisIndex[0], done
        self.particles, self.charges, self.edges, self.steps = particles, charges, edges, steps
        self.step, self.came, self.started = 0, {}, False  # came: lists of arrays, by step

    def start(self):
        """Begin the first step. Particles from other blocks may have come before."""
        # TODO 2: push. Then find the blocks with np.searchsorted(self.edges, self.particles[:, X]).
        # TODO 3: send each other chare its particles, with self.thisProxy[other].receive(...), and
        #         remove them here. Then continue if nothing is missing.

    def receive(self, step, particles):
        """Keep particles that come from another block, perhaps for the next step already."""
        # TODO 4: when all of this step have come, put them to your own, and make the next step.


def main(args):
    """Let 8 particles fly among 3 blocks, and show the id, x and y of those in each."""
    test_push()
    charges, column = 1.0 - 2 * (np.arange(25) % 2), np.arange(8)
    charge = charges[column] * (2 * column + 1) / np.sqrt(8)
    everything = np.stack([column + 0.5, column + 0.5, 0 * column, column, charge, column + 1], 1)
    blocks, done = Array(Block, 3), [Future() for _ in range(3)]
    for i in range(3):
        mine = everything if i == 0 else everything[:0], charges[8 * i : 8 * i + 9]
        blocks[i].prepare(3, *mine, np.arange(4) * 8, 5, done[i], awaitable=True).get()
    blocks.start()
    print(*(future.get()[:, [ID, X, X + 1]].round(9) for future in done), sep="\n")
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
