"""One block of Stencil3D: its parallel life, in order."""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter
from typing import Any

from kernels.device import Device
from miniapps.block import Collect, Index, Post
from miniapps.decomposition import Layout
from miniapps.grid import GridBlock
from miniapps.stencil3d.problem import StencilProblem, load_factor


class StencilBlock(GridBlock):
    """A box of cells and their ghosts."""

    def __init__(
        self, problem: StencilProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        super().__init__(problem, layout, index, device)
        self.part, self.parts = layout.pe(index), layout.pes

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Advance ``count`` sweeps with one halo exchange, then bear the synthetic load."""
        yield Post("halo", {edge: self.face(edge) for edge in self.neighbors})
        start = perf_counter()
        self.sweep_interior(count)  # overlaps with the messages
        swept = perf_counter() - start
        halo = yield Collect("halo", tuple(self.neighbors))
        for edge in self.neighbors:
            self.fill_ghost(edge, halo[edge])
        start = perf_counter()
        self.sweep_rest(count)
        self.bear_load(swept + perf_counter() - start)
        return False

    def bear_load(self, swept: float) -> None:
        """Be as slow as the published imbalance makes this block, given a sweep's seconds."""
        factor = load_factor(self.problem, self.part, self.parts, self.time - 1)
        if self.problem.imbalance_mode == "wait":
            end = perf_counter() + factor * swept
            while factor and perf_counter() < end:
                pass
        else:
            self.repeat_sweep(factor)

    def repeat_sweep(self, times: float) -> None:
        """Sweep again from the same values into the same cells: real work, nothing changes."""
        low, high, *rest = self.own
        whole = int(times)
        for _ in range(whole):
            self.kernels.sweep(self.new, self.old, low, high, *rest)
        part = low + round((times - whole) * (high - low))
        self.kernels.sweep(self.new, self.old, low, part, *rest)
