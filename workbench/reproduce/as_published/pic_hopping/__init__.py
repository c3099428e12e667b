"""PIC with v = a dt in place of v += a dt: particles hop back and forth between two columns.

So did the public program of Fink et al. (ESPM2 2021), whose check had its result inverted and
counted two steps too many. The imbalance of its particles does not move through the domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.contract import Edge, Index, Peer
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.kernels.pic.counters import FIRST_LOST, HERE, NOWHERE, owner_at
from miniapps.pic import Problem, reference
from miniapps.pic import validate as right
from miniapps.pic.block import PicBlock
from miniapps.workbench.reproduce.wrong import demanding

__all__ = ["Block", "Problem", "reference", "validate"]

LEFT: Edge = (-1, 0)


class Block(PicBlock):
    """A rectangle of cells whose particles also leave towards -x."""

    def __init__(self, problem: Problem, layout: Layout, index: Index, device: Device) -> None:
        self.wide = layout.grid[0] > 1
        super().__init__(problem, layout, index, device)
        self.before = np.empty((2, 0))  # kept: new memory in each step costs more than the push

    def __getstate__(self) -> dict[str, Any]:
        """The right program's state; the velocities of the step before are none of it."""
        return super().__getstate__() | {"before": np.empty((2, 0))}

    def _edges(self, layout: Layout) -> tuple[dict[Edge, Peer], dict[Edge, Peer]]:
        """The right program's, and the neighbours along x in the other direction."""
        targets, sources = super()._edges(layout)
        if self.wide:
            targets = targets | layout.peers(self.index, [LEFT])
            sources = sources | layout.peers(self.index, [(1, 0)])
        return targets, sources

    def push(self, steps: int) -> None:
        """Push, forget the velocity of the step before, and find the particles that hop back."""
        mine, count = self.particles, self.particles.count
        if self.before.shape[1] < count:
            self.before = np.empty((2, count + count // 2))
        before = self.before[:, :count]
        before[:] = mine.vx[:count], mine.vy[:count]
        super().push(steps)
        mine.vx[:count] -= before[0]
        mine.vy[:count] -= before[1]
        if not self.wide:
            return
        away = np.flatnonzero(mine.owners[: mine.count] != HERE)
        size = self.problem.size
        back = away[(mine.x[away] - self.bounds[0][0]) % size >= size - 1]
        mine.owners[back] = owner_at(LEFT)
        mine.counters[FIRST_LOST] = NOWHERE
        self.kernels.find_leaving(mine.count, mine.owners, self.known, mine.counters, mine.gaps)


validate = demanding(right, must=("position error",), may=("differs from reference",))
