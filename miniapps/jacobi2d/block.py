"""One block of Jacobi2D: what it computes and exchanges in a step, in order."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from miniapps.contract import AllReduce, BlockMaker, Collect, Measure, Post
from miniapps.grid_block import GridBlock
from miniapps.kernels.halo.interface import box


class JacobiBlock(GridBlock):
    """A rectangle of cells and their ghosts."""

    has_met = False  # whether the last sweep met the tolerance

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Advance ``count`` sweeps with one halo exchange; True if the tolerance is met."""
        yield Post("halo", self.faces())
        self.sweep_interior(count)  # overlaps with the messages
        came = yield Collect("halo", self.edges)
        self.has_met = False
        if not self.problem.is_tested(self.time + count):
            yield from self.advance(came, count)
            return False
        self.fill_ghosts(came)
        change = self.sweep_measured(count)
        self.has_met = (yield AllReduce(change, "max")) <= self.problem.tolerance
        return self.has_met

    def measure(self) -> dict[str, Measure]:
        """Those of every grid; if the last sweep was tested, its largest change and the result.

        NumPy finds the change from the fields after the last sweep (``old``) and before it
        (``new``), not from what blocks have reduced.
        """
        if not self.problem.is_tested(self.time):
            return super().measure()
        own = box(self.own)
        after, before = (self.device.to_host(field)[own] for field in (self.old, self.new))
        change = {"change": Measure("max", abs(after - before).max())}
        return super().measure() | change | {"has met": Measure("max", int(self.has_met))}


_: BlockMaker = JacobiBlock  # mypy: it keeps the contract
