"""One block of CG: what it computes and exchanges in an iteration, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from miniapps.arrays import arrived, copied, ghosted
from miniapps.cg import plain
from miniapps.cg.problem import EPS, CgProblem
from miniapps.contract import (
    EXACT,
    AllReduce,
    Checkpoint,
    Index,
    Measure,
    Pause,
    Piece,
    Requests,
    Saved,
)
from miniapps.decomposition import Bounds, Layout
from miniapps.devices.backend import Array, Device, known
from miniapps.grid import noise, slabs
from miniapps.halo_user import HaloUser
from miniapps.kernels.cg.interface import CgKernels
from miniapps.kernels.exact_sum import WORDS
from miniapps.kernels.halo.interface import Region, box

COLOURS = (*range(8), *range(6, -1, -1))  # forward and back; the last one would not change


class CgBlock(HaloUser[CgKernels]):
    """A box of points, and a layer of ghosts.

    Vectors are those of the algorithm: the solution ``x``, the residual ``r``, the direction ``p``,
    ``q`` = A p, and ``z``, the preconditioned residual, which is ``r`` without a preconditioner.
    The ghosts of ``x`` follow from those of ``p``, so that A x can be computed at any time.
    """

    kind = "block"
    rebuilt = ("halo",)
    depth = 1
    # What a checkpoint has beside the solution: vectors, and numbers that all blocks have.
    saved_vectors: ClassVar[str] = "rp"
    saved_numbers: ClassVar[tuple[str, ...]] = (
        *("rr", "rz", "rz_before", "b_squared"),
        *("not_positive", "departure", "has_met"),
    )

    def __init__(self, problem: CgProblem, layout: Layout, index: Index, device: Device) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.together = self.work_together(layout)
        self.bounds = layout.bounds(index)
        self.groups = groups(problem.operator, [blocks > 1 for blocks in layout.grid])
        self.neighbors = layout.neighbors(index, diagonals=problem.operator == 27)
        self.rr = self.rz = self.rz_before = self.b_squared = self.alpha = self.beta = 0.0
        self.not_positive, self.has_met = 0, False
        # The last dot products, by the names of their vectors: the block's part, and the total.
        self.dots: dict[str, tuple[np.ndarray, float]] = {}
        self.own = self._empty()[1]
        self.vectors = {name: device.to_device(self._empty()[0]) for name in self._names()}
        self.halo = self.halo_along(self.neighbors)

    def __getstate__(self) -> dict[str, Any]:
        """What migrates."""
        vectors = {name: self.device.leaving(array) for name, array in self.vectors.items()}
        return super().__getstate__() | {"vectors": vectors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the block after a migration, with arrays that have memory for a line behind."""
        super().__setstate__(state)
        vectors = self.vectors.items()
        self.vectors = {name: arrived(self.device, array, copied) for name, array in vectors}
        self.halo = self.halo_along(self.neighbors)

    def _names(self) -> str:
        """The vectors that it keeps."""
        return "xrpq" if self.problem.preconditioner == "none" else "xrpqz"

    def _empty(self) -> tuple[np.ndarray, Region]:
        """A vector of zeros, and the region of the block's own points in it."""
        cells = [high - low for low, high in self.bounds]
        return ghosted(cells, [(1, 1)] * 3, 1, line=self.device.line)

    def filled(self, values: np.ndarray) -> Array:
        """A vector with these values, its own and those of the layer around."""
        vector, own = self._empty()
        vector[box(with_ghosts(own))] = values
        return self.device.to_device(vector)

    @property
    def z(self) -> Array:
        """The preconditioned residual."""
        return self.vectors.get("z", self.vectors["r"])

    # Iterations ----------------------------------------------------------------------------------

    def step(self, count: int) -> Requests:
        """Make one iteration; True if the tolerance is met."""
        x, r, p, q = (self.vectors[name] for name in "xrpq")
        beta = plain.quotient(self.rz, self.rz_before)
        yield from self.at_once(self.kernels.turn, self.z, p, beta, *self.own)
        yield from self.exchange("direction", p)
        products = yield from self.summed(self.kernels.apply, self.points, p, q)
        (curvature,) = yield from self.totals(products, "pq")
        self.note_curvature(curvature, self.rz)
        self.alpha = plain.quotient(self.rz, curvature)
        squares = yield from self.summed(self.kernels.advance, x, r, p, q, self.alpha)
        yield from self.precondition_and_test(squares, "colour")
        return self.has_met

    def note_curvature(self, curvature: float, rz: float) -> None:
        """Count an iteration in which p A p or r z is not positive, while anything is left."""
        self.not_positive += int(rz != 0 and not (curvature > 0 and rz > 0))

    def precondition_and_test(self, squares: list[Any], phase: str) -> Requests:
        """Precondition the residual, whose square is given as a sum, and see how large it is."""
        self.rz_before, r, products = self.rz, self.vectors["r"], []
        if self.problem.preconditioner != "none":
            yield from self.precondition(r, phase)
            products = yield from self.summed(self.kernels.dot, r, self.z)
        found = yield from self.totals([*squares, *products], "rr", "rz")
        self.rz = self.unless_nothing(found[-1])
        self.test_tolerance(found[0])

    def unless_nothing(self, square: float) -> float:
        """The square of a residual; 0 if it is so small that x stays as it is from then on."""
        return square if square > self.problem.nothing_left(self.b_squared) else 0.0

    def test_tolerance(self, rr: float) -> None:
        """See whether the residual, whose square is given, meets the tolerance."""
        self.rr, limit = rr, self.problem.tolerance * math.sqrt(self.b_squared)
        self.has_met = self.problem.tolerance > 0 and math.sqrt(rr) <= limit

    def precondition(self, r: Array, phase: str) -> Requests:
        """Find ``z`` by Gauss-Seidel, colour after colour: all of one are relaxed at once.

        No two points of a colour are neighbours, so that it does not matter which are relaxed
        first, nor in which block they are, if ghosts are exchanged before each group of colours.
        """
        origin = sum((low & 1) << (2 - axis) for axis, (low, _) in enumerate(self.bounds))
        yield from self.at_once(self.kernels.clear, self.z)
        for n, colours in enumerate(self.groups):
            if n:
                yield from self.exchange(f"{phase} {n}", self.z)
            task = self.points, self.z, r, np.array(colours) ^ origin, *self.own
            yield from self.at_once(self.kernels.relax, *task)

    def summed(self, kernel: Callable[..., None], *arguments: Any, sums: int = 1) -> Requests:
        """Call a kernel for the block's own points; returns its sums, for `on_host`."""
        if self.together:
            return (yield from self.at_once(kernel, *arguments, *self.own))
        words = [self.device.zeros((WORDS,), np.int64) for _ in range(sums)]
        kernel(*arguments, *self.own, *words)
        return [self.device.to_host_later(one) for one in words]

    def on_host(self, sums: list[Any]) -> Requests:
        """Accumulators of sums, (n, WORDS); other blocks run before this one waits."""
        yield Pause()
        return np.array([known(words) for words in sums])

    def totals(self, sums: list[Any], *names: str) -> Requests:
        """The exact totals over all blocks of sums: (n,); kept as `dots` with these names."""
        words = yield from self.on_host(sums)
        found = yield from self.total(words)
        self.keep(names, words, found)
        return found

    def keep(self, names: Sequence[str], words: np.ndarray, totals: np.ndarray) -> None:
        """Keep dot products of the vectors with these names, for `measure`."""
        self.dots |= zip(names, zip(words, totals, strict=True), strict=False)

    def total(self, words: np.ndarray) -> Requests:
        """The exact sums over all blocks of (n, WORDS) accumulators on the host: (n,)."""
        return (yield AllReduce(words, EXACT))

    # Start and end -------------------------------------------------------------------------------

    def setup(self) -> Requests:
        """Test the operators, compute b, and begin at x = 0."""
        yield from self.test_symmetry()
        self.vectors["p"] = self.filled(field(self.problem, wider(self.bounds)))
        p, r = self.vectors["p"], self.vectors["r"]
        yield from self.at_once(self.kernels.multiply, self.points, p, r, *self.own)
        squares = yield from self.summed(self.kernels.dot, r, r)
        (self.b_squared,) = yield from self.totals(squares)
        yield from self.begin(squares)

    def begin(self, squares: list[Any]) -> Requests:
        """Prepare the first iteration; the square of the residual is given as a sum."""
        yield from self.precondition_and_test(squares, "first colour")

    def test_symmetry(self) -> Requests:
        """Find out how far v A u is from u A v, and of the preconditioner, for random u and v.

        In units of the rounding error that HPCG allows: the norms of u and v, times that of A.
        """
        u, v = (self.filled(noise_of(self.problem, wider(self.bounds), seed)) for seed in (1, 2))
        products: list[Any] = []
        for one, other, phase in ((u, v, "u"), (v, u, "v")):
            q = self.vectors["q"]
            yield from self.at_once(self.kernels.multiply, self.points, one, q, *self.own)
            pairs = [(one, one), (other, q)]
            if self.problem.preconditioner != "none":
                yield from self.precondition(one, phase)
                pairs.append((other, self.z))
            for pair in pairs:
                products += yield from self.summed(self.kernels.dot, *pair)
        (uu, *ways), (vv, *back) = np.split((yield from self.totals(products)), 2)
        scale = 4 * (self.points - 1) * EPS * math.sqrt(uu * vv)
        self.departure = max(abs(a - b) / scale for a, b in zip(ways, back, strict=True))

    @property
    def points(self) -> int:
        """Points of the operator."""
        return self.problem.operator

    def state(self) -> list[Piece]:
        """The block's points of the solution."""
        return [self._piece("x")]

    def _piece(self, name: str) -> Piece:
        """The block's points of a vector."""
        values = self.device.to_host(self.vectors[name])[box(self.own)]
        return Piece(name, values, tuple(low for low, _ in self.bounds), self.problem.size)

    def checkpoint(self) -> Checkpoint:
        """The vectors from which the next iteration follows, and numbers."""
        numbers = np.array([getattr(self, name) for name in self.saved_numbers], float)
        pieces = [self._piece(name) for name in self.saved_vectors]
        return Checkpoint(pieces, {"numbers": Measure("max", numbers)})

    def resume(self, saved: Saved) -> Requests:
        """Take up the vectors, with their ghosts, and what follows from them."""
        for name, number in zip(self.saved_numbers, saved.total("numbers").tolist(), strict=True):
            setattr(self, name, number)
        around = list(zip(wider(self.bounds), self.problem.size, strict=True))
        inside = [(max(low, 0), min(high, n)) for (low, high), n in around]
        beyond = [(int(low < 0), int(high > n)) for (low, high), n in around]
        for name in f"x{self.saved_vectors}":
            self.vectors[name] = self.filled(np.pad(saved.cells(name, inside), beyond))
        yield from self.go_on()

    def go_on(self) -> Requests:
        """Find the vectors that a checkpoint does not have."""
        if self.problem.preconditioner != "none":
            yield from self.precondition(self.vectors["r"], "colour")

    def measure(self) -> dict[str, Measure]:
        """Squares of norms that follow from x alone, and what the iterations noticed."""
        return {
            "squares": Measure("sum", sum(map(self._squares, slabs(self.bounds)))),
            "rr": Measure("max", self.rr),
            "rz before": Measure("max", self.rz_before),
            "dots": Measure("max", np.array([total for _, total in self.dots.values()])),
            "words of dots": Measure("sum", np.array([words for words, _ in self.dots.values()])),
            "parts of dots": Measure("sum", np.array([*map(self._parts_of_dot, self.dots)])),
            "ghosts": Measure("sum", self._ghosts()),
            "not positive": Measure("max", self.not_positive),
            "departure": Measure("max", self.departure),
            "has met": Measure("max", int(self.has_met)),
        }

    def _parts_of_dot(self, names: str) -> np.ndarray:
        """The dot product of two vectors, as `plain.parts_of_dot` finds it."""
        a, b = (self.device.to_host(self.vectors[name])[box(self.own)] for name in names)
        first = self.bounds[0][0]
        rows = [slice(low - first, high - first) for (low, high), *_ in slabs(self.bounds)]
        return np.array(sum(plain.parts_of_dot(a[some], b[some]) for some in rows))

    def _ghosts(self) -> np.ndarray:
        """A hash of all ghosts of x less one of the points that neighbours have as theirs: (1,).

        Its sum over all blocks is 0, modulo 2^64, if all ghosts are the neighbours' points.
        """
        x = self.device.to_host(self.vectors["x"])
        found = np.zeros(1, np.uint64)
        for edge in self.neighbors:
            found += self._hashed(x, self.beside(edge, 1))
            found -= self._hashed(x, self.beside(edge, 0))
        return found

    def _hashed(self, x: np.ndarray, region: Region) -> np.ndarray:
        """A hash of a region of a vector."""
        first = [low - own for (low, _), own in zip(self.bounds, self.own[::2], strict=True)]
        ends = zip(region[::2], region[1::2], first, strict=True)
        at = [np.arange(low + shift, high + shift) for low, high, shift in ends]
        return plain.hashed(x[box(region)], at, self.problem)

    def _squares(self, slab: Bounds) -> np.ndarray:
        """The squares of `Norms` over some planes."""
        low, high = (plane - self.bounds[0][0] + self.own[0] for plane in slab[0])
        rest = box(with_ghosts(self.own))[1:]
        around = self.device.to_host(self.vectors["x"])[(slice(low - 1, high + 1), *rest)]
        updated = self.device.to_host(self.vectors["r"])[(slice(low, high), *box(self.own)[1:])]
        p = self.device.to_host(self.vectors["p"])[(slice(low, high), *box(self.own)[1:])]
        solution = plain.solution(self.problem, wider(slab))
        b = plain.applied(self.points, solution)
        residual = b - plain.applied(self.points, around)
        inner = (slice(1, -1),) * 3
        error, solution = (solution - around)[inner], solution[inner]
        pairs = [(v, v) for v in (b, solution, residual, residual - updated, error)]
        pairs += [(error, residual), (solution, b), (p, p), (updated, p)]
        return np.array([np.vdot(one, other) for one, other in pairs])


def groups(points: int, cut: Sequence[bool]) -> list[list[int]]:
    """The colours in groups, within which no ghosts have to be exchanged.

    Points of two colours can be neighbours across the axes in which their parities differ: across
    all of them, and with seven points only if it is one. ``cut``: whether there are several blocks
    along each axis.
    """
    axes = sum(is_cut << (2 - axis) for axis, is_cut in enumerate(cut))
    found: list[list[int]] = [[]]
    for colour in COLOURS:
        across = [colour ^ before for before in found[-1]]
        if any(a & axes and (points == 27 or a in (1, 2, 4)) for a in across):
            found.append([])
        found[-1].append(colour)
    return found


def wider(bounds: Bounds) -> Bounds:
    """A box of points with a layer more on all sides."""
    return tuple((low - 1, high + 1) for low, high in bounds)


def with_ghosts(own: Region) -> Region:
    """A region of an array with a layer more on all sides."""
    return tuple(at + (1 if n % 2 else -1) for n, at in enumerate(own))


def within(problem: CgProblem, bounds: Bounds, values: np.ndarray) -> np.ndarray:
    """The values on a box of points; 0 beyond the problem's box."""
    at = np.ix_(*(np.arange(low, high) for low, high in bounds))
    x, y, z = ((along >= 0) & (along < n) for along, n in zip(at, problem.size, strict=True))
    return np.where(x & y & z, values, 0.0)


def noise_of(problem: CgProblem, bounds: Bounds, seed: int = 0) -> np.ndarray:
    """Numbers in [0, 1) by the place of each point and a seed; 0 beyond the problem's box."""

    def planes(slab: Bounds) -> np.ndarray:
        x, y, z = np.ix_(*(np.arange(low, high) for low, high in slab))
        _, rows, columns = problem.size
        number = (x * rows + y) * columns + z + seed * math.prod(problem.size)
        return within(problem, slab, noise(number))

    return np.concatenate([planes(slab) for slab in slabs(bounds)])


def field(problem: CgProblem, bounds: Bounds) -> np.ndarray:
    """The solution of a problem on a box of points; 0 beyond the problem's box."""
    if problem.solution == "ones":
        return within(problem, bounds, np.ones(1))
    return noise_of(problem, bounds)
