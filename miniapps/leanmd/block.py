"""A block of LeanMD's *blocks* decomposition."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from kernels.device import Device
from kernels.leanmd_units import CLOSEST
from kernels.messages import packed_empty
from miniapps.block import Collect, Exchange, Index, Measure, Post
from miniapps.decomposition import Layout
from miniapps.leanmd.atoms import Lists
from miniapps.leanmd.domain import AXES, SIDES, Domain, complain_of_closeness, edge_of
from miniapps.leanmd.oracle import sample, wrong_forces
from miniapps.leanmd.problem import LeanmdProblem


class LeanmdBlock(Domain):
    """A box of cells, and the ghosts that its neighbours send along three axes.

    Ghosts travel along x, then y with those that came along x, then z: six messages reach all 26
    blocks around. A block that is its own neighbour sends its images to itself. Atoms without a
    ghost near them are worked on while the messages travel, a third of them along each axis.
    """

    def __init__(
        self, problem: LeanmdProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        super().__init__(problem, layout, index, device)
        self.lists = Lists(own=True)
        self.sent = np.empty(0, np.int64)  # which atoms and ghosts go over each side, one by one,
        self.cuts = np.zeros(7, np.int64)  # and where those of each begin
        self.inner = self.border = np.empty(0, np.uint32)  # clusters without and with ghosts near

    def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
        """Bring the ghosts up to date and set the forces."""
        if anew:
            yield from self.gather_ghosts()
            self.build_lists()
            self.add_forces(self.inner)
        else:
            yield from self.move_ghosts()
        self.add_forces(self.border)

    def add_forces(self, clusters: np.ndarray) -> None:
        """Set the forces on the atoms of some clusters."""
        atoms, lists = self.atoms, self.lists
        closest2 = self.kernels.forces(
            atoms.position, atoms.position, clusters, lists.starts, lists.neighbors, True,
            self.problem.cutoff, atoms.force,
        )  # fmt: skip
        if closest2 < CLOSEST**2:
            where = atoms.count, atoms.position, atoms.total, atoms.position, True
            complain_of_closeness(self.kernels, self.time, atoms.ids, closest2, *where)

    def potential(self) -> Generator[Any, Any, np.ndarray]:
        """Energy, virial and pairs of the block's atoms."""
        return self.energies()
        yield  # a generator that needs nothing from others

    def energies(self) -> np.ndarray:
        """Energy, virial and pairs of the block's atoms; (6,) as the kernel has it."""
        atoms, lists, totals = self.atoms, self.lists, np.zeros(6, np.int64)
        self.kernels.energies(
            atoms.count, atoms.position, atoms.position, lists.starts, lists.neighbors, True,
            self.problem.cutoff, totals,
        )  # fmt: skip
        return totals

    # Ghosts --------------------------------------------------------------------------------------

    def gather_ghosts(self) -> Generator[Any, Any, None]:
        """Find out who is a ghost of a neighbour, and take in the neighbours' atoms."""
        atoms, reach, self.sent = self.atoms, self.problem.reach, self.sent[:0]
        for axis in AXES:
            x = atoms.position[axis, : atoms.total]
            near = x < self.low[axis] + reach, x >= self.high[axis] - reach
            for side in SIDES:
                self.sent = np.concatenate([self.sent, np.flatnonzero(near[side])])
                self.cuts[2 * axis + side + 1] = len(self.sent)
            came = yield from Exchange(f"ghosts along {axis}", self.leaving(axis))
            for side in SIDES:
                atoms.extend(came[edge_of(axis, side)])

    def leaving(self, axis: int) -> dict[Any, np.ndarray]:
        """Positions of the atoms and ghosts that go over the two sides along an axis."""
        messages = {}
        for side in SIDES:
            first, end = self.cuts[2 * axis + side : 2 * axis + side + 2]
            which = self.sent[first:end]
            message = packed_empty((3, len(which)), np.float64)
            self.atoms.position.take(which, axis=1, out=message, mode="clip")
            message[axis] += self.over[axis, side]
            messages[edge_of(axis, side)] = message
        return messages

    def move_ghosts(self) -> Generator[Any, Any, None]:
        """Take in where the ghosts are now, and work on the inner atoms meanwhile."""
        position, first = self.atoms.position, self.atoms.count
        for axis, third in zip(AXES, np.array_split(self.inner, len(AXES)), strict=True):
            messages = self.leaving(axis)
            yield Post(f"positions along {axis}", messages)
            self.add_forces(third)
            came = yield Collect(f"positions along {axis}", tuple(messages))
            for side in SIDES:
                ghosts = came[edge_of(axis, side)]
                position[:, first : first + ghosts.shape[1]] = ghosts
                first += ghosts.shape[1]

    def build_lists(self) -> None:
        """List neighbours anew, and part the clusters that ghosts are near from the others."""
        atoms, reach = self.atoms, self.problem.reach
        corners = self.low - reach, self.high + reach
        where = atoms.count, atoms.position, atoms.position, atoms.total
        self.lists.fill(self.kernels, *where, corners, reach)
        self.inner, self.border = self.lists.clusters(atoms.count, self.kernels.WIDTH)

    def measure(self) -> dict[str, Measure]:
        """As every domain; with the potential, and whether a few forces are what they must be."""
        measures, atoms = super().measure(), self.atoms
        measures["totals"].value[8:14] = self.energies()
        some = sample(atoms.count)
        near = atoms.position[:, : atoms.total]
        felt = near[:, some], near, atoms.force[:, some]
        return measures | {"wrong forces": Measure("sum", wrong_forces(*felt, self.problem.cutoff))}
