"""No particle changes its block.

The result has all particles with which each block began, also those that have left it. There they
feel the wrong charges. Send them to their new blocks after each push.
"""

from charm4py import Chare

from lessons.particles import push


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

    def receive(self, step, particles):
        """Nothing is sent."""

    def go_on(self):
        """Make all steps."""
        for _ in range(self.steps - 1):
            self.push_and_send()
        self.done(self.particles)
