"""A right program whose push and owners are the lesson's own: most mistakes are not in these."""

import numpy as np

from miniapps.lessons.particles import owners, push

ID = 5


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here."""
    owner = owners(particles, edges)
    parts = [particles[owner == to] for to in range(comm.size)]
    return np.concatenate(comm.alltoall(parts))


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
