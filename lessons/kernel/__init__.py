"""Lesson 9: a kernel for a GPU."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.halo import Halo
from miniapps.lessons.lesson import Case, Criterion, Lesson, Traffic

ROWS, COLUMNS = 4, 16  # threads of a block, as the skeleton has them
SHAPES = {  # own cells, and steps; by whether they are computed with the tile
    False: ((4, 16, 2), (4, 32, 2), (5, 17, 2), (13, 7, 2), (3, 5, 3)),
    True: ((4, 16, 2), (5, 17, 2), (3, 5, 3)),
}
MOST_LINES = 4  # that a warp must touch: two rows of the block, each on two lines
MOST_LOADS = (ROWS + 2) * (COLUMNS + 2)  # of a block with a tile
MOST_IN, MOST_OUT = 2, 1  # copies to the GPU, and back


class Kernel(Lesson):
    """A field makes some steps, in which each own cell becomes the mean of five, on a GPU."""

    name: ClassVar[str] = "kernel"
    number: ClassVar[int] = 9
    title: ClassVar[str] = "A kernel for a GPU"
    minutes: ClassVar[int] = 90
    function: ClassVar[dict[str, str]] = {"numba": "advance"}

    offers: ClassVar[frozenset[str]] = frozenset({"numba"})
    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(3, "one cell per thread: right", lambda c: not tiled(c)),
        Criterion(2, "the same with few lines and copies", lambda c: not tiled(c), True),
        Criterion(3, "a tile in shared memory: right", lambda c: tiled(c)),
        Criterion(2, "the same with each cell loaded once per block", lambda c: tiled(c), True),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """Fields that fill their thread blocks, and others, for both kernels; on one process."""
        return [
            Case(1, (rows + more, columns + more, steps, int(tile)), seed)
            for tile, shapes in SHAPES.items()
            for rows, columns, steps in shapes
            if processes == 1
        ]

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The field with its edges, the number of steps, and whether to use the tile."""
        return self.field(case), case.size[2], tiled(case)

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """The own cells after all steps."""
        field = self.field(case)
        for _ in range(case.size[2]):
            Halo.step(field, periodic=False)
        return field[1:-1, 1:-1].copy()

    def not_computed(self, case: Case, traffic: Traffic) -> str:
        """Kernels compute all cells."""
        rows, columns, steps = case.size[:3]
        stores, needed = traffic.gpu.stores if traffic.gpu else 0, rows * columns * steps
        return f"kernels stored {stores} cells; {needed} are needed" if stores < needed else ""

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """Cells are computed from few loads, and the field stays on the GPU."""
        found = traffic.gpu
        assert found is not None
        if (found.rows, found.columns) != (ROWS, COLUMNS):
            threads = found.columns, found.rows
            return f"its blocks have {threads} threads, not {(COLUMNS, ROWS)}"
        if found.copied_in > MOST_IN or found.copied_out > MOST_OUT:
            copies = f"{found.copied_in} arrays were copied to the GPU and {found.copied_out} back"
            return f"{copies}; {MOST_IN} and {MOST_OUT} are enough"
        if not tiled(case) and found.lines > MOST_LINES * found.warp_loads:
            mean = f"{found.lines / found.warp_loads:.1f} lines of memory on average"
            return f"a warp's load touches {mean}; {MOST_LINES} are enough"
        most = MOST_LOADS * found.blocks
        if tiled(case) and found.loads > most:
            return f"{found.blocks} blocks loaded {found.loads} cells; {most} are enough"
        return ""

    def words(self, case: Case) -> str:
        """Cells, and which kernel."""
        rows, columns, steps = case.size[:3]
        kernel = "a tile in shared memory" if tiled(case) else "one cell per thread"
        return f"{rows} x {columns} cells, {steps} steps, {kernel}"

    def field(self, case: Case) -> np.ndarray:
        """The own cells with one line of fixed cells around them."""
        rows, columns = case.size[:2]
        return case.random().random((rows + 2, columns + 2))


def tiled(case: Case) -> bool:
    """Whether the kernel with the tile is used."""
    return bool(case.size[3])


LESSON = Kernel()
