"""Style: numbers by alltoall, then messages that are not empty, in arrays."""

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
    velocity += acceleration
    position %= size


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here now.

    Block i has the columns from edges[i] to edges[i + 1]. A particle may be in any block.
    """
    owner = np.searchsorted(edges, particles[:, X], side="right") - 1
    requests = []
    numbers = [int((owner == other).sum()) for other in range(comm.size)]
    numbers[comm.rank] = 0
    coming = comm.alltoall(numbers)
    for other in range(comm.size):
        if numbers[other]:
            requests.append(comm.Isend(particles[owner == other], other))
    parts = [particles[owner == comm.rank]]
    for other in range(comm.size):
        if coming[other]:
            came = np.empty((coming[other], 6))
            comm.Recv(came, source=other)
            parts.append(came)
    MPI.Request.Waitall(requests)
    return np.concatenate(parts)


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are then in this block, in order of their ids.

    particles: (n, 6), float64, one per row; n may be 0. charges: of the mesh points of this block,
    in the columns edges[rank] to edges[rank + 1], both included. edges: (processes + 1,), int64.
    """
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
