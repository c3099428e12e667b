"""All processes send before they receive.

With many particles Send waits until the receiver has begun to receive, and no process does. Use
Isend, then receive, then wait for what you have sent.
"""

import numpy as np

from lessons.particles import owners, push

STOPS = "Send"
ID = 5


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here."""
    owner = owners(particles, edges)
    others = [other for other in range(comm.size) if other != comm.rank]
    leaving = [particles[owner == to] for to in others]
    counts = comm.alltoall([int((owner == to).sum()) for to in range(comm.size)])
    for rows, to in zip(leaving, others, strict=True):
        comm.Send(rows, to)
    arrived = [np.empty((counts[source], 6)) for source in others]
    for rows, source in zip(arrived, others, strict=True):
        comm.Recv(rows, source)
    return np.concatenate([particles[owner == comm.rank], *arrived])


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
