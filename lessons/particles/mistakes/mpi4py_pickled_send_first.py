"""All processes send before they receive.

send may wait until its message is received. Short ones MPI copies, so with few particles it works.
Begin with isend, then recv, and wait for the sends at the end.
"""

import numpy as np

from lessons.particles import push

STOPS = "send"

X, ID = 0, 5  # in a row of an array of particles: x, y, velocity in x, in y, charge, id


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here now.

    Block i has the columns from edges[i] to edges[i + 1]. A particle may be in any block.
    """
    block = np.searchsorted(edges, particles[:, X], side="right") - 1
    parts = [particles[block == b] for b in range(comm.size)]
    others = [other for other in range(comm.size) if other != comm.rank]
    for other in others:
        comm.send(parts[other], other)
    arrived = [comm.recv(source=other) for other in others]
    return np.concatenate([parts[comm.rank], *arrived])


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are then in this block, in order of their ids.

    particles: (n, 6), float64, one per row; n may be 0. charges: of the mesh points of this block,
    in the columns edges[rank] to edges[rank + 1], both included. edges: (processes + 1,), int64.
    """
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
