"""You send particles to the two neighbours only.

A fast particle may fly over a whole block. With up to three blocks all others are neighbours, so
this shows with four. Send each particle to the block in which it is.
"""

import numpy as np
from charm4py import Chare

from lessons.particles import owners, push

ID = 5


class Block(Chare):
    """The columns from edges[index] to edges[index + 1]."""

    def prepare(self, size, particles, charges, edges, steps, done):
        """Keep what this chare needs."""
        self.size, self.index, self.done = size, self.thisIndex[0], done
        self.particles, self.charges, self.edges, self.steps = particles, charges, edges, steps
        self.step, self.came = 0, {}
        self.started = False
        i = self.index
        self.beside = {(i - 1) % size, (i + 1) % size} - {i}

    def start(self):
        """Begin the first step. Particles from other blocks may have come before."""
        self.started = True
        self.push_and_send()
        self.go_on()

    def push_and_send(self):
        """Push the particles, and send those that have left to their blocks."""
        push(self.particles, self.charges, self.edges[self.index], self.edges[-1])
        owner = owners(self.particles, self.edges)
        for other in self.beside:
            self.thisProxy[other].receive(self.step, self.particles[owner == other])
        self.particles = self.particles[~np.isin(owner, list(self.beside))]

    def receive(self, step, particles):
        """Keep particles, perhaps for the next step already, and continue if nothing is missing."""
        self.came.setdefault(step, []).append(particles)
        self.go_on()

    def go_on(self):
        """Make steps as long as the particles for them are there."""
        while self.started and self.step < self.steps and self.complete():
            self.particles = np.concatenate([self.particles, *self.came.pop(self.step, [])])
            self.step += 1
            if self.step < self.steps:
                self.push_and_send()
            else:
                self.done(self.particles[np.argsort(self.particles[:, ID])])

    def complete(self):
        """Whether the particles of the chares beside this one have come."""
        return len(self.came.get(self.step, [])) == len(self.beside)
