"""Style: lines of a later step are held back by @when; arrivals are counted; costs with NumPy."""

import numpy as np
from charm4py import Chare, when

HEADER = 100
STEP = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
BACK = {"up": "down", "down": "up", "left": "right", "right": "left"}


def bounds(cells, parts, index):
    return cells * index // parts, cells * (index + 1) // parts


def neighbours(blocks, index, periodic):
    down, across = blocks
    found = {}
    for side, (dy, dx) in STEP.items():
        y, x = index // across + dy, index % across + dx
        if periodic or (0 <= y < down and 0 <= x < across):
            found[side] = (y + down) % down * across + (x + across) % across
    return found


def costs(shape, periodic, plans, pes, message, wait):
    rows = [cost(shape, periodic, plan, pes, message, wait) for plan in plans]
    best = min(range(len(rows)), key=lambda i: rows[i][3])
    return np.array([[*row, float(i == best)] for i, row in enumerate(rows)])


def cost(shape, periodic, plan, pes, message, wait):
    """Messages, ghosts, bytes and time of one plan."""
    down, across = plan
    number = down * across
    heights = np.diff([shape[0] * i // down for i in range(down + 1)])
    widths = np.diff([shape[1] * i // across for i in range(across + 1)])
    beside = [neighbours(plan, b, periodic) for b in range(number)]
    vertical = np.array([("up" in sides) + ("down" in sides) for sides in beside])
    level = np.array([("left" in sides) + ("right" in sides) for sides in beside])
    high, wide = np.repeat(heights, across), np.tile(widths, down)
    times = high * wide + message * (vertical + level)
    pe = np.arange(number) * pes // number
    busy = np.bincount(pe, times, pes)
    longest = [max(times[pe == one], default=0) for one in range(pes)]
    step = max(np.maximum(busy, wait + np.array(longest)))
    messages, ghosts = (vertical + level).sum(), (vertical * wide + level * high).sum()
    return messages, ghosts, 8 * ghosts + HEADER * messages, step


class Block(Chare):
    def prepare(self, size, grid, blocks, periodic, steps, plan, done):
        self.shape, self.periodic = (grid.shape[0] - 2, grid.shape[1] - 2), periodic
        self.steps, self.plan, self.done = steps, plan, done
        me = self.thisIndex[0]
        y0, y1 = bounds(self.shape[0], blocks[0], me // blocks[1])
        x0, x1 = bounds(self.shape[1], blocks[1], me % blocks[1])
        self.old = np.array(grid[y0 : y1 + 2, x0 : x1 + 2])
        self.new = np.array(self.old)
        self.beside = neighbours(blocks, me, periodic)
        self.step = self.arrived = 0

    def start(self):
        if self.plan:
            self.done(costs(self.shape, self.periodic, **self.plan))
        else:
            self.begin()

    def begin(self):
        u = self.old
        lines = {"up": u[1, 1:-1], "down": u[-2, 1:-1], "left": u[1:-1, 1], "right": u[1:-1, -2]}
        for side, other in self.beside.items():
            self.thisProxy[other].halo(self.step, BACK[side], lines[side].copy())
        self.count()

    @when("step == self.step")
    def halo(self, step, side, line):
        u = self.old
        ghosts = {"up": u[0, 1:-1], "down": u[-1, 1:-1], "left": u[1:-1, 0], "right": u[1:-1, -1]}
        ghosts[side][:] = line
        self.count()

    def count(self):
        self.arrived += 1
        if self.arrived <= len(self.beside):
            return
        u = self.old
        self.new[1:-1, 1:-1] = 0.2 * (
            u[1:-1, 1:-1] + (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        )
        self.old, self.new = self.new, self.old
        self.step, self.arrived = self.step + 1, 0
        if self.step < self.steps:
            self.begin()
        else:
            self.done(self.old[1:-1, 1:-1].copy())
