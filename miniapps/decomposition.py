"""The decomposition of a global grid: its blocks, their neighbours, and the PE of each.

The grid is first cut into one part per PE, then each part into ``odf`` blocks, so the blocks of a
PE tile exactly the block that an MPI rank would own. All splits may be uneven: of p parts of n
cells, part i begins at cell floor(i n / p).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from miniapps.contract import Edge, Index, Peer, Place
from miniapps.parameters import InputError, require, shown

STRIDED = 4.0  # relative cost of a cut across the last axis: each face cell is a cache line

Bounds = tuple[tuple[int, int], ...]


def factorizations(count: int, ndim: int) -> Iterator[tuple[int, ...]]:
    """All ordered ways to write count as a product of ndim positive integers."""
    if ndim == 1:
        yield (count,)
        return
    for first in divisors(count):
        for rest in factorizations(count // first, ndim - 1):
            yield (first, *rest)


def divisors(count: int) -> list[int]:
    """The divisors of a positive integer, in ascending order."""
    small = [n for n in range(1, math.isqrt(count) + 1) if count % n == 0]
    return small + [count // n for n in reversed(small) if n * n != count]


def least_surface(
    shape: tuple[int, ...],
    count: int,
    last_axis: float = 1.0,
    least: tuple[int, ...] | None = None,
) -> tuple[int, ...]:
    """The grid of ``count`` parts of ``shape`` whose cuts have the least area.

    Cuts across the last axis count ``last_axis`` times. Among equals, the grid with most cuts along
    axis 0 wins, because those faces are contiguous in memory. Raises ValueError if no grid gives
    every part at least ``least`` cells along each axis (default: one).
    """
    least = least or (1,) * len(shape)
    volume = math.prod(shape)
    weights = (1.0,) * (len(shape) - 1) + (last_axis,)

    def cost(grid: tuple[int, ...]) -> float:
        axes = zip(grid, shape, weights, strict=True)
        return sum(weight * (parts - 1) * volume / cells for parts, cells, weight in axes)

    fitting = [
        grid
        for grid in factorizations(count, len(shape))
        if all(n * parts <= cells for n, parts, cells in zip(least, grid, shape, strict=True))
    ]
    if not fitting:
        cells = "x".join(map(str, shape))
        room = f", each of {'x'.join(map(str, least))} or more" if max(least) > 1 else ""
        raise ValueError(f"{count} blocks do not fit into {cells} cells{room}")
    return min(fitting, key=lambda grid: (cost(grid), [-parts for parts in grid]))


def split(low: int, high: int, parts: int, part: int) -> tuple[int, int]:
    """Cells [low', high') of one of ``parts`` nearly equal parts of [low, high)."""
    cells = high - low
    return low + part * cells // parts, low + (part + 1) * cells // parts


def require_parts(pe_grid: tuple[int, ...], axes: int, pes: int) -> None:
    """Raise InputError unless a grid of PEs has so many axes, and one part per PE."""
    require(len(pe_grid) == axes, "--pe-grid", pe_grid, f"must name {axes} axes")
    whole = min(pe_grid) >= 1 and math.prod(pe_grid) == pes
    require(whole, "--pe-grid", pe_grid, f"must be one part per PE, {pes} in all")


@dataclass(frozen=True)
class Layout:
    """How a grid of ``shape`` cells is cut: ``pe_grid`` parts, each into ``sub_grid`` blocks.

    ``periodic`` says per axis whether the last block neighbours the first. ``one_home``: one PE has
    the blocks of all parts, so no message travels.
    """

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    pe_grid: tuple[int, ...]
    sub_grid: tuple[int, ...]
    one_home: bool = False

    @classmethod
    def create(
        cls,
        shape: tuple[int, ...],
        periodic: tuple[bool, ...],
        pes: int,
        odf: int = 1,
        pe_grid: tuple[int, ...] | None = None,
        last_axis_cut: float = STRIDED,
        least: tuple[int, ...] | None = None,
    ) -> Layout:
        """Lay out ``pes`` times ``odf`` blocks, with least surface or on a given grid of PEs.

        ``last_axis_cut``: relative cost of cutting a PE's part across the last axis; ``least``:
        the least number of cells of a block along each axis; see `BaseProblem`.

        Raises InputError if the grid has the wrong number of axes or parts, or if a block would be
        too small.
        """
        try:
            pe_grid = pe_grid or least_surface(shape, pes, least=least)
        except ValueError as error:
            raise InputError("-n", pes, str(error)) from None
        require_parts(pe_grid, len(shape), pes)
        part = tuple(cells // parts for cells, parts in zip(shape, pe_grid, strict=True))
        allowed = f"more blocks than cells ({shown(shape)}) along an axis"
        require(min(part) >= 1, "--pe-grid", pe_grid, allowed)
        if least:
            fits = all(cells >= n for cells, n in zip(part, least, strict=True))
            allowed = f"blocks need {shown(least)} cells, one has {shown(part)}"
            require(fits, "--pe-grid", pe_grid, allowed)
        try:
            return cls(shape, periodic, pe_grid, least_surface(part, odf, last_axis_cut, least))
        except ValueError as error:
            raise InputError("--odf", odf, str(error)) from None

    @property
    def pes(self) -> int:
        """Number of PEs."""
        return math.prod(self.pe_grid)

    @property
    def odf(self) -> int:
        """Blocks per PE, the over-decomposition factor."""
        return math.prod(self.sub_grid)

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """Blocks along each axis."""
        return tuple(p * s for p, s in zip(self.pe_grid, self.sub_grid, strict=True))

    def indices(self) -> list[Index]:
        """All block indices, in C order."""
        return list(itertools.product(*map(range, self.grid)))

    def counts(self) -> dict[str, int]:
        """The number of blocks of each kind; other than `families`, this does not list them."""
        return {"block": math.prod(self.grid)}

    def families(self) -> dict[str, list[Index]]:
        """All blocks, by kind."""
        return {"block": self.indices()}

    def home(self, kind: str, index: Index) -> int:
        """The PE on which a block starts."""
        return 0 if self.one_home else self.pe(index)

    @property
    def is_shared(self) -> bool:
        """Whether a PE has several blocks."""
        return (len(self.numbers) if self.one_home else self.odf) > 1

    @cached_property
    def numbers(self) -> dict[Place, int]:
        """A number for each block of any kind, counted from 0 in the order of `families`."""
        every = [(kind, index) for kind, family in self.families().items() for index in family]
        return {place: number for number, place in enumerate(every)}

    def pe(self, index: Index) -> int:
        """The PE that owns the part of the grid with this block; PEs are numbered in C order."""
        pe = 0
        for coordinate, parts, subs in zip(index, self.pe_grid, self.sub_grid, strict=True):
            pe = pe * parts + coordinate // subs
        return pe

    def bounds(self, index: Index) -> Bounds:
        """Global cells [low, high) of a block along each axis."""
        return tuple(self.span(axis, coordinate) for axis, coordinate in enumerate(index))

    def span(self, axis: int, coordinate: int) -> tuple[int, int]:
        """Global cells [low, high) along an axis of the blocks with this coordinate."""
        part, sub = divmod(coordinate, self.sub_grid[axis])
        low, high = split(0, self.shape[axis], self.pe_grid[axis], part)
        return split(low, high, self.sub_grid[axis], sub)

    def block_shape(self) -> tuple[int, ...]:
        """Cells of the largest block along each axis."""
        axes = zip(self.shape, self.pe_grid, self.sub_grid, strict=True)
        return tuple(math.ceil(math.ceil(n / parts) / subs) for n, parts, subs in axes)

    def thinnest(self) -> int:
        """Cells of the smallest block along its shortest axis."""
        axes = zip(self.shape, self.pe_grid, self.sub_grid, strict=True)
        return min(cells // parts // subs for cells, parts, subs in axes)

    def widths(self, axis: int) -> list[int]:
        """Cells of each block along an axis."""
        spans = (self.span(axis, coordinate) for coordinate in range(self.grid[axis]))
        return [high - low for low, high in spans]

    def peers(self, index: Index, edges: Iterable[Edge], kind: str = "block") -> dict[Edge, Peer]:
        """The blocks at the offsets ``edges`` from a block; leaves out those outside the grid."""
        found = {}
        for edge in edges:
            there = tuple(i + d for i, d in zip(index, edge, strict=True))
            wrapped = tuple(i % n for i, n in zip(there, self.grid, strict=True))
            if all(i == w or p for i, w, p in zip(there, wrapped, self.periodic, strict=True)):
                found[edge] = Peer(kind, wrapped, tuple(-d for d in edge))
        return found

    def neighbors(
        self, index: Index, diagonals: bool = False, kind: str = "block"
    ) -> dict[Edge, Peer]:
        """The neighbours of a block by direction: across faces only, or across corners too.

        On a periodic axis of one or two blocks, several edges lead to the same peer.
        """
        most = len(index) if diagonals else 1
        around = itertools.product((-1, 0, 1), repeat=len(index))
        return self.peers(index, (e for e in around if 1 <= sum(map(abs, e)) <= most), kind)
