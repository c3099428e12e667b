"""Model answer of the lesson halo, for Charm4Py."""

from charm4py import Chare

OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


class Block(Chare):
    """One block of the grid."""

    def prepare(self, size, field, neighbours, steps, done):
        """Keep what this chare needs."""
        self.field, self.steps, self.done = field, steps, done
        self.neighbours = {side: i for side, i in neighbours.items() if i is not None}
        self.step = 0
        self.came = {}
        self.started = False

    def start(self):
        """Begin the first step. Lines of others may have come before."""
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
