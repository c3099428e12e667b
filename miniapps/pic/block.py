"""One block of PIC: its parallel life, in order."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from kernels.device import Device
from kernels.messages import packed_empty
from kernels.state_hash import sums_of_ids
from miniapps.block import (
    AllReduce,
    Collect,
    Edge,
    Index,
    Mark,
    Measure,
    MessageError,
    Peer,
    Piece,
    Post,
)
from miniapps.decomposition import Layout
from miniapps.kernel_user import KernelUser
from miniapps.pic.events import Event
from miniapps.pic.particles import Particles
from miniapps.pic.problem import PicProblem


def owner_at(edge: Edge) -> int:
    """What the kernel `push` calls the block at an edge."""
    return 3 * (1 + edge[0]) + 1 + edge[1]


class PicBlock(KernelUser):
    """A rectangle of cells, the charges at their corners, and the particles in them."""

    kind = "block"

    def __init__(self, problem: PicProblem, layout: Layout, index: Index, device: Device) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.bounds = layout.bounds(index)
        self.own = np.array(self.bounds, np.int64).reshape(4)  # x0, x1, y0, y1
        self.block_rows = layout.grid[1]
        self.targets, self.sources = self._edges(layout)
        self.neighbors = self.targets | self.sources
        self.frame = self._frame(layout)
        self.mesh = self._mesh()
        self.time = 0
        self.particles = Particles()
        self.removed = np.zeros((len(problem.ordered_events), 3), np.uint64)
        self.leavers = np.zeros(256, np.int64)  # of the last push, per owner
        self.known = np.zeros(256, np.bool_)  # owners that there are
        self.known[[owner_at(edge) for edge in self.targets]] = True
        self.placed = self.born = 0  # on all blocks: at the beginning, up to now

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the kernels, and the mesh, which is sooner made than sent."""
        state = super().__getstate__()
        del state["mesh"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up life after a migration."""
        self.__dict__.update(state)
        self.mesh = self._mesh()

    def _edges(self, layout: Layout) -> tuple[dict[Edge, Peer], dict[Edge, Peer]]:
        """The blocks that particles go to, and those that they come from.

        All move forward along x, by at most one cell more than a block is wide.
        """
        wide, high = (blocks > 1 for blocks in layout.grid)
        narrowest = min(layout.widths(0))
        reach_x, reach_y = {0}, {0}
        for along_x, along_y in self.problem.moves():
            reach_x |= {1} | ({2} if along_x > narrowest else set()) if wide else set()
            reach_y |= {int(np.sign(along_y))} if high else set()
        edges = [(x, y) for x in sorted(reach_x) for y in sorted(reach_y) if (x, y) != (0, 0)]
        opposite = [(-x, -y) for x, y in edges]
        return layout.peers(self.index, edges), layout.peers(self.index, opposite)

    def _frame(self, layout: Layout) -> np.ndarray:
        """What `push` compares positions with; (9,) float64."""
        (x0, x1), (y0, y1) = self.bounds
        left, right, beyond, below, above = -np.inf, np.inf, np.inf, -np.inf, np.inf
        if layout.grid[0] > 1:
            left, right = x0, x1
            beyond = x1 + layout.widths(0)[(self.index[0] + 1) % layout.grid[0]]
        if layout.grid[1] > 1:
            below, above = y0, y1
        return np.array([x0, x1, y0, y1, left, right, beyond, below, above], np.float64)

    def _mesh(self) -> Any:
        """The charges at the corners of the block's cells: (width + 1, height + 1) int8."""
        (x0, x1), (y0, y1) = self.bounds
        mesh = np.ones((x1 - x0 + 1, y1 - y0 + 1), np.int8)
        mesh[(x0 + 1) % 2 :: 2] = -1
        return self.device.to_device(mesh)

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Let the events of this step happen, push, and exchange those that left."""
        if self.time == 0:
            yield from self.place()
        for number, event in enumerate(self.problem.ordered_events):
            if event.step == self.time:
                happen = self.inject if event.action == "inject" else self.remove
                happen(number, event)
        gaps = self.push()
        yield Mark()
        yield Post("particles", {edge: self.pack(edge, gaps) for edge in self.targets})
        came = yield Collect("particles", tuple(self.sources))
        self.settle(gaps, came)
        self.time += count
        return False

    # Coming and going ----------------------------------------------------------------------------

    def place(self) -> Generator[Any, Any, None]:
        """Place the particles of the beginning and number them column by column, as if one by one.

        How many begin in each column of each row of blocks is told to all blocks.
        """
        (x0, x1), size = self.bounds[0], self.problem.size
        distribution = self.problem.distribution
        means = distribution.means(self.problem.particles, size)[x0:x1]
        where = means, self.own, np.array(distribution.kept(size)), size
        counts = np.zeros((self.block_rows, size), np.int64)
        mine = counts[self.index[1], x0:x1]
        self.kernels.count_columns(*where, mine)
        total = yield AllReduce(counts, "sum")
        before = np.cumsum(total.T).reshape(total.T.shape) - total.T  # (columns, rows of blocks)
        cells = np.empty(mine.sum(), np.int64)
        self.kernels.place(*where, cells)
        begin = np.cumsum(mine) - mine
        ids = np.repeat(before[x0:x1, self.index[1]] - begin, mine) + np.arange(1, len(cells) + 1)
        self.placed = self.born = int(total.sum())
        self.begin(0, cells, ids)

    def begin(self, motion: int, cells: np.ndarray, ids: np.ndarray) -> None:
        """Let particles begin here at rest, and work out which of them a removal will take."""
        mine, problem = self.particles, self.problem
        first, last = mine.count, mine.count + len(ids)
        mine.reserve(last)
        mine.count = last
        mine.ids[first:last], mine.cells[first:last], mine.motions[first:last] = ids, cells, motion
        k, m = problem.motions[motion].k, float(problem.motions[motion].m)
        self.kernels.start(
            first, last, mine.cells, problem.size, m, problem.charge(k),
            mine.x, mine.y, mine.vx, mine.vy, mine.charge,
        )  # fmt: skip
        alive = np.ones(len(ids), np.bool_)
        for number, event in enumerate(problem.ordered_events):
            selection = event.selection(number)
            if event.action == "remove" and number >= motion and selection is not None:
                shift = problem.shifts(event.step)[motion]
                self.kernels.foresee_removed(
                    cells, ids, alive, problem.size, shift, np.array(event.cells()), *selection,
                    self.removed[number],
                )  # fmt: skip

    def inject(self, number: int, event: Event) -> None:
        """Let this block's part of an injection begin."""
        numbers, cells = event.spread(self.bounds, self.problem.size)
        self.begin(number + 1, cells, self.born + 1 + numbers)
        self.particles.unsorted += len(cells)
        self.born += event.particles

    def remove(self, number: int, event: Event) -> None:
        """Take out the particles that a removal takes from this block."""
        selection, mine = event.selection(number), self.particles
        if selection is None:
            return
        found = np.empty(mine.count, np.int64)
        total = self.kernels.find_removed(
            mine.count, mine.x, mine.y, mine.ids, np.array(event.cells()), *selection, found
        )
        mine.drop(self.kernels, found[:total])

    # Moving --------------------------------------------------------------------------------------

    def push(self) -> np.ndarray:
        """Move all particles by one step; returns the places of those that leave."""
        mine, find = self.particles, self.kernels.find_leaving
        owners = mine.owners[: mine.count]
        self.kernels.push(
            mine.count, mine.x, mine.y, mine.vx, mine.vy, mine.charge,
            self.mesh, self.frame, float(self.problem.size), owners,
        )  # fmt: skip
        total = find(owners, self.known, self.leavers, mine.gaps)
        if total < 0:
            self._complain(-1 - total)
        if total > len(mine.gaps):
            mine.gaps = np.empty(total, np.int64)
            find(owners, self.known, self.leavers, mine.gaps)
        return mine.gaps[:total]

    def pack(self, edge: Edge, leaving: np.ndarray) -> np.ndarray:
        """The message of all particles that go to the block at an edge, 64 bytes each."""
        mine, owner = self.particles, owner_at(edge)
        message = packed_empty((int(self.leavers[owner]), 8), np.float64)
        self.kernels.pack(leaving, mine.owners, owner, *mine.arrays, message)
        return message

    def settle(self, gaps: np.ndarray, came: dict[Edge, np.ndarray]) -> None:
        """Put those that came in the place of those that left, and close what gaps remain."""
        for edge in self.sources:
            gaps = self.add(edge, came[edge], gaps)
        self.particles.drop(self.kernels, gaps)
        self.particles.sort(self.kernels, self.frame[0], len(self.mesh))

    def add(self, edge: Edge, message: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """Take in what came; returns the gaps that are left.

        Raises MessageError where a particle does not belong here.
        """
        wrong = self.particles.add(self.kernels, message, gaps, self.frame)
        if wrong >= 0:
            particle, (x, y) = message.view(np.int64)[wrong, 5], message[wrong, :2]
            raise MessageError(
                f"block {self.index}, step {self.time}: particle {particle} at ({x}, {y}) came by "
                f"edge {edge}, but that is not in {self.bounds}"
            )
        # All particles move alike, so those that come along x are to those that left as these were
        # to those before them: in their places they keep the order by columns, turned round.
        came, free = len(message), len(gaps)
        self.particles.unsorted += max(0, came - free) if edge[1] == 0 else came
        return gaps[came:]

    def _complain(self, place: int) -> None:
        """Raise MessageError for a particle that left for no neighbour."""
        mine = self.particles
        raise MessageError(
            f"block {self.index}, step {self.time}: particle {mine.ids[place]} went to "
            f"({mine.x[place]}, {mine.y[place]}), which no move of this problem leads to"
        )

    # Results -------------------------------------------------------------------------------------

    def state(self) -> list[Piece]:
        """Position, velocity and charge of the block's particles, one row each."""
        mine = self.particles
        fields = (mine.x, mine.y, mine.vx, mine.vy, mine.charge)
        rows = np.stack([field[: mine.count] for field in fields], axis=1)
        return [Piece("particles", rows, None, (), mine.ids[: mine.count])]

    def measure(self) -> dict[str, Measure]:
        """Largest error of a position, sums of ids, and what there should be."""
        mine, size = self.particles, float(self.problem.size)
        error = self.kernels.largest_error(
            mine.count, mine.x, mine.y, mine.cells, mine.motions,
            self.problem.shifts(self.time), size,
        )  # fmt: skip
        return {
            "error": Measure("max", error),
            "ids": Measure("sum", sums_of_ids(mine.count, mine.ids)),
            "removed": Measure("sum", self.removed),
            "placed": Measure("max", self.placed),
        }
