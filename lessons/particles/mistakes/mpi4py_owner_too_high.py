"""Your owners are too high by one, so on one process no particle has a block.

np.searchsorted(edges, x) says before which edge x would have to stand: in block 0 that is edge 1.
Subtract 1.
"""

import numpy as np

from lessons.particles import push

X, ID = 0, 5


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here."""
    owner = np.searchsorted(edges, particles[:, X], side="right")
    parts = [particles[owner == to] for to in range(comm.size)]
    return np.concatenate(comm.alltoall(parts))


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
