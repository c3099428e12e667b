"""Style: particles of a later step are held back by @when, and arrivals are counted."""

import numpy as np
from charm4py import Chare, when

X, ID = 0, 5


def push(particles, charges, low, size):
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
    def prepare(self, size, particles, charges, edges, steps, done):
        self.others = [i for i in range(size) if i != self.thisIndex[0]]
        self.particles, self.charges, self.edges = particles, charges, edges
        self.left, self.step, self.done, self.arrived = steps, 0, done, []

    def start(self):
        me = self.thisIndex[0]
        push(self.particles, self.charges, self.edges[me], self.edges[-1])
        owner = np.searchsorted(self.edges, self.particles[:, X], side="right") - 1
        for other in self.others:
            self.thisProxy[other].receive(self.step, self.particles[owner == other])
        self.count(self.particles[owner == me])

    @when("step == self.step")
    def receive(self, step, particles):
        self.count(particles)

    def count(self, particles):
        """Note what came, or what stays here; the last one ends the step."""
        self.arrived.append(particles)
        if len(self.arrived) <= len(self.others):
            return
        self.particles, self.arrived = np.concatenate(self.arrived), []
        self.step, self.left = self.step + 1, self.left - 1
        if self.left:
            self.start()
        else:
            self.done(self.particles[np.argsort(self.particles[:, ID])])
