"""Lesson 6: more blocks than PEs, of uneven sizes, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.halo import SIDES, Halo
from miniapps.lessons.lesson import UNSET, Case, Criterion, Traffic

SIZES = ((11, 8), (7, 13))
GRIDS = {1: ((1, 2), (2, 3)), 2: ((2, 2), (5, 1)), 3: ((3, 3),), 4: ((3, 4), (1, 6))}
PLANS = ((1, 2), (2, 1), (2, 2), (1, 4), (3, 2), (2, 4), (4, 3))  # blocks down and across
HEADER = 100  # bytes of a message besides its numbers
VERTICAL = {*SIDES[:2]}  # up and down
Shape = tuple[int, int]


class Overdecomposition(Halo):
    """The steps of lesson 2 with any number of blocks, or what they would cost."""

    name: ClassVar[str] = "overdecomposition"
    number: ClassVar[int] = 6
    title: ClassVar[str] = "Over-decomposition and granularity"
    minutes: ClassVar[int] = 60
    function: ClassVar[dict[str, str]] = {"charm4py": "Block"}
    steps: ClassVar[int] = 4
    offers: ClassVar[frozenset[str]] = frozenset()

    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(3, "any number of blocks, fixed edges", lambda c: runs(c) and not c.periodic),
        Criterion(3, "any number of blocks, periodic edges", lambda c: runs(c) and c.periodic),
        Criterion(1, "one message to each side in a step", lambda c: runs(c), True),
        Criterion(3, "what numbers of blocks cost", lambda c: not runs(c)),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """Uneven blocks, fixed and periodic, and plans for a grid, which are not run."""
        found = []
        for periodic in (False, True):
            for blocks, size in zip(GRIDS[processes], SIZES, strict=False):
                shape = (size[0] + more, size[1] + more)
                chares = blocks[0] * blocks[1]
                found.append(Case(processes, (*shape, *blocks), seed, periodic, chares))
            plan = (29 + more, 23 + 2 * more)
            found.append(Case(processes, plan, seed, periodic, 1))
        return found

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The grid with the chare's own cells, how it is cut, the steps, and what is planned."""
        if not runs(case):
            nothing = np.empty((case.size[0] + 2, case.size[1] + 2))
            return nothing, (1, 1), case.periodic, 0, plan(case)
        grid, own = self.padded(case), tuple(slice(*ends) for ends in self.bounds(case, rank))
        cells = grid[1:-1, 1:-1][own].copy()
        grid[1:-1, 1:-1] = UNSET
        grid[1:-1, 1:-1][own] = cells
        return grid, case.size[2:], case.periodic, self.steps, None

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """The block's own cells after all steps; of a plan, what each number of blocks costs."""
        if not runs(case):
            return costs(case.size[:2], case.periodic, **plan(case))
        return super().expected(case, rank)

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """One message for each side and step at most."""
        most = self.steps * len(self.sides(case, rank)) if runs(case) else 0
        came = traffic.received or 0
        return f"chare {rank} got {came} messages; {most} are enough" if came > most else ""

    def words(self, case: Case) -> str:
        """Cells, blocks and edges."""
        if runs(case):
            return super().words(case)
        edges = "periodic" if case.periodic else "fixed edges"
        return f"the costs of {case.size[0]} x {case.size[1]} cells, {edges}"

    def sides(self, case: Case, rank: int) -> list[str]:
        """The sides of a block on which there is another one, or the same."""
        return [side for side, other in self.neighbours(case, rank).items() if other is not None]


def runs(case: Case) -> bool:
    """Whether steps are made; otherwise costs are computed."""
    return len(case.size) == 4


def plan(case: Case) -> dict[str, Any]:
    """What is planned: numbers of blocks, and how long messages take, in times of a cell."""
    random = case.random()
    message, wait = int(random.integers(1, 12)), int(random.integers(60, 320))
    return {"plans": PLANS, "pes": min(2, case.processes), "message": message, "wait": wait}


def costs(
    shape: Sequence[int],
    periodic: bool,
    plans: Sequence[Shape],
    pes: int,
    message: int,
    wait: int,
) -> np.ndarray:
    """By plan: messages, ghosts, bytes and time of a step, and 1 for the plan with the least time.

    float64, (plans, 5). ``message``: time to send or receive one; ``wait``: until it has arrived;
    both in times of a cell.
    """
    table = np.zeros((len(plans), 5))
    for line, (down, across) in enumerate(plans):
        case = Case(pes, (*shape, down, across), 0, periodic)
        busy, longest, messages, ghosts = [0] * pes, [0] * pes, 0, 0
        for index in range(down * across):
            sides = LESSON.sides(case, index)
            beside, vertical = len(sides), len({*sides} & VERTICAL)
            (top, bottom), (left, right) = LESSON.bounds(case, index)
            height, width = bottom - top, right - left
            messages += beside
            ghosts += vertical * width + (beside - vertical) * height
            pe, time = index * pes // (down * across), height * width + message * beside
            busy[pe] += time
            longest[pe] = max(longest[pe], time)
        time = max(max(b, wait + one) for b, one in zip(busy, longest, strict=True))
        table[line, :4] = messages, ghosts, 8 * ghosts + HEADER * messages, time
    table[table[:, 3].argmin(), 4] = 1
    return table


LESSON = Overdecomposition()
