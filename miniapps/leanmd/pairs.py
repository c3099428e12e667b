"""LeanMD's *pairs* decomposition: cells that own atoms, computes that work out pairs of cells.

Each cell sends its atoms' positions to the 27 computes of the pairs that it is in, itself with
itself among them, and gets the sum of their forces back: the forces are integers, so whoever adds
them up on the way, the bits are the same. Both kinds of blocks migrate.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from kernels.device import Device
from kernels.leanmd_units import CLOSEST
from kernels.messages import packed_empty
from miniapps.block import Collect, Edge, Index, Mark, Measure, Peer, Piece, Post
from miniapps.kernel_user import KernelUser
from miniapps.leanmd.atoms import Lists
from miniapps.leanmd.domain import Domain, complain_of_closeness, strayed
from miniapps.leanmd.oracle import sample, wrong_forces
from miniapps.leanmd.pair_layout import AROUND, FORWARD, PairLayout
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.thermo import TOTALS

COMPUTE = 1  # marks a cell's edge to a compute, beside those to other cells
FIRST: Edge = (0,)  # a compute's edges
SECOND: Edge = (1,)
NO_PLACE = -1.0


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
        self.first = True  # the step to come is the first

    def message(self) -> np.ndarray:
        """What computes are told: positions, empty places behind them, ids, and when last sorted.

        (4, count + WIDTH + 1) float64; the last column holds the step of the last change of cells.
        """
        atoms = self.atoms
        end = atoms.count + len(atoms.empty)
        told = packed_empty((4, end + 1), np.float64)
        told[:3, :end] = atoms.position[:, :end]
        told[3, : atoms.count] = atoms.ids.view(np.float64)
        told[:, end] = self.built
        return told

    def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
        """Send positions to all computes, and take the sum of their forces."""
        phase = " at first" if self.first else ""
        told = self.message()
        yield Post(f"positions{phase}", dict.fromkeys(self.computes, told))
        forces = yield Collect(f"forces{phase}", tuple(self.computes), combine=True)
        self.atoms.force[:, : forces.shape[1]] = forces

    def potential(self) -> Generator[Any, Any, np.ndarray]:
        """Energy, virial and pairs of the cell's atoms, from all computes."""
        phase = " at first" if self.first else ""
        self.first = False
        return (yield Collect(f"energies{phase}", tuple(self.computes), combine=True))


class Compute(KernelUser):
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
        self.beyond = any(over)  # the second cell is at the other end of the box
        self.over = (np.sign(over) * problem.box)[:, np.newaxis]  # to where it is beside the first
        low, high = problem.corners(layout, second)
        beside = low + self.over[:, 0], high + self.over[:, 0]
        self.corners = {FIRST: problem.corners(layout, first), SECOND: beside}
        self.lists = {edge: Lists(own=first == second) for edge in self.neighbors}
        # By edge, what the cell there said last and what the other one did, beside each other.
        self.sides: dict[Edge, tuple[np.ndarray, np.ndarray]] = {}
        self.built = NO_PLACE
        self.time = 0

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Answer the cells' positions with forces; the first time twice, as steps begin so."""
        if self.time == 0:
            yield from self.answer(" at first", True)
        self.time += count
        yield from self.answer("", self.problem.is_reported(self.time))
        return False

    def answer(self, phase: str, reported: bool) -> Generator[Any, Any, None]:
        """Take in positions, and give back forces and, where reported, energies."""
        came = yield Collect(f"positions{phase}", tuple(self.neighbors))
        self.hear(came)
        forces = {edge: self.forces(edge) for edge in self.neighbors}
        yield Mark()
        yield Post(f"forces{phase}", forces, True)
        if reported:
            energies = {edge: self.energies(edge) for edge in self.neighbors}
            yield Mark()
            yield Post(f"energies{phase}", energies, True)

    def hear(self, came: dict[Edge, np.ndarray]) -> None:
        """Take in what the cells say, and list neighbours anew if atoms have changed cells."""
        first = second = came[FIRST]
        if SECOND in came:
            second = came[SECOND]
            if self.beyond:
                second = second.copy()
                second[:3] += self.over
        self.sides = {FIRST: (first, second), SECOND: (second, first)}
        if first[0, -1] != self.built:
            self.built = first[0, -1]
            for edge in self.neighbors:
                own, others = self.sides[edge]
                where = self.count(own), own, others, self.count(others)
                box = self.corners[SECOND if edge == FIRST else FIRST]
                self.lists[edge].fill(self.kernels, *where, box, self.problem.reach)

    def count(self, told: np.ndarray) -> int:
        """Atoms in what a cell said."""
        return told.shape[1] - self.kernels.WIDTH - 1

    def forces(self, edge: Edge) -> np.ndarray:
        """The forces on the atoms of a cell; (3, places) int64, a few places more than atoms."""
        lists, (own, others) = self.lists[edge], self.sides[edge]
        force = np.empty((3, lists.places), np.int64)
        closest2 = self.kernels.forces(
            own, others, lists.all_clusters, lists.starts, lists.neighbors, lists.own,
            self.problem.cutoff, force,
        )  # fmt: skip
        if closest2 < CLOSEST**2:
            ids = own[3].view(np.int64)
            where = self.count(own), own, self.count(others), others, lists.own
            complain_of_closeness(self.kernels, self.time, ids, closest2, *where)
        return force

    def energies(self, edge: Edge) -> np.ndarray:
        """Energy, virial and pairs of the atoms of a cell; (6,), as the kernel has them."""
        lists, (own, others), totals = self.lists[edge], self.sides[edge], np.zeros(6, np.int64)
        self.kernels.energies(
            self.count(own), own, others, lists.starts, lists.neighbors, lists.own,
            self.problem.cutoff, totals,
        )  # fmt: skip
        return totals

    def state(self) -> list[Piece]:
        """Nothing: all that a compute knows follows from its cells."""
        return []

    def measure(self) -> dict[str, Measure]:
        """Its part of the potential, whether atoms are where and a few forces what they must be."""
        totals = np.zeros(TOTALS, np.int64)
        totals[8:14] = sum(self.energies(edge) for edge in self.neighbors)
        lost = wrong = 0
        for edge in self.neighbors:
            own, others = (told[:3, : self.count(told)] for told in self.sides[edge])
            lost += strayed(own, *self.corners[edge], self.problem.list_skin)
            some = sample(own.shape[1])
            felt = own[:, some], others, self.forces(edge)[:, some]
            wrong += wrong_forces(*felt, self.problem.cutoff)
        return {
            "totals": Measure("sum", totals),
            "strayed": Measure("sum", lost),
            "wrong forces": Measure("sum", wrong),
        }
