"""No particle changes its block.

The result has all particles with which each block began, also those that have left it. There they
feel the wrong charges. Send them to their new blocks after each push.
"""

import numpy as np

from lessons.particles import push

ID = 5


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
    return particles[np.argsort(particles[:, ID])]
