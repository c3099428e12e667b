"""One block of Advect: what it sends, computes and waits for, in order."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from miniapps.contract import Checkpoint, Collect, Index, Measure, Piece, Post, Saved
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.devices.messages import packed

from .problem import AdvectProblem


class AdvectBlock:
    """A piece of the ring."""

    kind = "block"

    def __init__(
        self, problem: AdvectProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.neighbors = layout.neighbors(index)
        ((self.low, self.high),) = layout.bounds(index)
        self.u = problem.initial(self.low, self.high)

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Send the last cell up, get the one below the first, and carry the profile on."""
        yield Post("halo", {(1,): packed(self.u[-1:])})
        halo = yield Collect("halo", ((-1,),))
        below = np.concatenate([halo[(-1,)], self.u[:-1]])
        self.u = self.u - self.problem.courant * (self.u - below)
        return False

    def state(self) -> list[Piece]:
        """The block's cells of the one field, ``u``."""
        return [Piece("u", self.u, (self.low,), self.problem.size)]

    def checkpoint(self) -> Checkpoint:
        """What the block needs beside `state` to go on later: nothing."""
        return Checkpoint()

    def resume(self, saved: Saved) -> None:
        """Take up the state of a checkpoint, which any blocks may have written."""
        self.u = saved.cells("u", [(self.low, self.high)])

    def measure(self) -> dict[str, Measure]:
        """The block's part of the first Fourier mode, at step 0 and now."""
        wave = np.exp(-2j * np.pi * np.arange(self.low, self.high) / self.problem.size[0])
        before = self.problem.initial(self.low, self.high)
        return {"mode": Measure("sum", np.array([before @ wave, self.u @ wave]))}
