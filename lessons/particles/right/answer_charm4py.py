"""Model answer of the lesson particles, for Charm4Py."""

import numpy as np
from charm4py import Chare

X, ID = 0, 5


def push(particles, charges, low, size):
    """Let each particle feel the charges at the four corners of its cell, and move for one step."""
    position, velocity, charge = particles[:, 0:2], particles[:, 2:4], particles[:, 4:5]
    cell = np.floor(position)
    acceleration = np.zeros_like(position)
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        r = position - cell - corner
        fixed = charges.take(cell[:, :1].astype(int) - low + corner[0], mode="clip")
        square = (r * r).sum(axis=1, keepdims=True)
        acceleration += charge * fixed * r / (square * np.sqrt(square))
    position += velocity + 0.5 * acceleration
    velocity += acceleration
    position %= size


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
        owner = np.searchsorted(self.edges, self.particles[:, X], side="right") - 1
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
