"""Model answer of the lesson particles, for mpi4py."""

import numpy as np
from mpi4py import MPI

X, ID = 0, 5


def push(particles, charges, low, size):
    """Let each particle feel the charges at the four corners of its cell, and move for one step."""
    position, velocity, charge = particles[:, 0:2], particles[:, 2:4], particles[:, 4:5]
    cell = np.floor(position)
    acceleration = np.zeros_like(position)
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        r = position - cell - corner
        fixed = charges.take(cell[:, :1].astype(int) - low + corner[0], mode="clip")
        square = (r * r).sum(axis=1, keepdims=True)
        acceleration += charge * fixed * r / (square * np.sqrt(square))
    position += velocity + 0.5 * acceleration
    velocity += acceleration
    position %= size


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here."""
    owner = np.searchsorted(edges, particles[:, X], side="right") - 1
    leaving = {to: particles[owner == to] for to in range(comm.size) if to != comm.rank}
    counts = comm.alltoall([len(leaving.get(to, ())) for to in range(comm.size)])
    arriving = {source: np.empty((n, 6)) for source, n in enumerate(counts) if n}
    requests = [comm.Irecv(rows, source) for source, rows in arriving.items()]
    requests += [comm.Isend(rows, to) for to, rows in leaving.items() if len(rows)]
    MPI.Request.Waitall(requests)
    return np.concatenate([particles[owner == comm.rank], *arriving.values()])


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]


def test_push():
    """Compare push with the closed form."""
    size, column, row, k, m = 16, 4, 3, 1, 2
    charges = 1.0 - 2 * (np.arange(size + 1) % 2)
    particles = np.array([[column + 0.5, row + 0.5, 0, m, (2 * k + 1) / np.sqrt(8), 1]])
    for step in range(1, 6):
        push(particles, charges, 0, size)
        x, y = column + 0.5 + (2 * k + 1) * step, row + 0.5 + m * step
        print(step, particles[0, :2].round(9), x % size, y % size)


if __name__ == "__main__":
    test_push()
