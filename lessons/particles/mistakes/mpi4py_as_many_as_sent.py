"""You receive as many particles as you send.

How many come has nothing to do with how many go: the sender must say it. If more come than the
array holds, MPI ends the program; if fewer come, the rest of the array is never set. The call
irecv of mpi4py has the same problem: unless it is given a buffer, it has room for 32 KB only.
"""

import numpy as np

from lessons.particles import owners, push

STOPS = "Message truncated"
ID = 5


def exchange(comm, particles, edges):
    """Send the particles that have left this block to their blocks; returns all that are here."""
    owner = owners(particles, edges)
    others = [other for other in range(comm.size) if other != comm.rank]
    leaving = [particles[owner == to] for to in others]
    arrived = [np.empty_like(rows) for rows in leaving]
    for rows, came, other in zip(leaving, arrived, others, strict=True):
        comm.Sendrecv(rows, other, 0, came, other, 0)
    return np.concatenate([particles[owner == comm.rank], *arrived])


def advance(comm, particles, charges, edges, steps):
    """Make some steps; returns the particles that are in this block, in the order of their ids."""
    for _ in range(steps):
        push(particles, charges, edges[comm.rank], edges[-1])
        particles = exchange(comm, particles, edges)
    return particles[np.argsort(particles[:, ID])]
