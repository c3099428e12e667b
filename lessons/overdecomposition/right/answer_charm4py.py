"""Model answer of the lesson overdecomposition, for Charm4Py."""

import numpy as np
from charm4py import Chare

HEADER = 100  # bytes of a message besides its numbers
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def bounds(cells, parts, index):
    """Return the first cell of a part of an axis, and the first one after it."""
    return index * cells // parts, (index + 1) * cells // parts


def neighbours(blocks, index, periodic):
    """Return the blocks beside a block, by side."""
    down, across = blocks
    found = {}
    for side, (r, c) in MOVES.items():
        row, column = index // across + r, index % across + c
        if periodic or (0 <= row < down and 0 <= column < across):
            found[side] = row % down * across + column % across
    return found


def costs(shape, periodic, plans, pes, message, wait):
    """Return a table, float64, (plans, 5), with a line for each (down, across) in plans."""
    table = np.zeros((len(plans), 5))
    for line, blocks in enumerate(plans):
        count = blocks[0] * blocks[1]
        busy, longest, messages, ghosts = np.zeros(pes), np.zeros(pes), 0, 0
        for index in range(count):
            row, column = divmod(index, blocks[1])
            top, bottom = bounds(shape[0], blocks[0], row)
            left, right = bounds(shape[1], blocks[1], column)
            height, width = bottom - top, right - left
            beside = neighbours(blocks, index, periodic)
            messages += len(beside)
            ghosts += sum(width if side in ("up", "down") else height for side in beside)
            time = height * width + message * len(beside)
            pe = index * pes // count
            busy[pe] += time
            longest[pe] = max(longest[pe], time)
        step_time = np.maximum(busy, wait + longest).max()
        table[line, :4] = messages, ghosts, 8 * ghosts + HEADER * messages, step_time
    table[table[:, 3].argmin(), 4] = 1
    return table


class Block(Chare):
    """One block of the grid."""

    def prepare(self, size, grid, blocks, periodic, steps, plan, done):
        """Keep what this chare needs."""
        self.steps, self.done, self.plan, self.periodic = steps, done, plan, periodic
        self.shape = grid.shape[0] - 2, grid.shape[1] - 2
        row, column = divmod(self.thisIndex[0], blocks[1])
        top, bottom = bounds(self.shape[0], blocks[0], row)
        left, right = bounds(self.shape[1], blocks[1], column)
        self.field = grid[top : bottom + 2, left : right + 2].copy()
        self.neighbours = neighbours(blocks, self.thisIndex[0], periodic)
        self.step, self.started, self.came = 0, False, {}

    def start(self):
        """Begin the first step, or compute the costs."""
        if self.plan:
            self.done(costs(self.shape, self.periodic, **self.plan))
            return
        self.started = True
        self.send_lines()
        self.go_on()

    def send_lines(self):
        """Send the outermost own cells of each side to the block there."""
        for side, index in self.neighbours.items():
            line = self.field[FIRST[side]].copy()
            self.thisProxy[index].receive(self.step, OPPOSITE[side], line)

    def receive(self, step, side, line):
        """Keep a line, and continue if nothing is missing."""
        self.came[step, side] = line
        self.go_on()

    def go_on(self):
        """Make steps as long as the lines for them are there."""
        while self.started and self.step < self.steps and self.complete():
            for side in self.neighbours:
                self.field[GHOSTS[side]] = self.came.pop((self.step, side))
            self.sweep()
            self.step += 1
            if self.step == self.steps:
                self.done(self.field[1:-1, 1:-1].copy())
            else:
                self.send_lines()

    def complete(self):
        """Whether the lines of all sides have come."""
        return all((self.step, side) in self.came for side in self.neighbours)

    def sweep(self):
        """Let every cell become the mean of five."""
        f = self.field
        around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]
        f[1:-1, 1:-1] = 0.2 * (f[1:-1, 1:-1] + around)
