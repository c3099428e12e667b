"""The layout of the background and of the four refinements over PEs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, product

from miniapps.amr.plain import REACH
from miniapps.contract import Edge, Index, Peer
from miniapps.decomposition import Bounds, Layout
from miniapps.parameters import require

BACKGROUND = "background"
CORNERS = 4  # refinements, each at a corner of the background
MOST_BESIDE = 16  # blocks along an axis that an edge's label can tell apart
FINE_GRAIN, NO_TALK, HIGH_WATER = PLACEMENTS = "fine-grain", "no-talk", "high-water"
FACES: tuple[Edge, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))


def refinement(corner: int) -> str:
    """The kind of the blocks of a refinement."""
    return f"refinement {corner}"


@dataclass(frozen=True)
class AmrLayout(Layout):
    """The blocks of the background, as in every layout, and those of each refinement.

    An index of the background has two coordinates, one of a refinement three: its number and two
    coordinates.
    """

    fine: Layout | None = None  # how a refinement is cut; None: as the background under it
    placement: str = FINE_GRAIN
    corners: tuple[tuple[int, int], ...] = ()  # the background point at which each begins
    fine_shape: tuple[int, int] = (1, 1)  # of a refinement
    expand: int = 1  # points of a refinement per point of the background, along an axis
    total_pes: int = 1  # in all; `pe_grid` has those of the background

    @property
    def pes(self) -> int:
        """Number of PEs."""
        return self.total_pes

    @cached_property
    def cuts(self) -> list[list[list[int]]]:
        """Per refinement and axis, the points at which its blocks begin, and the end."""
        return [[self._cuts(corner, axis) for axis in (0, 1)] for corner in self.corners]

    def _cuts(self, corner: tuple[int, int], axis: int) -> list[int]:
        if self.fine is not None:
            return ends_of(self.fine, axis)
        own = [(end - corner[axis]) * self.expand for end in self._ends[axis]]
        return wide_enough(own, self.fine_shape[axis])

    def counts(self) -> dict[str, int]:
        """The number of blocks of the background, and of each refinement."""
        found = {BACKGROUND: math.prod(self.grid)}
        for corner, (x, y) in enumerate(self.cuts):
            found[refinement(corner)] = (len(x) - 1) * (len(y) - 1)
        return found

    def families(self) -> dict[str, list[Index]]:
        """All blocks, by kind."""
        found = {BACKGROUND: self.indices()}
        for corner, axes in enumerate(self.cuts):
            places = product(*(range(len(ends) - 1) for ends in axes))
            found[refinement(corner)] = [(corner, *place) for place in places]
        return found

    def home(self, kind: str, index: Index) -> int:
        """The PE on which a block starts; for one of a refinement, as `PLACEMENTS` say."""
        if self.one_home:
            return 0
        if kind == BACKGROUND:
            return self.pe(index)
        if self.fine is None:
            return self.pe(self.under(index)[0])
        first = self.total_pes - self.fine.pes if self.placement == HIGH_WATER else 0
        return first + self.fine.pe(index[1:])

    def fine_bounds(self, index: Index) -> Bounds:
        """The points [low, high) of a block of a refinement along each axis, in the refinement."""
        corner, *place = index
        axes = zip(self.cuts[corner], place, strict=True)
        return tuple((ends[at], ends[at + 1]) for ends, at in axes)

    def needed(self, index: Index) -> Bounds:
        """The background points [low, high) from which a block of a refinement is interpolated."""
        found = []
        for axis, (low, high) in enumerate(self.fine_bounds(index)):
            begin = self.corners[index[0]][axis]
            last = (self.fine_shape[axis] - 1) // self.expand
            top = min((high - 1) // self.expand + 1, last)
            found.append((begin + low // self.expand, begin + top + 1))
        return tuple(found)

    def under(self, index: Index) -> list[Index]:
        """The blocks of the background that have these points."""
        spans = [self._parts(axis, span) for axis, span in enumerate(self.needed(index))]
        return list(product(*spans))

    def _parts(self, axis: int, span: tuple[int, int]) -> list[int]:
        """The coordinates of the background's blocks that have points of a span of an axis."""
        ends = self._ends[axis]
        return [
            n for n, (low, high) in enumerate(pairwise(ends)) if low < span[1] and span[0] < high
        ]

    @cached_property
    def _ends(self) -> list[list[int]]:
        """Per axis, the points at which blocks of the background begin, and the end."""
        return [ends_of(self, axis) for axis in (0, 1)]

    def fine_neighbors(self, index: Index) -> dict[Edge, Peer]:
        """The neighbours of a block of a refinement in it, and the blocks that it begins from."""
        corner, *place = index
        kind = refinement(corner)
        sizes = [len(ends) - 1 for ends in self.cuts[corner]]
        found = {}
        for edge in FACES:
            there = [at + step for at, step in zip(place, edge, strict=True)]
            if all(0 <= at < size for at, size in zip(there, sizes, strict=True)):
                found[edge] = Peer(kind, (corner, *there), (-edge[0], -edge[1]))
        for below in self.under(index):
            found[self.label_below(index, below)] = Peer(
                BACKGROUND, below, self.label_above(below, index)
            )
        return found

    def coarse_neighbors(self, index: Index) -> dict[Edge, Peer]:
        """The neighbours of a block of the background, and the blocks that begin from it."""
        found = self.neighbors(index, kind=BACKGROUND)
        for above in self._above[index]:
            kind = refinement(above[0])
            found[self.label_above(index, above)] = Peer(
                kind, above, self.label_below(above, index)
            )
        return found

    @cached_property
    def _above(self) -> dict[Index, list[Index]]:
        """By block of the background, the blocks of refinements that begin from its points."""
        found: dict[Index, list[Index]] = {index: [] for index in self.indices()}
        for kind, family in self.families().items():
            for index in family if kind != BACKGROUND else ():
                for below in self.under(index):
                    found[below].append(index)
        return found

    def label_below(self, index: Index, below: Index) -> Edge:
        """A block of a refinement's edge to a block of the background."""
        first = self.under(index)[0]
        return (1, below[0] - first[0], below[1] - first[1])

    def label_above(self, below: Index, index: Index) -> Edge:
        """A block of the background's edge to a block of a refinement."""
        first = next(above for above in self._above[below] if above[0] == index[0])
        return (1 + index[0], index[1] - first[1], index[2] - first[2])

    def check_labels(self) -> None:
        """Raise InputError if a block has more blocks above or below it than edges can name."""
        for kind, family in self.families().items():
            for index in family if kind != BACKGROUND else ():
                for below in self.under(index):
                    labels = self.label_below(index, below) + self.label_above(below, index)
                    allowed = f"a block may have less than {MOST_BESIDE} others above or below it"
                    cells = tuple((n - 1) // self.expand for n in self.fine_shape)
                    require(max(labels) < MOST_BESIDE, "--refinement", cells, allowed)


def ends_of(layout: Layout, axis: int) -> list[int]:
    """The points of an axis at which the blocks of a layout begin, and the end."""
    return list(accumulate(layout.widths(axis), initial=0))


def wide_enough(inner: Sequence[int], points: int) -> list[int]:
    """Cuts of ``points`` points, of which parts are as wide as the stencil reaches, at least.

    ``inner``: where to cut, in ascending order; places outside the points are left out.
    """
    ends = [0]
    for at in inner:
        if at - ends[-1] >= REACH and points - at >= REACH:
            ends.append(at)
    return [*ends, points]
