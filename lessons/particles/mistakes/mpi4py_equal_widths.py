"""You compute owners as if all blocks had the same width.

x // (size / processes) is right only then. edges says where each block begins: np.searchsorted
finds the block of each particle.
"""

import numpy as np

from lessons.particles import push

X, ID = 0, 5


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here."""
    owner = particles[:, X] // (edges[-1] / comm.size)
    parts = [particles[owner == to] for to in range(comm.size)]
    return np.concatenate(comm.alltoall(parts))


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
