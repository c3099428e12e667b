"""Particles that cross blocks, with mpi4py.

    mpiexec -n 3 python particles.py

Particles fly over a periodic square of cells, among charges that are fixed. The square is cut into
blocks of whole columns, one per process. Particles that leave a block are sent to the others.
"""

import numpy as np
from mpi4py import MPI

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


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here now.

    Block i has the columns from edges[i] to edges[i + 1]. A particle may be in any block.
    """
    # TODO 2: in which block is each particle? np.searchsorted(edges, particles[:, X]) helps.
    # TODO 3: send each other process its particles, in one message, and remove them here. How does
    #         it know how many come?
    return particles


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are then in this block, in order of their ids.

    particles: (n, 6), float64, one per row; n may be 0. charges: of the mesh points of this block,
    in the columns edges[rank] to edges[rank + 1], both included. edges: (processes + 1,), int64.
    """
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        # TODO 4: exchange, and bring the particles into the order of their ids at the end.
    return particles


def main():
    """Let 8 particles fly, of which each block gets those in its columns."""
    comm, size, column = MPI.COMM_WORLD, 24, np.arange(8)
    if comm.rank == 0:
        test_push()
    charges = 1.0 - 2 * (np.arange(size + 1) % 2)
    charge = charges[column] * (2 * column + 1) / np.sqrt(8)
    everything = np.stack([column + 0.5, column + 0.5, 0 * column, column, charge, column + 1], 1)
    edges = np.arange(comm.size + 1) * size // comm.size
    low, high = edges[comm.rank], edges[comm.rank + 1]
    mine = everything[(low <= column) & (column < high)]
    for particle in advance(comm, mine, charges[low : high + 1], edges, 5):
        print(f"process {comm.rank}: particle {particle[ID]:.0f} at {particle[:2].round(9)}")


if __name__ == "__main__":
    main()
