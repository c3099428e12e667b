"""Runs LeanMD's kernels on close pairs of atoms that are not a block's, for audits."""

from __future__ import annotations

import numpy as np

from miniapps import kernels
from miniapps.devices.backend import Device
from miniapps.kernels.leanmd.interface import PairTask
from miniapps.leanmd.atoms import Atoms, Lists
from miniapps.leanmd.close_pairs import ClosePairs
from miniapps.leanmd.thermo import Energies, sums_of_potential


class Probe:
    """The atoms of `miniapps.leanmd.close_pairs` on a device, with their lists."""

    def __init__(self, device: Device, pairs: ClosePairs) -> None:
        self.device, self.pairs = device, pairs
        self.dtype, self.cutoff, self.quantum = pairs.dtype, pairs.cutoff, pairs.quantum
        self.kernels, position = kernels.load("leanmd", device.name), pairs.position
        count = position.shape[1]
        self.atoms, self.lists = Atoms(device), Lists(own=True, device=device)
        self.atoms.set(np.arange(count), position, np.zeros_like(position))
        where = count, self.atoms.position, self.atoms.position, count
        corners = position.min(axis=1), position.max(axis=1)
        self.lists.fill(self.kernels, *where, corners, self.cutoff)
        while self.lists.made_again():
            pass

    def forces(self) -> np.ndarray:
        """The forces on all atoms, as a block finds them: (3, n) int64."""
        atoms, lists = self.atoms, self.lists
        position, make = atoms.position, self.kernels.QUANTA.get(self.dtype)
        if make is not None:
            position = make(position, self.quantum)
            position.update(0, atoms.total + self.kernels.WIDTH)
        self.kernels.FORCES[self.dtype](
            position, position, lists.all_clusters, 0, lists.clusters, lists.starts,
            lists.neighbors, True, self.cutoff, atoms.force, atoms.error_flags,
        )  # fmt: skip
        return atoms.own("force")

    def forces_in_cell(self) -> np.ndarray:
        """The same, as the compute of a cell with itself finds them."""
        shape = 3, self.atoms.count + self.kernels.WIDTH
        (message,) = self.device.messages({(): shape}, np.float64).values()
        self.kernels.pack_positions(self.atoms.rows, message)
        cell = self.kernels.sent_positions(message, None, self.device)
        lists = self.kernels.pair_lists(cell, cell, (self.lists,), self.cutoff, self.quantum)
        (((force, _),),) = self.kernels.PAIR_FORCES[self.dtype]([PairTask(cell, cell, lists)])
        return force[:, : self.atoms.count]

    def energies(self) -> list[Energies]:
        """Energy, virial and pairs of the first atoms, up to each of the ends."""
        found = []
        for count in self.pairs.ends:
            totals = self.device.to_device(np.zeros(6, np.int64))
            self.kernels.energies(
                count, self.atoms.position, self.atoms.position, self.lists.starts,
                self.lists.neighbors, True, self.cutoff, totals,
            )  # fmt: skip
            found.append(sums_of_potential(self.device.to_host(totals)))
        return found
