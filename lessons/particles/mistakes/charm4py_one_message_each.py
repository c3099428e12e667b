"""You send a message for each particle.

The result is right. But each message costs a few microseconds, however short it is, and there may
be thousands of particles. Send all that go to the same block in one array.
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
        self.missing = {}  # by step: chares that have not announced, and particles

    def start(self):
        """Begin the first step. Particles from other blocks may have come before."""
        self.started = True
        self.push_and_send()
        self.go_on()

    def push_and_send(self):
        """Push the particles, and send those that have left to their blocks."""
        push(self.particles, self.charges, self.edges[self.index], self.edges[-1])
        owner = owners(self.particles, self.edges)
        for other in range(self.size):
            if other != self.index:
                leaving = self.particles[owner == other]
                self.thisProxy[other].receive(self.step, leaving[:0], len(leaving))
                for row in range(len(leaving)):
                    self.thisProxy[other].receive(self.step, leaving[row : row + 1])
        self.particles = self.particles[owner == self.index]

    def receive(self, step, particles, announced=-1):
        """Keep particles, perhaps for the next step already, and continue if nothing is missing."""
        waits, missing = self.missing.get(step, (self.size - 1, 0))
        self.missing[step] = (waits - (announced >= 0), missing + announced)
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
        """Whether the particles of all other chares have come."""
        return self.size == 1 or self.missing.get(self.step) == (0, 0)
