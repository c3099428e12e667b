"""One block of Jacobi2D: its parallel life, in order."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from miniapps.block import AllReduce, Collect, Post
from miniapps.grid import GridBlock


class JacobiBlock(GridBlock):
    """A rectangle of cells and their ghosts."""

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Advance ``count`` sweeps with one halo exchange; True where the tolerance is met."""
        yield Post("halo", self.faces())
        self.sweep_interior(count)  # overlaps with the messages
        self.fill_ghosts((yield Collect("halo", self.edges)))
        self.sweep_rest(count)
        return (yield from self.converged())

    def converged(self) -> Generator[Any, Any, bool]:
        """Whether the last sweep changed no cell of any block by more than the tolerance.

        It is swept again, from the same values into the same cells, this time with a residual.
        """
        if not self.problem.tolerance or self.time % self.problem.check_every:
            return False
        change = self.kernels.sweep_residual(self.new, self.old, *self.own)
        return (yield AllReduce(change, "max")) <= self.problem.tolerance
