"""Style: lists of arrays, kept by step."""

import numpy as np
from charm4py import Array, Chare, Future, charm

X, ID = 0, 5  # in a row of an array of particles: x, y, velocity in x, in y, charge, id


def push(particles, charges, low, size):
    """Let each particle feel the charges at the four corners of its cell, and move for one step.

    charges: of the mesh points in columns from low on. size: of the square, in cells.
    """
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
    """The columns from edges[index] to edges[index + 1]. Its methods run when messages arrive."""

    def prepare(self, size, particles, charges, edges, steps, done):
        """Keep what this chare needs, before any chare starts.

        particles: (n, 6), float64, one per row; n may be 0. charges: of this block's mesh points.
        done: to be called with the particles of this block after all steps, in order of their ids.
        """
        self.size, self.index, self.done = size, self.thisIndex[0], done
        self.particles, self.charges, self.edges, self.steps = particles, charges, edges, steps
        self.step, self.came, self.started = 0, {}, False  # came: lists of arrays, by step

    def start(self):
        """Begin the first step. Particles from other blocks may have come before."""
        self.started = True
        self.begin()
        self.go_on()

    def begin(self):
        push(self.particles, self.charges, self.edges[self.index], self.edges[-1])
        owner = np.searchsorted(self.edges, self.particles[:, X], side="right") - 1
        for other in range(self.size):
            if other != self.index:
                self.thisProxy[other].receive(self.step, self.particles[owner == other])
        self.particles = self.particles[owner == self.index]

    def go_on(self):
        while self.started and len(self.came.get(self.step, [])) == self.size - 1:
            self.particles = np.concatenate([self.particles, *self.came.pop(self.step, [])])
            self.step += 1
            if self.step == self.steps:
                self.started = False
                self.done(self.particles[np.argsort(self.particles[:, ID])])
            else:
                self.begin()

    def receive(self, step, particles):
        """Keep particles that come from another block, perhaps for the next step already."""
        self.came.setdefault(step, []).append(particles)
        self.go_on()
