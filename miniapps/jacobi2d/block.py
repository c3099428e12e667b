"""One block of Jacobi2D: what it computes and exchanges in a step, in order."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from miniapps.contract import AllReduce, BlockMaker, Collect, Post
from miniapps.grid_block import GridBlock


class JacobiBlock(GridBlock):
    """A rectangle of cells and their ghosts."""

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Advance ``count`` sweeps with one halo exchange; True if the tolerance is met."""
        yield Post("halo", self.faces())
        self.sweep_interior(count)  # overlaps with the messages
        self.fill_ghosts((yield Collect("halo", self.edges)))
        if not self.problem.is_tested(self.time + count):
            self.sweep_rest(count)
            return False
        change = self.sweep_measured(count)
        return (yield AllReduce(change, "max")) <= self.problem.tolerance


_: BlockMaker = JacobiBlock  # mypy: it keeps the contract
