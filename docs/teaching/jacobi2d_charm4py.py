"""Jacobi2D with Charm4Py, on one page: several blocks (chares) per PE, which may move.

    python -m charmrun.start +p2 jacobi2d_charm4py.py 100 80 50 4 2
        n x m cells, steps, and a grid of 4 x 2 chares: with 2 PEs that is 4 chares on each
    python -m charmrun.start +p2 jacobi2d_charm4py.py 100 80 50 4 2 10 +balancer GreedyLB
        the same, and a load balancer may move chares between PEs after every 10 steps

The plate is heated: 255 beyond the low-x and low-y sides, 1 beyond the others, 1 inside at first.
"""

import numpy as np
from charm4py import Array, Chare, Future, charm, when

# As in jacobi2d_mpi4py.py: where a side's own cells and its ghosts lie in a block's array.
OWN = slice(1, -1)
SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # low x, high x, low y, high y
FACE = {(-1, 0): (1, OWN), (1, 0): (-2, OWN), (0, -1): (OWN, 1), (0, 1): (OWN, -2)}
GHOST = {(-1, 0): (0, OWN), (1, 0): (-1, OWN), (0, -1): (OWN, 0), (0, 1): (OWN, -1)}


def part_of(cells, parts, part):
    """Return the cells [low, high) of one of nearly equal parts. They need not divide evenly."""
    return part * cells // parts, (part + 1) * cells // parts


class Block(Chare):
    """One block of the plate. Its methods run when messages arrive; no caller waits for them."""

    def __init__(self, size, grid, steps, period):
        self.steps, self.period, self.step, self.arrived = steps, period, 0, 0
        self.size, self.home = size, charm.myPe()
        (self.x0, x1), (self.y0, y1) = map(part_of, size, grid, self.thisIndex)
        around = {s: (self.thisIndex[0] + s[0], self.thisIndex[1] + s[1]) for s in SIDES}
        self.neighbor = {
            s: i for s, i in around.items() if 0 <= i[0] < grid[0] and 0 <= i[1] < grid[1]
        }
        self.old = np.ones((x1 - self.x0 + 2, y1 - self.y0 + 2))
        if (-1, 0) not in self.neighbor:
            self.old[0, :] = 255.0
        if (0, -1) not in self.neighbor:
            self.old[:, 0] = 255.0
        self.new = self.old.copy()

    def run(self, done):
        """Begin; done gets a value when all chares have made their steps."""
        self.done = done
        self.begin()

    def begin(self):
        """Begin a step: send the faces, and return. Waiting would keep the PE from other chares."""
        for side, index in self.neighbor.items():
            # A copy: a column is not contiguous, and Charm4Py 1.1 silently corrupts it.
            face = self.old[FACE[side]].copy()
            opposite = (-side[0], -side[1])  # our high x side is the receiver's low x side
            self.thisProxy[index].halo(self.step, opposite, face)
        self.count()

    @when("step == self.step")  # a neighbour may be one step ahead: then its message is kept
    def halo(self, step, side, face):
        """Store the halo of one side. Halos arrive in any order."""
        self.old[GHOST[side]] = face
        self.count()

    def count(self):
        """Sweep as soon as our own faces are sent and every neighbour's halo has arrived."""
        self.arrived += 1
        if self.arrived <= len(self.neighbor):
            return
        o = self.old
        self.new[OWN, OWN] = 0.2 * (
            o[OWN, OWN] + o[:-2, OWN] + o[2:, OWN] + o[OWN, :-2] + o[OWN, 2:]
        )
        self.old, self.new = self.new, self.old
        self.step, self.arrived = self.step + 1, 0
        if self.step == self.steps:
            self.reduce(self.done)  # done gets a value once all chares are here
        elif self.period and self.step % self.period == 0:
            self.AtSync()  # the runtime may move us now, with our attributes pickled
        else:
            self.thisProxy[self.thisIndex].begin()

    def resumeFromSync(self):  # noqa: N802 - the runtime's name
        """Continue after load balancing, perhaps on another PE."""
        self.begin()

    def result(self, folder):
        """Return largest change, checksum (see jacobi2d_mpi4py.py) and whether the block moved."""
        mine = np.ascontiguousarray(self.old[OWN, OWN])
        change = float(np.abs(mine - self.new[OWN, OWN]).max())
        x, y = np.ogrid[self.x0 : self.x0 + mine.shape[0], self.y0 : self.y0 + mine.shape[1]]
        places = (2 * (x * self.size[1] + y) + 1).astype(np.uint64)
        if folder is not None:
            np.save(f"{folder}/{self.x0}_{self.y0}.npy", mine)
        return change, int((mine.view(np.uint64) * places).sum()), self.home != charm.myPe()


def main(args):
    """Run the program. Only PE 0 runs this; the other PEs wait for messages to their chares."""
    n, m, steps, gx, gy, period = map(int, [*args[1:], "0"][:6])
    folder = args[7] if len(args) > 7 else None
    blocks = Array(Block, (gx, gy), args=[(n, m), (gx, gy), steps, period], useAtSync=True)
    done = Future()
    blocks.run(done)
    done.get()
    changes, sums, moved = zip(*blocks.result(folder, ret=True).get(), strict=True)
    print(f"{charm.numPes()} PE(s), {gx} x {gy} chares, {sum(moved)} ended on another PE")
    print(f"largest change in the last step {max(changes)}, checksum {sum(sums) % 2**64:016x}")
    charm.exit()


charm.start(main)
