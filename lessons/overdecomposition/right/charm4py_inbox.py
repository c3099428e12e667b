"""Style: lines are kept by step and side; costs by plain loops."""

import numpy as np
from charm4py import Chare

HEADER = 100  # bytes of a message besides its numbers
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}


def bounds(cells, parts, index):
    """Return the first cell of a part of an axis, and the first one after it."""
    return index * cells // parts, (index + 1) * cells // parts


def neighbours(blocks, index, periodic):
    """Return the blocks beside a block: a dict from "up", "down", "left", "right" to an index.

    blocks: how many there are (down, across); index: row * across + column. Where a grid that is
    not periodic ends, the side is left out.
    """
    rows, columns = blocks
    row, column = divmod(index, columns)
    beside = {"up": (row - 1, column), "down": (row + 1, column)}
    beside |= {"left": (row, column - 1), "right": (row, column + 1)}
    found = {}
    for side, (i, j) in beside.items():
        if periodic:
            found[side] = i % rows * columns + j % columns
        elif 0 <= i < rows and 0 <= j < columns:
            found[side] = i * columns + j
    return found


def costs(shape, periodic, plans, pes, message, wait):
    """Return a table, float64, (plans, 5), with a line for each (down, across) in plans.

    In a line: messages of all blocks in a step; ghosts of all blocks; bytes (8 for each ghost, and
    HEADER for each message); the time of a step; and 1 for the plan with the least time, of equal
    ones for the first, else 0.
    """
    table = np.zeros((len(plans), 5))
    for line, (down, across) in zip(table, plans):
        number = down * across
        busy, longest = [0] * pes, [0] * pes
        messages = ghosts = 0
        for b in range(number):
            row, column = divmod(b, across)
            top, bottom = bounds(shape[0], down, row)
            left, right = bounds(shape[1], across, column)
            n, m = bottom - top, right - left
            sides = neighbours((down, across), b, periodic)
            messages += len(sides)
            ghosts += sum(m if side in ("up", "down") else n for side in sides)
            time = n * m + message * len(sides)
            pe = b * pes // number
            busy[pe] += time
            longest[pe] = max(longest[pe], time)
        step = max(max(b, wait + one) for b, one in zip(busy, longest))
        line[:4] = messages, ghosts, 8 * ghosts + HEADER * messages, step
    table[np.argmin(table[:, 3]), 4] = 1
    return table


class Block(Chare):
    """One block of the grid."""

    def prepare(self, size, grid, blocks, periodic, steps, plan, done):
        """Keep what this chare needs.

        grid: (rows + 2, columns + 2), the grid with a line around it. Of the grid's cells only
        those of this block have numbers; all others are NaN. blocks: how many (down, across).
        plan: None; or the other arguments of costs, by name, and no steps are made.
        """
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
        for side, index in self.neighbours.items():
            line = self.field[FIRST[side]].copy()
            self.thisProxy[index].receive(self.step, OPPOSITE[side], line)

    def receive(self, step, side, line):
        self.came[step, side] = line
        self.go_on()

    def go_on(self):
        while self.started and all((self.step, side) in self.came for side in self.neighbours):
            for side in self.neighbours:
                self.field[GHOSTS[side]] = self.came.pop((self.step, side))
            self.sweep()
            self.step += 1
            if self.step == self.steps:
                self.started = False
                self.done(np.ascontiguousarray(self.field[1:-1, 1:-1]))
            else:
                self.send_lines()

    def sweep(self):
        f = self.field
        around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]
        f[1:-1, 1:-1] = 0.2 * (f[1:-1, 1:-1] + around)
