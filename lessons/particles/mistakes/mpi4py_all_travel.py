"""All particles travel, also those that stay where they are.

The result is right. But each process sends all its particles in each step, and with more
processes each gets more, although it needs a few. Send only those that have left, and only to
where they are.
"""

import numpy as np

from lessons.particles import owners, push

ID = 5


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here."""
    everything = np.concatenate(comm.allgather(particles))
    return everything[owners(everything, edges) == comm.rank]


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
