"""A right program whose push and owners are the lesson's own: most mistakes are not in these."""

import numpy as np
from charm4py import Chare

from miniapps.lessons.particles import owners, push

ID = 5


class Block(Chare):
    """The columns from edges[index] to edges[index + 1]."""

    def prepare(self, size, particles, charges, edges, steps, done):
        """Keep what this chare needs."""
        self.size, self.index, self.done = size, self.thisIndex[0], done
        self.particles, self.charges, self.edges, self.steps = particles, charges, edges, steps
        self.step, self.came = 0, {}
        self.started = False

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
                self.thisProxy[other].receive(self.step, self.particles[owner == other])
        self.particles = self.particles[owner == self.index]

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
        """Whether the particles of all other chares have come."""
        return len(self.came.get(self.step, [])) == self.size - 1
