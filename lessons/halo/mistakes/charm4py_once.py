"""No step is made, or one only, where no line has to come.

In a grid of one block with fixed edges no line ever comes, so start calls go_on once, and this call
must make all steps. Make steps as long as all lines are there: while, not if.
"""

from charm4py import Chare

STOPS = "stuck 0"

OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}


class Block(Chare):
    """One block of the grid. Its methods run when messages for them arrive."""

    def prepare(self, size, field, neighbours, steps, done):
        """Keep what this chare needs. All chares are prepared before one starts.

        field: (n + 2, m + 2), float64: the block's own cells, field[1:-1, 1:-1], and one line of
        ghosts on each side. neighbours: the indices of the blocks "up", "down", "left" and "right"
        of this one; None where the grid ends: there the ghosts stay as they are. A neighbour may be
        this chare itself, or the same chare on two sides. done: to be called with the own cells
        after all steps.
        """
        self.field, self.steps, self.done = field, steps, done
        self.neighbours = {side: i for side, i in neighbours.items() if i is not None}
        self.step, self.started = 0, False
        self.came = {}  # lines that have come, by the step and the side for which they are

    def start(self):
        """Begin the first step. Lines from other blocks may have come before."""
        self.started = True
        self.send_lines()
        self.go_on()

    def send_lines(self):
        """Send the outermost own cells of each side to the block there."""
        opposite = {"up": "down", "down": "up", "left": "right", "right": "left"}
        for side, index in self.neighbours.items():
            line = self.field[FIRST[side]].copy()
            self.thisProxy[index].receive(self.step, opposite[side], line)

    def receive(self, step, side, line):
        """Keep a line, perhaps for the next step already, and continue if nothing is missing."""
        self.came[step, side] = line
        self.go_on()

    def go_on(self):
        """Make steps as long as the lines for them are there."""
        if self.started and self.step < self.steps:
            if any((self.step, side) not in self.came for side in self.neighbours):
                return
            for side in self.neighbours:
                self.field[GHOSTS[side]] = self.came.pop((self.step, side))
            self.sweep()
            self.step += 1
            if self.step < self.steps:
                self.send_lines()
            else:
                self.done(self.field[OWN, OWN].copy())

    def sweep(self):
        """Let every cell become the mean of five."""
        f = self.field
        around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]
        f[1:-1, 1:-1] = 0.2 * (f[1:-1, 1:-1] + around)
