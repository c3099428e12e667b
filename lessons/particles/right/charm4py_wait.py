"""Style: a coroutine that waits until a dict by step and sender is full."""

import numpy as np
from charm4py import Chare, coro

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
        self.rank, self.size, self.done, self.steps = self.thisIndex[0], size, done, steps
        self.particles, self.charges, self.edges = particles, charges, edges
        self.came = [{} for _ in range(steps)]  # by step, then by sender
        self.step = 0

    @coro
    def start(self):
        for self.step in range(self.steps):
            push(self.particles, self.charges, self.edges[self.rank], self.edges[-1])
            x = self.particles[:, X]
            for i in range(self.size):
                inside = (self.edges[i] <= x) & (x < self.edges[i + 1])
                if i == self.rank:
                    self.came[self.step][i] = self.particles[inside]
                else:
                    self.thisProxy[i].take(self.step, self.rank, self.particles[inside])
            self.wait("len(self.came[self.step]) == self.size")
            self.particles = np.concatenate([*self.came[self.step].values()])
        self.done(self.particles[self.particles[:, ID].argsort()])

    def take(self, step, sender, particles):
        self.came[step][sender] = particles
