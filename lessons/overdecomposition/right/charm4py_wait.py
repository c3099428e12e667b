"""Style: start is a coroutine that waits for the lines of its step, as an MPI program would."""

import numpy as np
from charm4py import Chare, coro

HEADER = 100
SIDES = ("up", "left", "right", "down")  # the opposite of SIDES[i] is SIDES[3 - i]


def bounds(cells, parts, index):
    first = index * cells // parts
    return first, first + ((index + 1) * cells // parts - first)


def neighbours(blocks, index, periodic):
    down, across = blocks
    row, column = divmod(index, across)
    beside = {}
    if periodic or row > 0:
        beside["up"] = (row - 1) % down * across + column
    if periodic or row < down - 1:
        beside["down"] = (row + 1) % down * across + column
    if periodic or column > 0:
        beside["left"] = row * across + (column - 1) % across
    if periodic or column < across - 1:
        beside["right"] = row * across + (column + 1) % across
    return beside


def costs(shape, periodic, plans, pes, message, wait):
    table = []
    for plan in plans:
        sizes = []  # of each block: height, width and sides
        for y in range(plan[0]):
            for x in range(plan[1]):
                (top, bottom), (left, right) = (
                    bounds(shape[0], plan[0], y),
                    bounds(shape[1], plan[1], x),
                )
                sides = neighbours(plan, y * plan[1] + x, periodic)
                sizes.append((bottom - top, right - left, sides))
        messages = sum(len(sides) for _, _, sides in sizes)
        ghosts = sum({"u": m, "d": m}.get(side[0], n) for n, m, sides in sizes for side in sides)
        of_pe = [[] for _ in range(pes)]
        for b, (n, m, sides) in enumerate(sizes):
            of_pe[b * pes // len(sizes)].append(n * m + message * len(sides))
        times = [max(sum(work), wait + max(work, default=0)) for work in of_pe]
        table.append([messages, ghosts, 8 * ghosts + HEADER * messages, max(times), 0])
    table = np.array(table, dtype=np.float64)
    table[np.flatnonzero(table[:, 3] == table[:, 3].min())[0], 4] = 1
    return table


class Block(Chare):
    def prepare(self, size, grid, blocks, periodic, steps, plan, done):
        self.grid_size = np.array(grid.shape) - 2
        self.periodic, self.steps, self.plan, self.done = periodic, steps, plan, done
        row, column = divmod(self.thisIndex[0], blocks[1])
        (a, b), (c, d) = (
            bounds(self.grid_size[0], blocks[0], row),
            bounds(self.grid_size[1], blocks[1], column),
        )
        self.u = grid[a : b + 2, c : d + 2].copy()
        self.beside = neighbours(blocks, self.thisIndex[0], periodic)
        self.lines = [{} for _ in range(steps)]  # by step and side
        self.step = 0

    @coro
    def start(self):
        if self.plan:
            self.done(costs(tuple(self.grid_size), self.periodic, **self.plan))
            return
        u = self.u
        edge = {"up": u[1], "down": u[-2], "left": u[:, 1], "right": u[:, -2]}
        ghost = {"up": u[0], "down": u[-1], "left": u[:, 0], "right": u[:, -1]}
        for self.step in range(self.steps):
            for side, other in self.beside.items():
                opposite = SIDES[3 - SIDES.index(side)]
                self.thisProxy[other].take(self.step, opposite, edge[side][1:-1].copy())
            self.wait("len(self.lines[self.step]) == len(self.beside)")
            for side, line in self.lines[self.step].items():
                ghost[side][1:-1] = line
            u[1:-1, 1:-1] = 0.2 * (
                u[1:-1, 1:-1] + (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            )
        self.done(u[1:-1, 1:-1].copy())

    def take(self, step, side, line):
        self.lines[step][side] = line
