"""A block of pipelined CG: an iteration has one reduction, beside the halo and the operator."""

from __future__ import annotations

from typing import Any, ClassVar

from miniapps.cg import plain
from miniapps.cg.block import CgBlock
from miniapps.contract import EXACT, AllReduce, Begin, Collect, Post, Requests


class PipelinedBlock(CgBlock):
    """A box of points, and a layer of ghosts.

    The iteration is algorithm 3 of Ghysels and Vanroose (2014), Parallel Computing 40. It has the
    vectors ``w`` = A r, ``s`` = A p, ``q`` = A w and ``z`` = A s; the operator computes only ``q``.
    Those that have the right ghosts are x, r, p and s, and w once its halo has come.
    """

    saved_vectors: ClassVar[str] = "rpswz"
    saved_numbers: ClassVar[tuple[str, ...]] = (*CgBlock.saved_numbers, "alpha", "beta")

    def _names(self) -> str:
        """The vectors that it keeps."""
        return "xrpqswz"

    def step(self, count: int) -> Requests:
        """Make one iteration; True if the tolerance is met."""
        vectors = [self.vectors[name] for name in self._names()]
        update = self.kernels.advance_pipelined
        products = yield from self.summed(update, *vectors, self.alpha, self.beta, sums=2)
        yield from self.look_ahead(products)
        return self.has_met

    def begin(self, squares: list[Any]) -> Requests:
        """Compute A r, and what the first iteration needs."""
        r, w = self.vectors["r"], self.vectors["w"]
        yield from self.exchange("residual", r)
        products = yield from self.summed(self.kernels.apply, self.points, r, w)
        yield from self.look_ahead([*squares, *products])

    def go_on(self) -> Requests:
        """Compute A w."""
        w, q = self.vectors["w"], self.vectors["q"]
        yield from self.at_once(self.kernels.multiply, self.points, w, q, *self.own)

    def look_ahead(self, products: list[Any]) -> Requests:
        """Add r r and w r over all blocks, and compute A w, alpha and beta.

        The driver adds up while the faces of ``w`` travel and the block applies the operator. A
        residual that has only rounding errors is not followed further, as ``w`` is A r no longer.
        """
        w = self.vectors["w"]
        yield Post("halo", (yield from self.pack(self.halo, w)))
        words = yield from self.on_host(products)
        total = AllReduce(words, EXACT)
        yield Begin(total)
        yield from self.unpack(self.halo, w, (yield Collect("halo", tuple(self.neighbors))))
        yield from self.go_on()
        rr, wr = found = yield total
        self.keep(("rr", "wr"), words, found)
        self.test_tolerance(rr)
        left = self.unless_nothing(rr)
        self.beta = plain.quotient(left, self.rz)
        curvature = wr - self.beta * plain.quotient(left, self.alpha)  # p A p
        self.note_curvature(curvature, left)
        self.alpha = plain.quotient(left, curvature)
        self.rz_before, self.rz = self.rz, left
