"""A block of LeanMD's *blocks* decomposition."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from miniapps.arrays import arrived
from miniapps.contract import Collect, Exchange, Index, Measure, Post
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.leanmd.atoms import Lists
from miniapps.leanmd.close_pairs import ClosePairs
from miniapps.leanmd.domain import AXES, SIDES, Domain, edge_of
from miniapps.leanmd.probe import Probe
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.thermo import Energies, Sample, sums_of_potential


class LeanmdBlock(Domain):
    """A box of cells, and the ghosts that its neighbours send along three axes.

    Ghosts are sent along x, then y including those received along x, then z, so six messages reach
    all 26 neighbours. A block that is its own neighbour sends its images to itself. While messages
    to other blocks travel, the block computes forces on atoms without nearby ghosts, an equal part
    of them per axis.
    """

    arrays = ("clusters",)

    def __init__(
        self, problem: LeanmdProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        super().__init__(problem, layout, index, device)
        self.lists = Lists(own=True, device=device)
        others = {edge for edge, peer in self.neighbors.items() if peer.block != tuple(index)}
        self.apart = [axis for axis in AXES if others & {edge_of(axis, side) for side in SIDES}]
        # Per axis: the atoms and ghosts that are sent over the low side, then those over the high
        # side, and the number of each.
        self.sent = {axis: device.empty((0,), np.uint32) for axis in AXES}
        self.sizes = [(0, 0)] * len(AXES)
        self.clusters = device.empty((0,), np.uint32)  # those without nearby ghosts first
        self.inner = 0  # the number of these
        self.seen: Any = None  # positions as `Forces` takes them; made when they are first needed

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, without unused entries of ``sent``."""
        leaving, used = self.device.leaving, [slice(sum(sizes)) for sizes in self.sizes]
        sent = {axis: leaving(self.sent[axis], used[axis]) for axis in AXES}
        return super().__getstate__() | {"sent": sent, "seen": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put the arrays back on the device."""
        super().__setstate__(state)
        self.sent = {axis: arrived(self.device, state["sent"][axis]) for axis in AXES}

    def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
        """Update the ghosts and set the forces."""
        if not anew:
            done = yield from self.move_ghosts()
            self.add_forces(done, self.lists.clusters)
            return
        yield from self.gather_ghosts()
        self.see(0, self.atoms.total)
        self.build_lists()
        is_done = False
        while not is_done:
            self.clusters, sizes = self.lists.parted(self.kernels, self.atoms.count)
            self.add_forces(0, self.lists.clusters)
            self.inner, *_ = yield from self.known(sizes)
            is_done = not self.lists.made_again()

    def see(self, first: int, end: int) -> None:
        """Let `Forces` see that the atoms and ghosts from ``first`` to ``end`` have moved."""
        position, make = self.atoms.position, self.kernels.QUANTA.get(self.problem.dtype)
        if make is None:
            self.seen = position
            return
        if self.seen is None or self.seen.position is not position:
            self.seen, first = make(position, self.problem.quantum), 0
            end = self.atoms.total
        everyone = end == self.atoms.total
        self.seen.update(first, end + self.kernels.WIDTH * everyone)  # and the places behind them

    def add_forces(self, first: int, end: int) -> None:
        """Set the forces on the atoms of the clusters from ``first`` to ``end``."""
        atoms, lists = self.atoms, self.lists
        self.kernels.FORCES[self.problem.dtype](
            self.seen, self.seen, self.clusters, first, end, lists.starts,
            lists.neighbors, True, self.problem.cutoff, atoms.force, atoms.error_flags,
        )  # fmt: skip

    def potential(self) -> Generator[Any, Any, np.ndarray]:
        """Energy, virial and pairs of the block's atoms."""
        return self.energies()
        yield  # makes this a generator; it sends no request

    def energies(self, count: int | None = None) -> np.ndarray:
        """Energy, virial and pairs of all atoms, or of the first; (6,) as in the kernel."""
        atoms, lists = self.atoms, self.lists
        totals = self.device.to_device(np.zeros(6, np.int64))
        self.kernels.energies(
            atoms.count if count is None else count, atoms.position, atoms.position, lists.starts,
            lists.neighbors, True, self.problem.cutoff, totals,
        )  # fmt: skip
        return self.device.to_host(totals)

    # Ghosts --------------------------------------------------------------------------------------

    def gather_ghosts(self) -> Generator[Any, Any, None]:
        """Select the atoms that neighbours need as ghosts, and exchange them along each axis."""
        atoms, reach = self.atoms, self.problem.reach
        for axis in AXES:
            near = self.low[axis] + reach, self.high[axis] - reach
            which = self.device.empty((2 * atoms.total,), np.uint32)
            low, high, _ = yield from self.known(
                self.kernels.choose(atoms.total, atoms.position[axis], *near, which)
            )
            self.sent[axis], self.sizes[axis] = which, (low, high)
            came = yield from Exchange(f"ghosts along {axis}", self.leaving(axis))
            atoms.extend(self.arrived(axis, came))

    def leaving(self, axis: int) -> Mapping[Any, Any]:
        """Positions of the atoms and ghosts to send over the two sides along an axis."""
        sizes = self.sizes[axis]
        shapes = {edge_of(axis, side): (3, sizes[side]) for side in SIDES}
        messages = self.device.messages(shapes, np.float64)
        sides = [messages[edge] for edge in shapes]
        which, over = self.sent[axis], self.over[axis]
        self.kernels.gather(self.atoms.position, which, sizes, axis, over, sides)
        return messages

    def arrived(self, axis: int, came: Mapping[Any, Any]) -> list[Any]:
        """The messages received over the low and the high side along an axis."""
        came = self.device.received(came)
        return [came[edge_of(axis, side)] for side in SIDES]

    def move_ghosts(self) -> Generator[Any, Any, int]:
        """Receive the ghosts' new positions; return for how many clusters forces are known.

        Forces on the inner atoms are computed while messages travel, not if all are to itself.
        """
        first, done = self.atoms.count, 0
        seen = first if self.apart else 0
        self.see(0, seen)
        for axis in AXES:
            messages = self.leaving(axis)
            yield Post(f"positions along {axis}", messages)
            if axis in self.apart:
                end = (self.apart.index(axis) + 1) * self.inner // len(self.apart)
                self.add_forces(done, end)
                done = end
            came = yield Collect(f"positions along {axis}", tuple(messages))
            parts = self.arrived(axis, came)
            self.kernels.place(self.atoms.position, first, parts)
            first += sum(part.shape[1] for part in parts)
        self.see(seen, first)
        return done

    def build_lists(self) -> None:
        """Rebuild the neighbour lists."""
        atoms, reach = self.atoms, self.problem.reach
        corners = self.low - reach, self.high + reach
        where = atoms.count, atoms.position, atoms.position, atoms.total
        self.lists.fill(self.kernels, *where, corners, reach)

    def measure(self) -> dict[str, Measure]:
        """As for every domain, with the potential."""
        measures = super().measure()
        measures["totals"].value[8:14] = self.energies()
        return measures

    def potentials(self, most: int) -> list[Sample]:
        """The potential of the first atoms, at ``most`` so many, for an audit."""
        count = min(most, self.atoms.count)
        near = self.device.to_host(self.atoms.position)[:, : self.atoms.total]
        return [(near[:, :count], near, sums_of_potential(self.energies(count)))]

    def probed(self, pairs: ClosePairs) -> tuple[np.ndarray, list[Energies]]:
        """The forces on atoms that are not the block's, and sums of their energies, for audits."""
        probe = Probe(self.device, pairs)
        return probe.forces(), probe.energies()
