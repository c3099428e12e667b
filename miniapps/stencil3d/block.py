"""One block of Stencil3D: what it computes and exchanges in a step, in order."""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any

from miniapps.contract import BlockMaker, Collect, Index, Post
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.grid_block import GridBlock
from miniapps.stencil3d.problem import StencilProblem, load_factor


class StencilBlock(GridBlock):
    """A box of cells and their ghosts."""

    def __init__(
        self, problem: StencilProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        self.has_equal_load = problem.imbalance == "none"  # the base class asks for it
        super().__init__(problem, layout, index, device)
        self.part, self.parts = layout.pe(index), layout.pes

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Advance ``count`` sweeps with one halo exchange, then add the synthetic load."""
        yield Post("halo", self.faces())
        if self.has_equal_load:
            self.sweep_interior(count)  # overlaps with the messages
            yield from self.advance((yield Collect("halo", self.edges)), count)
            return False
        interior = self.marked(self.sweep_interior, count)
        self.fill_ghosts((yield Collect("halo", self.edges)))
        rest = self.marked(self.sweep_rest, count)
        self.bear_load(self.device.seconds(*interior) + self.device.seconds(*rest))
        return False

    def marked(self, sweep: Callable[[int], None], count: int) -> tuple[Any, Any]:
        """Run a sweep; returns device marks of its begin and end."""
        begin = self.device.mark()
        sweep(count)
        return begin, self.device.mark()

    def bear_load(self, swept: float) -> None:
        """Add the extra load of the published imbalance; ``swept``: seconds of the sweep."""
        factor = load_factor(self.problem, self.part, self.parts, self.time - 1)
        if self.problem.imbalance_mode == "wait":
            end = perf_counter() + factor * swept
            while factor and perf_counter() < end:
                pass
            self.device.mark()  # the wait counts as the block's time on a GPU, too
        else:
            self.repeat_sweep(factor)

    def repeat_sweep(self, times: float) -> None:
        """Repeat the sweep from the same values into the same cells: real work, same result."""
        low, high, *rest = self.own
        whole = int(times)
        for _ in range(whole):
            self.kernels.sweep(self.new, self.old, low, high, *rest)
        part = low + round((times - whole) * (high - low))
        self.kernels.sweep(self.new, self.old, low, part, *rest)


_: BlockMaker = StencilBlock  # mypy: it keeps the contract
