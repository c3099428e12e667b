"""Style: an entry method with `when` on the step; lines are put into the ghosts as they come."""

from charm4py import Chare, when


class Block(Chare):
    def prepare(self, size, field, neighbours, steps, done):
        self.field, self.left, self.done = field, steps, done
        self.neighbours = [(s, i) for s, i in neighbours.items() if i is not None]
        self.step, self.missing = 0, 0  # step 0: not started

    def start(self):
        self.begin_step()
        while not self.missing and self.left:  # a block without neighbours
            self.compute()

    def begin_step(self):
        self.step += 1
        self.missing = len(self.neighbours)
        f = self.field
        for side, i in self.neighbours:
            if side == "up":
                self.thisProxy[i].take(self.step, -1, None, f[1, 1:-1].copy())
            elif side == "down":
                self.thisProxy[i].take(self.step, 0, None, f[-2, 1:-1].copy())
            elif side == "left":
                self.thisProxy[i].take(self.step, None, -1, f[1:-1, 1].copy())
            else:
                self.thisProxy[i].take(self.step, None, 0, f[1:-1, -2].copy())

    @when("self.step == step")
    def take(self, step, row, column, line):
        if column is None:
            self.field[row, 1:-1] = line
        else:
            self.field[1:-1, column] = line
        self.missing -= 1
        if self.missing == 0:
            self.compute()

    def compute(self):
        f = self.field
        around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]
        f[1:-1, 1:-1] = 0.2 * (f[1:-1, 1:-1] + around)
        self.left -= 1
        if self.left:
            self.begin_step()
        else:
            self.done(f[1:-1, 1:-1].copy())
