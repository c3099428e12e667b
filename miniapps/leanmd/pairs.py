"""LeanMD's *pairs* decomposition: cells own atoms, computes find forces between pairs of cells.

Each cell sends its atoms' positions to the 27 computes of its pairs (one pair is the cell with
itself) and receives the sum of their forces. Forces are integers, so the bits of the sum do not
depend on where and in which order it is formed. Both kinds of blocks migrate.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from miniapps.arrays import arrived
from miniapps.contract import (
    Batch,
    Checkpoint,
    Collect,
    CollectSum,
    Edge,
    Index,
    Measure,
    Pause,
    Peer,
    Piece,
    Post,
    PostSum,
    Saved,
)
from miniapps.devices.backend import Device
from miniapps.kernel_user import KernelUser
from miniapps.kernels.leanmd.interface import LeanmdKernels, PairTask
from miniapps.kernels.leanmd.units import CLOSE, FORCE_UNIT, NO_ERROR, VIRIAL_UNIT
from miniapps.leanmd.atoms import Lists
from miniapps.leanmd.close_pairs import ClosePairs
from miniapps.leanmd.domain import Domain, raise_too_close, strayed
from miniapps.leanmd.pair_layout import AROUND, FORWARD, PairLayout
from miniapps.leanmd.probe import Probe
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.thermo import TOTALS, Energies, Sample, sums_of_potential, wide

COMPUTE = 1  # last entry of a cell's edges to computes; its edges to cells have no such entry
FIRST: Edge = (0,)  # a compute's edges
SECOND: Edge = (1,)
ROWS_WITH_IDS = 4  # rows of a message with ids


class Cell(Domain):
    """A cell and its atoms; computes find the forces on them."""

    kind = "cell"

    def __init__(
        self, problem: LeanmdProblem, layout: PairLayout, index: Index, device: Device
    ) -> None:
        super().__init__(problem, layout, index, device)
        self.computes: dict[Edge, Peer] = {}
        for step in AROUND:
            other = layout.beside(index, step)
            pair, edge = (index + other, FIRST) if step in FORWARD else (other + index, SECOND)
            self.computes[*step, COMPUTE] = Peer("compute", pair, edge)
        self.neighbors |= self.computes

    def message(self, anew: bool) -> Any:
        """The message to computes: positions, then unused entries; (3, count + WIDTH).

        If atoms have changed cells, a fourth row holds the bits of their ids; computes then rebuild
        their lists.
        """
        atoms = self.atoms
        shape = ROWS_WITH_IDS if anew else 3, atoms.count + self.kernels.WIDTH
        (message,) = self.device.messages({(): shape}, np.float64).values()
        self.kernels.pack_positions(atoms.rows, message)
        return message

    def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
        """Send positions to all computes, and receive the sum of their forces."""
        positions = self.message(anew)
        yield Post("positions", dict.fromkeys(self.computes, positions))
        forces = yield CollectSum("forces", tuple(self.computes))
        self.kernels.place(self.atoms.force, 0, [self.device.received({(): forces})[()]])

    def potential(self) -> Generator[Any, Any, np.ndarray]:
        """Energy, virial and pairs of the cell's atoms, from all computes."""
        return (yield CollectSum("energies", tuple(self.computes)))


class Compute(KernelUser[LeanmdKernels]):
    """The pairs of atoms of two neighbouring cells, or of one cell with itself."""

    kind = "compute"

    def __init__(
        self, problem: LeanmdProblem, layout: PairLayout, index: Index, device: Device
    ) -> None:
        self.problem, self.index, self.device = problem, index, device
        first, second = index[:3], index[3:]
        step = next(step for step in FORWARD if layout.beside(first, step) == second)
        self.neighbors = {FIRST: Peer("cell", first, (*step, COMPUTE))}
        if first != second:
            back = tuple(-d for d in step)
            self.neighbors[SECOND] = Peer("cell", second, (*back, COMPUTE))
        over = [i + d - j for i, d, j in zip(first, step, second, strict=True)]
        shift = np.sign(over) * problem.box
        # The shift from the second cell to its image next to the first cell; None if it is zero.
        self.over = shift.tolist() if shift.any() else None
        low, high = problem.corners(layout, second)
        beside = low + shift, high + shift
        self.corners = {FIRST: problem.corners(layout, first), SECOND: beside}
        self.lists = {edge: Lists(own=first == second, device=device) for edge in self.neighbors}
        self.pair_lists: Any = None  # what kernels make of the lists; None if these are new
        self.first: Any = None  # the last positions of the first cell
        self.second: Any = None
        self.ids: dict[Edge, Any] = {}  # the last messages with ids, by edge
        self.time = 0

    def __getstate__(self) -> dict[str, Any]:
        """Attributes without positions, which cells send in every step."""
        ids = {edge: self.device.leaving(rows) for edge, rows in self.ids.items()}
        left = dict.fromkeys(("first", "second", "pair_lists"))
        return super().__getstate__() | left | {"ids": ids}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put the ids back on the device."""
        self.__dict__.update(state)
        self.ids = {edge: arrived(self.device, rows) for edge, rows in self.ids.items()}

    def setup(self) -> Generator[Any, Any, None]:
        """Find the first forces and energies."""
        yield from self.answer(True)

    def checkpoint(self) -> Checkpoint:
        """Nothing: cells send all that a compute needs."""
        return Checkpoint()

    def resume(self, saved: Saved) -> Generator[Any, Any, None]:
        """Find the forces on the atoms that cells have taken up."""
        self.time = saved.step
        yield from self.answer(False)

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Answer the cells' positions with forces."""
        self.time += count
        yield from self.answer(self.problem.is_reported(self.time))
        return False

    def answer(self, reported: bool) -> Generator[Any, Any, None]:
        """Receive positions, and return forces and, if ``reported``, energies."""
        came = yield Collect("positions", tuple(self.neighbors))
        self.receive(came)
        is_done = False
        while not is_done:
            answer = yield Batch(self.kernels.PAIR_FORCES[self.problem.dtype], self.task())
            is_done = not any([lists.made_again() for lists in self.lists.values()])
            if not is_done:
                self.pair_lists = None
        yield PostSum("forces", self.forces(answer))
        if reported:
            energies = {edge: self.energies(edge) for edge in self.neighbors}
            yield Pause()
            yield PostSum("energies", energies)

    def receive(self, came: Mapping[Edge, Any]) -> None:
        """Store the cells' positions, and rebuild the lists if atoms have changed cells."""
        came, kernels = self.device.received(came), self.kernels
        self.first = self.second = kernels.sent_positions(came[FIRST], None, self.device)
        if SECOND in came:
            self.second = kernels.sent_positions(came[SECOND], self.over, self.device)
        if self.first.shape[0] == ROWS_WITH_IDS:
            self.ids = {edge: kernels.rows_of(own) for edge, (own, _) in self.sides.items()}
            for edge, (own, others) in self.sides.items():
                where = self.count(own), self.ids[edge], kernels.rows_of(others), self.count(others)
                box = self.corners[SECOND if edge == FIRST else FIRST]
                self.lists[edge].fill(kernels, *where, box, self.problem.reach)
            self.pair_lists = None

    @property
    def sides(self) -> dict[Edge, tuple[Any, Any]]:
        """By edge, the last positions of the cell there, and those of the other cell."""
        both = self.first, self.second
        return {edge: both[:: 1 if edge == FIRST else -1] for edge in self.neighbors}

    def count(self, positions: Any) -> int:
        """The number of atoms in a message of positions."""
        return positions.shape[1] - self.kernels.WIDTH

    def task(self) -> PairTask:
        """The task of computing the forces on each cell's atoms."""
        if self.pair_lists is None:
            self.pair_lists = self.kernels.pair_lists(
                self.first, self.second, tuple(self.lists.values()),
                self.problem.cutoff, self.problem.quantum,
            )  # fmt: skip
        return PairTask(self.first, self.second, self.pair_lists)

    def forces(self, answer: list[tuple[np.ndarray, int]]) -> dict[Edge, np.ndarray]:
        """The forces on each cell's atoms, by edge: (3, atoms or more) int64.

        Raises Explosion if two atoms are too close to each other.
        """
        forces = {}
        for edge, (forces[edge], flag) in zip(self.lists, answer, strict=True):
            if flag != NO_ERROR[CLOSE]:
                raise_too_close(self.time, self.ids_in(self.ids[edge]), flag)
        return forces

    def ids_in(self, rows: Any) -> np.ndarray:
        """The ids in a message with ids: (count,) int64."""
        return self.device.to_host(rows)[3, : self.count(rows)].view(np.int64)

    def energies(self, edge: Edge, count: int | None = None) -> np.ndarray:
        """Energy, virial and pairs of a cell's atoms, or the first; (6,) as in the kernel."""
        lists, (own, others) = self.lists[edge], self.sides[edge]
        totals, rows_of = self.device.to_device(np.zeros(6, np.int64)), self.kernels.rows_of
        self.kernels.energies(
            self.count(own) if count is None else count, rows_of(own), rows_of(others),
            lists.starts, lists.neighbors, lists.own, self.problem.cutoff, totals,
        )  # fmt: skip
        return self.device.to_host(totals)

    def state(self) -> list[Piece]:
        """Nothing: the data of a compute follow from those of its cells."""
        return []

    def measure(self) -> dict[str, Measure]:
        """The compute's part of the potential, stray atoms, and the error of its virial."""
        totals = np.zeros(TOTALS, np.int64)
        totals[8:14] = sum(self.energies(edge) for edge in self.neighbors)
        lost = 0
        for edge in self.neighbors:
            own, _ = self.positions(edge)
            lost += strayed(own, *self.corners[edge], self.problem.list_skin)
        return {
            "totals": Measure("sum", totals),
            "strayed": Measure("sum", lost),
            "virial error": Measure("max", self.virial_error(wide(totals, 10) * VIRIAL_UNIT / 2)),
        }

    def positions(self, edge: Edge) -> list[np.ndarray]:
        """The positions of a cell's atoms and of those that they meet, on the host."""
        both = (self.device.to_host(self.kernels.rows_of(side)) for side in self.sides[edge])
        return [rows[:3, : self.count(rows)] for rows in both]

    def virial_error(self, virial: float) -> float:
        """How far a virial is from force times position, summed over all atoms, as a share.

        They are equal because the two forces of each pair are opposite.
        """
        (answer,) = self.kernels.PAIR_FORCES[self.problem.dtype]([self.task()])
        work, size = 0.0, abs(virial) + FORCE_UNIT
        for edge, force in self.forces(answer).items():
            own, _ = self.positions(edge)
            terms = force[:, : own.shape[1]] * FORCE_UNIT * (own - self.corners[FIRST][0][:, None])
            work, size = work + float(terms.sum()), size + float(np.abs(terms).sum())
        return abs(virial - work) / size

    def potentials(self, most: int) -> list[Sample]:
        """The potential of each cell's first atoms, at ``most`` so many, for an audit."""
        found = []
        for edge in self.neighbors:
            own, others = self.positions(edge)
            count = min(most, own.shape[1])
            sums = sums_of_potential(self.energies(edge, count))
            found.append((own[:, :count], others, sums))
        return found

    def probed(self, pairs: ClosePairs) -> tuple[np.ndarray, list[Energies]]:
        """The forces on atoms that are not the block's, and sums of their energies, for audits."""
        probe = Probe(self.device, pairs)
        return probe.forces_in_cell(), probe.energies()
