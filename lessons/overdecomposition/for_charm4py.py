"""More blocks than PEs, and what they cost, with Charm4Py.

The blocks of lesson 2, now in any number. Each cuts its own part out of the grid.
"""

from charm4py import Chare

HEADER = 100  # bytes of a message besides its numbers
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}


def bounds(cells, parts, index):
    """Return the first cell of a part of an axis, and the first one after it."""
    # TODO 1: part i of p begins at cell i * cells / p, rounded down.


def neighbours(blocks, index, periodic):
    """Return the blocks beside a block: a dict from "up", "down", "left", "right" to an index.

    blocks: how many there are (down, across); index: row * across + column. Where a grid that is
    not periodic ends, the side is left out.
    """
    # TODO 2


def costs(shape, periodic, plans, pes, message, wait):
    """Return a table, float64, (plans, 5), with a line for each (down, across) in plans.

    In a line: messages of all blocks in a step; ghosts of all blocks; bytes (8 for each ghost, and
    HEADER for each message); the time of a step; and 1 for the plan with the least time, of equal
    ones for the first, else 0.
    """
    # TODO 3: Block b of n is on PE b * pes // n. It takes a time of 1 for each of its cells, and of
    #         `message` for each message that it gets. A PE takes the sum over its blocks, but not
    #         less than `wait` and its longest block together. The slowest PE counts.
    #         Make the table with np.zeros; import numpy as np.


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
        # TODO 4: the own cells, with one line around them. grid[1, 1] is the cell 0, 0.
        self.field = grid[...].copy()
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

    # TODO 5: send_lines, receive, go_on and sweep, as in your program of lesson 2.
