"""One block of PIC: what it computes and exchanges in a step, in order."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.contract import (
    AllReduce,
    Batch,
    BlockMaker,
    Checkpoint,
    Collect,
    Edge,
    Index,
    Measure,
    MessageError,
    Pause,
    Peer,
    Piece,
    Post,
    Saved,
)
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.kernel_user import KernelUser
from miniapps.kernels.pic.counters import (
    FIRST_LOST,
    LEFT,
    MISROUTED,
    NOWHERE,
    OWNERS,
    UNFORESEEN,
    owner_at,
)
from miniapps.kernels.pic.interface import PicKernels
from miniapps.pic.events import Event
from miniapps.pic.particles import FLOATS, ORIGINS, Arguments, Particles, show_all
from miniapps.pic.problem import PicProblem


class PicBlock(KernelUser[PicKernels]):
    """A rectangle of cells, the charges at their corners, and the particles in them."""

    kind = "block"
    rebuilt = ("mesh", "shifts")

    def __init__(self, problem: PicProblem, layout: Layout, index: Index, device: Device) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.together = self.work_together(layout)
        self.bounds = layout.bounds(index)
        self.own = np.array(self.bounds, np.int64).reshape(4)  # x0, x1, y0, y1
        self.block_rows = layout.grid[1]
        self.reach = self._reach(layout)
        self.targets, self.sources = self._edges(layout)
        self.neighbors = self.targets | self.sources
        self.frame = self._frame(layout)
        self.mesh, self.shifts = self._mesh(), self._shifts()
        self.next_steps = 0  # of the next round, as the last push has foreseen it; 0: it has not
        self.time = 0
        self.particles = Particles(device)
        self.removed = np.zeros((len(problem.ordered_events), 3), np.uint64)
        self.begun = np.zeros(1, np.uint64)  # the `product` of those created here
        self.taken = np.zeros((len(problem.ordered_events), 1), np.uint64)  # ... and removed
        self.emigrants: Sequence[int] = [0] * OWNERS  # of the last push, per owner
        self.known = sum(1 << owner_at(edge) for edge in self.targets)
        self.came: Mapping[Edge, Any] = {}  # in the last round, until `look` has checked it
        self.came_at = 0  # the step at which that round began
        self.placed = self.born = 0  # particles of all blocks: initial ones, all so far

    def __getstate__(self) -> dict[str, Any]:
        """What migrates."""
        self.look()
        return super().__getstate__() | {"came": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the block after a migration."""
        self.__dict__.update(state)
        self.mesh, self.shifts = self._mesh(), self._shifts()

    @property
    def columns(self) -> tuple[float, int]:
        """The first column of cells, and how many there are."""
        low, high = self.bounds[0]
        return float(low), high - low

    def _reach(self, layout: Layout) -> tuple[int, int, int]:
        """How many cells particles move right, down and up before the last step of a round."""
        along_x, along_y = zip(*self.problem.moves(), strict=True)
        early = int(self.problem.time_tile) - 1
        wide, high = (early * (blocks > 1) for blocks in layout.grid)
        return wide * max(along_x), high * -min(0, *along_y), high * max(0, *along_y)

    def _edges(self, layout: Layout) -> tuple[dict[Edge, Peer], dict[Edge, Peer]]:
        """The blocks that particles move to, and those that they come from.

        In a round, all particles move towards +x, by at most one cell more than a block's width.
        """
        wide, high = (blocks > 1 for blocks in layout.grid)
        narrowest, steps = min(layout.widths(0)), int(self.problem.time_tile)
        reach_x, reach_y = {0}, {0}
        for along_x, along_y in self.problem.moves():
            beyond = steps * along_x > narrowest
            reach_x |= {1} | ({2} if beyond else set()) if wide else set()
            reach_y |= {int(np.sign(along_y))} if high else set()
        edges = [(x, y) for x in sorted(reach_x) for y in sorted(reach_y) if (x, y) != (0, 0)]
        opposite = [(-x, -y) for x, y in edges]
        return layout.peers(self.index, edges), layout.peers(self.index, opposite)

    def _frame(self, layout: Layout) -> np.ndarray:
        """The bounds that `push` compares positions with; (9,) float64."""
        (x0, x1), (y0, y1) = self.bounds
        size, (column, row) = self.problem.size, self.index
        wide, high = layout.widths(0), layout.widths(1)
        along_y = [y for _, y in self.problem.moves()]
        next_wide = x1 - x0 + wide[(column + 1) % len(wide)]
        far = next_wide + wide[(column + 2) % len(wide)]
        above = min(y1 - y0 + (high[(row + 1) % len(high)] if max(along_y) > 0 else 0), size)
        below = size - (high[row - 1] if min(along_y) < 0 else 0)
        # Of two rows of blocks, the other one is above and below; it is above if particles move up.
        sides = next_wide, min(far, size), above, max(above, below)
        return np.array([x0, x1, y0, y1, *sides, (y0 - self.reach[1]) % size], np.float64)

    def _mesh(self) -> Any:
        """The charges at the corners of all cells that a push reaches, (columns, rows) int8."""
        (x0, x1), (y0, y1) = self.bounds
        right, down, up = self.reach
        mesh = np.ones((x1 - x0 + 1 + right, y1 - y0 + 1 + down + up), np.int8)
        mesh[(x0 + 1) % 2 :: 2] = -1
        return self.device.to_device(mesh)

    def _shifts(self) -> list[Any]:
        """By steps of a round, less 1: how far particles of each motion go, on a device that lags.

        Along x and y, at most half around the grid: (2 motions,) float64.
        """
        if not self.device.lag:
            return []
        moves = np.array([motion.shift(motion.born + 1) for motion in self.problem.motions])
        rounds = 1 + np.arange(int(self.problem.time_tile))[:, np.newaxis]
        size = self.problem.size
        shifts = (rounds * moves.reshape(-1) + size // 2) % size - size // 2
        flat = self.device.to_device(shifts.astype(np.float64).reshape(-1))
        return [flat[moves.size * n : moves.size * (n + 1)] for n in range(len(rounds))]

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Apply the events that are due, push, and exchange the particles that have left."""
        is_foreseen = self.next_steps == count
        for number, event in enumerate(self.problem.ordered_events):
            if event.step == self.time:
                happen = self.inject if event.action == "inject" else self.remove
                happen(number, event)
                is_foreseen = False
        if self.together:
            weight = 1.0 + self.particles.count
            left, messages = yield Batch(push_and_pack_all, (self, count, is_foreseen), weight)
        else:
            self.push(count)
            yield Pause()
            left = self.count_leaving(is_foreseen)
            messages = self.pack(left)
        yield Post("particles", messages)
        came = yield Collect("particles", tuple(self.sources))
        if self.together:
            yield Batch(store_all, (self, left, came), weight)
        else:
            self.store_immigrants(left, self.device.received(came))
        self.time += count
        return False

    # Creation and removal ------------------------------------------------------------------------

    def setup(self) -> Generator[Any, Any, None]:
        """Create the initial particles; ids number the particles of all blocks column by column.

        All blocks receive the number of particles in each column of each row of blocks.
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
        """Create particles at rest, and work out which of them each removal will take."""
        problem, rule = self.problem, self.problem.motions[motion]
        how = problem.size, float(rule.m), problem.charge(rule.k)
        self.particles.begin(self.kernels, ids, cells, motion, *how)
        alive = np.ones(len(ids), np.bool_)
        self.begun += product(ids, cells)
        for number, event in enumerate(problem.ordered_events):
            selection = event.selection(number)
            if event.action == "remove" and number >= motion and selection is not None:
                shift = problem.shifts(event.step)[motion]
                seed, limit = selection
                before = alive.copy()
                self.kernels.foresee_removed(
                    cells, ids, alive, problem.size, shift, np.array(event.cells()), seed, limit,
                    self.removed[number],
                )  # fmt: skip
                gone = before & ~alive
                self.taken[number] += product(ids[gone], cells[gone])

    def inject(self, number: int, event: Event) -> None:
        """Create this block's part of an injection."""
        numbers, cells = event.spread(self.bounds, self.problem.size)
        self.begin(number + 1, cells, self.born + 1 + numbers)
        self.particles.unsorted += len(cells)
        self.born += event.particles

    def remove(self, number: int, event: Event) -> None:
        """Remove the particles that a removal takes from this block."""
        selection, mine = event.selection(number), self.particles
        if selection is None or not mine.count:
            return
        found = self.device.empty((mine.count,), np.int64)
        self.kernels.find_removed(
            mine.count, mine.x, mine.y, mine.ids, np.array(event.cells()), *selection,
            mine.owners, mine.counters, found,
        )  # fmt: skip
        mine.drop(self.kernels, found, 0, int(self.look()[LEFT]))

    # Motion --------------------------------------------------------------------------------------

    def push(self, steps: int) -> None:
        """Move all particles by some steps, and find the gaps of those that leave the block."""
        self.kernels.push(*self.to_push(steps))

    def to_push(self, steps: int) -> Arguments:
        """The arguments of `push`."""
        mine = self.particles
        if self.shifts:
            self.next_steps = self.problem.steps_per_round(self.time + steps)
        return (
            mine.count, steps, mine.x, mine.y, mine.vx, mine.vy, mine.charge, self.mesh,
            self.frame, float(self.problem.size), self.known, mine.owners, mine.counters, mine.gaps,
            mine.motions, self._next_shifts(),
        )  # fmt: skip

    def _next_shifts(self) -> Any:
        """How far particles go in the next round; None where nothing is foreseen."""
        return self.shifts[self.next_steps - 1] if self.next_steps else None

    def count_leaving(self, is_foreseen: bool) -> int:
        """The number of pushed particles that leave; their array entries are the gaps.

        Where it is foreseen, only the kernels before this push have to have ended.
        """
        mine, seen = self.particles, self.particles.seen()
        if seen is not None:
            self.check(seen[0])
        if seen is None or not is_foreseen:
            counters = self.look(self.time)
            self.emigrants, left = counters[:OWNERS].tolist(), int(counters[LEFT])
        else:
            self.emigrants = seen[1]
            left = sum([self.emigrants[owner_at(edge)] for edge in self.targets])
            if left > mine.count:
                self._complain_of_foresight()
        if left > mine.gaps.shape[0]:
            mine.gaps = self.device.empty((left,), np.int64)
            self.kernels.find_leaving(mine.count, mine.owners, self.known, mine.counters, mine.gaps)
        return left

    def check(self, counters: Sequence[int]) -> None:
        """Raise MessageError if something was wrong in the last round, of whose end counters are.

        The late detection does no harm, because kernels keep particles on the mesh, and write no
        more rows than messages have.
        """
        self._complain(counters, self.came_at)
        if any(counters[:OWNERS]):
            self._complain_of_foresight()

    def look(self, step: int | None = None) -> np.ndarray:
        """The particles' counters, on the host; waits for the device.

        ``step``: of the last push, if not that of the last round. Raises MessageError if a particle
        arrived that does not belong here, or left for no neighbour, or unforeseen.
        """
        counters = self.particles.look()
        self._complain(counters, self.came_at if step is None else step)
        return counters

    def _complain(self, counters: Any, step: int) -> None:
        """Raise MessageError if counters tell of a wrong particle; ``step``: of the last push."""
        if counters[MISROUTED] != NOWHERE:
            self._complain_of_arrival(int(counters[MISROUTED]))
        if counters[FIRST_LOST] != NOWHERE:
            self._complain_of_emigrant(int(counters[FIRST_LOST]), step)
        if counters[UNFORESEEN]:
            self._complain_of_foresight()
        self.came = {}

    def pack(self, left: int) -> Mapping[Edge, Any]:
        """Messages with all particles that leave, 64 bytes each, by edge."""
        arguments = self.to_pack(left)
        if left:
            self.kernels.pack(*arguments)
        return arguments[-1]

    def to_pack(self, left: int) -> Arguments:
        """The arguments of `pack`; the last ones are the messages."""
        mine = self.particles
        shapes = {edge: (self.emigrants[owner_at(edge)], 8) for edge in self.targets}
        messages = self.device.messages(shapes, np.float64)
        return left, mine.gaps, mine.owners, mine.counters, mine.arrays, messages

    def store_immigrants(self, left: int, came: Mapping[Edge, Any]) -> None:
        """Store immigrants in the gaps of emigrants, and close the remaining gaps."""
        unpacked, closed = self.take(left, came)
        if unpacked is not None:
            self.kernels.unpack(*unpacked)
        if closed is not None:
            self.kernels.close_gaps(*closed)
        self.particles.release(self.kernels)
        self.particles.sort(self.kernels, *self.columns)
        self.particles.show()

    def take(
        self, left: int, came: Mapping[Edge, Any]
    ) -> tuple[Arguments | None, Arguments | None]:
        """Make room for immigrants; `Particles.take` says what is returned."""
        free = left
        for edge, message in came.items():
            # All particles move alike, so those that arrive along x are in the same order as those
            # that left. They fill the gaps in the order of columns, up to a rotation.
            rows = message.shape[0]
            self.particles.unsorted += max(0, rows - free) if edge[1] == 0 else rows
            free = max(0, free - rows)
        self.came, self.came_at = came, self.time
        size, shifts = float(self.problem.size), self._next_shifts()
        return self.particles.take(self.kernels, came, left, self.frame, size, shifts)

    def _complain_of_foresight(self) -> None:
        """Raise MessageError for particles that do not move as their motions say."""
        raise MessageError(
            f"block {self.index}, step {self.came_at}: other particles left than the moves of this "
            f"problem lead to"
        )

    def _complain_of_emigrant(self, entry: int, step: int) -> None:
        """Raise MessageError for a particle that left for no neighbour.

        On a GPU that may be noticed when particles have changed places; those lost are marked.
        """
        marked = np.flatnonzero(self.particles.on_host("motions") < 0)
        entry = int(marked[0]) if len(marked) else entry
        x, y, number = (self.particles.on_host(name)[entry] for name in ("x", "y", "ids"))
        raise MessageError(
            f"block {self.index}, step {step}: particle {number} went to ({x}, {y}), which no "
            f"move of this problem leads to"
        )

    def _complain_of_arrival(self, row: int) -> None:
        """Raise MessageError for a particle that arrived here and does not belong here."""
        rows = [(e, n) for e, message in self.came.items() for n in range(message.shape[0])]
        edge, n = rows[row]
        values = self.kernels.row_of(self.came[edge], n)
        raise MessageError(
            f"block {self.index}, step {self.came_at}: particle {values.view(np.int64)[5]} at "
            f"({values[0]}, {values[1]}) came by edge {edge}, but that is not in {self.bounds}"
        )

    # Results -------------------------------------------------------------------------------------

    def state(self) -> list[Piece]:
        """Position, velocity and charge of the block's particles, one row each."""
        self.look()
        rows = np.stack([self.particles.on_host(name) for name in FLOATS], axis=1)
        return [Piece("particles", rows, None, (), self.particles.on_host("ids"))]

    def checkpoint(self) -> Checkpoint:
        """Where particles began and how they move; ids and numbers of particles so far."""
        self.look()
        mine = self.particles
        origins = np.stack([mine.on_host(name) for name in ORIGINS], axis=1)
        return Checkpoint(
            [Piece("origins", origins, None, (), mine.on_host("ids"))],
            {
                "removed": Measure("sum", self.removed),
                "begun": Measure("sum", self.begun),
                "taken": Measure("sum", self.taken),
                "placed": Measure("max", self.placed),
                "born": Measure("max", self.born),
            },
        )

    def resume(self, saved: Saved) -> None:
        """Take up the particles that are in the block."""
        low, high = zip(*self.bounds, strict=True)
        ids, rows = saved.rows("particles", low, high)
        columns = dict(zip(FLOATS, rows.T, strict=True)) | {"ids": ids}
        columns |= dict(zip(ORIGINS, saved.rows_of("origins", ids).T, strict=True))
        self.particles.set(columns)
        self.particles.sort(self.kernels, *self.columns)
        self.time = self.came_at = saved.step
        self.removed, self.begun, self.taken = map(saved.total, ("removed", "begun", "taken"))
        self.placed, self.born = int(saved.total("placed")), int(saved.total("born"))

    def measure(self) -> dict[str, Measure]:
        """The largest error of a position, sums of ids, removed ids, and the initial number."""
        self.look()
        mine, size = self.particles, float(self.problem.size)
        shifts = self.device.to_device(self.problem.shifts(self.time))
        where = mine.x, mine.y, mine.cells, mine.motions
        there = product(mine.on_host("ids"), mine.on_host("cells"))
        return {
            "error": Measure("max", self.kernels.largest_error(mine.count, *where, shifts, size)),
            "ids": Measure("sum", self.kernels.sums_of_ids(mine.count, mine.ids)),
            "removed": Measure("sum", self.removed),
            "starts": Measure("sum", np.concatenate([self.begun, there, *self.taken])),
            "placed": Measure("max", self.placed),
        }


def push_and_pack_all(
    tasks: Sequence[tuple[PicBlock, int, bool]],
) -> list[tuple[int, Mapping[Edge, Any]] | MessageError]:
    """Push and pack for blocks that share a queue: (block, steps, whether emigrants are foreseen).

    Returns how many particles leave, and the messages.
    """
    for_all = tasks[0][0].kernels.FOR_ALL
    for_all["push"]([block.to_push(steps) for block, steps, _ in tasks])
    answers: list[Any] = []
    packed = []
    for block, _, is_foreseen in tasks:
        try:
            left = block.count_leaving(is_foreseen)
        except MessageError as error:
            answers.append(error)
            continue
        packed.append(block.to_pack(left))
        answers.append((left, packed[-1][-1]))
    for_all["pack"](packed)
    return answers


def store_all(tasks: Sequence[tuple[PicBlock, int, Mapping[Edge, Any]]]) -> list[None]:
    """Do `PicBlock.store_immigrants` for blocks that share a queue: (block, left, what came)."""
    for_all = tasks[0][0].kernels.FOR_ALL
    for_all["store"]([block.take(left, block.device.received(came)) for block, left, came in tasks])
    for block, *_ in tasks:
        block.particles.release(block.kernels)
    sorts = [block.particles.to_sort(*block.columns) for block, *_ in tasks]
    for_all["sort"]([work for work in sorts if work])
    show_all([block.particles for block, *_ in tasks])
    return [None] * len(tasks)


def product(ids: np.ndarray, cells: np.ndarray) -> np.uint64:
    """The sum of ids times cells, modulo 2^64, (1,): two exchanged ids change it."""
    return np.dot(ids[np.newaxis], cells).view(np.uint64)


_: BlockMaker = PicBlock  # mypy: it keeps the contract
