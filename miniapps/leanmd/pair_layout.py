"""The layout of cells and of pairs of neighbouring cells over PEs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

from miniapps.contract import Index
from miniapps.decomposition import Bounds, Layout, split

AROUND = list(itertools.product((-1, 0, 1), repeat=3))
FORWARD = [step for step in AROUND if step >= (0, 0, 0)]  # one of each two opposite steps, and none


@dataclass(frozen=True)
class PairLayout(Layout):
    """Each cell of the grid, and each pair of neighbours, is a block; ``sub_grid`` is unused."""

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return self.shape

    @property
    def odf(self) -> int:
        """Cells per PE, rounded up."""
        return -(-math.prod(self.grid) // self.pes)

    def bounds(self, index: Index) -> Bounds:
        """The range of a cell in the grid of cells: one cell along each axis."""
        return tuple((coordinate, coordinate + 1) for coordinate in index)

    def pe(self, index: Index) -> int:
        """The PE that owns the part of the grid with this cell."""
        pe = 0
        for coordinate, cells, parts in zip(index, self.shape, self.pe_grid, strict=True):
            part = next(n for n in range(parts) if coordinate < split(0, cells, parts, n)[1])
            pe = pe * parts + part
        return pe

    def counts(self) -> dict[str, int]:
        """The number of cells, and of computes."""
        cells = math.prod(self.grid)
        return {"cell": cells, "compute": cells * len(FORWARD)}

    def families(self) -> dict[str, list[Index]]:
        """Cells, and computes; the index of a compute joins those of its two cells."""
        cells = self.indices()
        pairs = [cell + self.beside(cell, step) for cell in cells for step in FORWARD]
        return {"cell": cells, "compute": pairs}

    def home(self, kind: str, index: Index) -> int:
        """The PE on which a block starts: for a compute, that of its first cell."""
        return self.pe(index[:3])

    def beside(self, cell: Index, step: Index) -> Index:
        """The cell at the offset ``step``."""
        return tuple((i + d) % n for i, d, n in zip(cell, step, self.shape, strict=True))
