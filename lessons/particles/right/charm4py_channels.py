"""Style: a coroutine with a channel to each other chare, read in the order of the chares."""

import numpy as np
from charm4py import Channel, Chare, coro

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
        self.me, self.done, self.steps = self.thisIndex[0], done, steps
        self.particles, self.charges, self.edges = particles, charges, edges
        self.others = [other for other in range(size) if other != self.me]

    @coro
    def start(self):
        channels = {i: Channel(self, remote=self.thisProxy[i]) for i in self.others}
        for _ in range(self.steps):
            push(self.particles, self.charges, self.edges[self.me], self.edges[-1])
            owner = np.searchsorted(self.edges, self.particles[:, X], side="right") - 1
            for other, channel in channels.items():
                channel.send(self.particles[owner == other])
            rest = [self.particles[owner == self.me]]
            self.particles = np.concatenate([*rest, *(one.recv() for one in channels.values())])
        self.done(self.particles[np.argsort(self.particles[:, ID])])
