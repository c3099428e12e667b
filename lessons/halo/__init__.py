"""Lesson 2: the halo exchange of a grid that is cut into blocks."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.lesson import Case, Criterion, Lesson, Traffic

STEPS = 5
SIDES = ("up", "down", "left", "right")
SIZES = ((7, 5), (4, 9))
WIDE = (6, 20_000)  # cells; its rows are too long for MPI to keep a copy
GRIDS = {1: [(1, 1)], 2: [(2, 1), (1, 2)], 3: [(3, 1), (1, 3)], 4: [(2, 2), (4, 1)]}
Place = tuple[int, int]


class Halo(Lesson):
    """Blocks of a grid make some steps, in which each cell becomes the mean of five."""

    name: ClassVar[str] = "halo"
    number: ClassVar[int] = 2
    title: ClassVar[str] = "The halo exchange"
    minutes: ClassVar[int] = 75
    function: ClassVar[dict[str, str]] = {
        "mpi4py": "advance",
        "charm4py": "Block",
        "block": "Block",
    }
    steps: ClassVar[int] = STEPS
    offers: ClassVar[frozenset[str]] = frozenset(
        f"miniapps.contract.{name}" for name in ("Collect", "Exchange", "Peer", "Post")
    )

    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(3, "right with fixed edges", lambda c: not wide(c) and not c.periodic),
        Criterion(3, "right with periodic edges", lambda c: not wide(c) and c.periodic),
        Criterion(2, "right with rows of which MPI keeps no copy", lambda c: wide(c)),
        Criterion(2, "one message to each neighbour in a step", messages=True),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """Uneven blocks in every arrangement, with edges that are fixed or periodic.

        Only the longer axis grows, so that some blocks have one row or one column.
        """
        *small, long = [(n + more, m) if n > m else (n, m + more) for n, m in (*SIZES, WIDE)]
        return [
            Case(processes, (*size, *grid), seed, periodic)
            for grid in GRIDS[processes]
            for size in (*small, long)
            for periodic in (False, True)
            if size != long or (grid == (processes, 1) and periodic)
        ]

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The block with its ghosts, the ranks beside it by side, and the number of steps."""
        (top, bottom), (left, right) = self.bounds(case, rank)
        padded = self.padded(case)
        field = padded[top : bottom + 2, left : right + 2].copy()
        return field, self.neighbours(case, rank), self.steps

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """The block's own cells after all steps."""
        field = self.padded(case)
        for _ in range(self.steps):
            self.step(field, case.periodic)
        (top, bottom), (left, right) = self.bounds(case, rank)
        return field[1:-1, 1:-1][top:bottom, left:right].copy()

    @staticmethod
    def step(field: np.ndarray, periodic: bool) -> None:
        """Let every cell of the whole grid become the mean of five; (n + 2, m + 2), in place."""
        if periodic:
            field[0], field[-1] = field[-2].copy(), field[1].copy()
            field[:, 0], field[:, -1] = field[:, -2].copy(), field[:, 1].copy()
        around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        field[1:-1, 1:-1] = 0.2 * (field[1:-1, 1:-1] + around)

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """Messages go to neighbours only, one for each side and step."""
        beside = [r for r in self.neighbours(case, rank).values() if r is not None]
        apart, who = [other for other in beside if other != rank], traffic.part
        if traffic.sent is None:
            came, most = traffic.received or 0, len(beside) * self.steps
            return f"chare {rank} got {came} messages; {most} are enough" if came > most else ""
        for other, count in traffic.sent.items():
            if other not in beside:
                return f"{who} {rank} sent to {who} {other}, which is not beside it"
            most = beside.count(other) * self.steps
            if count > most:
                return f"{who} {rank} sent {count} messages to {who} {other}; {most} are enough"
        return f"{who} {rank} sent nothing" if apart and not traffic.sent else ""

    def words(self, case: Case) -> str:
        """Cells, blocks and edges."""
        rows, columns, down, across = case.size
        edges = "periodic" if case.periodic else "fixed edges"
        return f"{rows} x {columns} cells in {down} x {across} blocks, {edges}"

    def padded(self, case: Case) -> np.ndarray:
        """The whole field with one line of cells around it, which is fixed if not periodic."""
        rows, columns = case.size[:2]
        return case.random().random((rows + 2, columns + 2))

    def neighbours(self, case: Case, rank: int) -> dict[str, int | None]:
        """The ranks beside a block, None beyond a fixed edge."""
        down, across = case.size[2:]
        row, column = divmod(rank, across)
        found: dict[str, int | None] = {}
        for side, (r, c) in zip(SIDES, ((-1, 0), (1, 0), (0, -1), (0, 1)), strict=True):
            inside = 0 <= row + r < down and 0 <= column + c < across
            there = (row + r) % down * across + (column + c) % across
            found[side] = there if inside or case.periodic else None
        return found

    @staticmethod
    def bounds(case: Case, rank: int) -> tuple[Place, Place]:
        """The rows [low, high) and columns [low, high) of a block."""
        rows, columns, down, across = case.size
        row, column = divmod(rank, across)
        return (
            (row * rows // down, (row + 1) * rows // down),
            (column * columns // across, (column + 1) * columns // across),
        )


def wide(case: Case) -> bool:
    """Whether rows are so long that MPI keeps no copy."""
    return case.size[1] >= WIDE[1]


LESSON = Halo()
