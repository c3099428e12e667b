"""Lesson 7: load balancing, by moving blocks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import count, product
from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.lesson import Case, Criterion, Lesson, Traffic
from miniapps.lessons.log import LOG

STEPS = 5
CELLS = 400  # of a block, on average
ACTIVE, COOLING = 0.5, 0.85  # which cells cost time, and what becomes of them
LIMIT = 1.05  # times the mean load: more is too much
HOTTEST, COLDEST = 1.8, 0.6  # the largest value in a block
SLACK = 1e-9  # for sums in another order
A_LOAD = 256  # bytes, also if it is pickled
SPREAD, TOGETHER, SINGLE = range(3)  # how blocks are distributed at the beginning


class Balancing(Lesson):
    """Blocks of uneven load are moved between steps, few of them, until loads are even."""

    name: ClassVar[str] = "balancing"
    number: ClassVar[int] = 7
    title: ClassVar[str] = "Load balancing"
    minutes: ClassVar[int] = 75
    function: ClassVar[dict[str, str]] = {"mpi4py": "advance", "charm4py": "Block"}
    offers: ClassVar[frozenset[str]] = frozenset({"miniapps.lessons.balancing.compute"})
    most_pes: ClassVar[int] = 3

    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(3, "even loads with few moves", lambda c: c.size[2] == SPREAD, True),
        Criterion(
            3, "also if all blocks begin in one place", lambda c: c.size[2] == TOGETHER, True
        ),
        Criterion(2, "nothing moves if it gains nothing", lambda c: c.size[2] == SINGLE, True),
        Criterion(2, "the same bits wherever a block is computed"),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """All blocks on the first process, several on each, and one block on each."""
        return self.cases_on(processes, processes, seed, more)

    def cases_for(self, runtime: str, processes: int, seed: int, more: int = 0) -> list[Case]:
        """Under Charm4Py a block is a chare, and there are as many PEs as processes, up to 3."""
        if runtime == "mpi4py":
            return self.cases(processes, seed, more)
        cases = self.cases_on(min(self.most_pes, processes), processes, seed, more)
        return [case._replace(chares=case.size[0]) for case in cases]

    def cases_on(self, pes: int, processes: int, seed: int, more: int) -> list[Case]:
        """The cases with a number of PEs or processes; one block alone is none."""
        counts = {TOGETHER: 3 * pes, SPREAD: 4 * pes + 1, SINGLE: pes}
        return [
            Case(processes, (blocks, CELLS + more, start), seed)
            for start, blocks in counts.items()
            if blocks > 1
        ]

    def pes(self, case: Case) -> int:
        """The number of processes or PEs."""
        return min(self.most_pes, case.processes) if case.chares else case.processes

    def home(self, case: Case, part: int, pes: int) -> int:
        """The process or PE on which a block is at the beginning."""
        return 0 if case.size[2] == TOGETHER else part * pes // case.size[0]

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The cells of the process or chare, where all blocks are, and what computes a block."""
        cells, pes = self.cells(case), self.pes(case)
        where = np.array([self.home(case, block, pes) for block in range(case.size[0])])
        if case.chares:
            return cells[rank], where, STEPS, compute
        return {b: cells[b] for b in np.flatnonzero(where == rank).tolist()}, where, STEPS, compute

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """The cells of a chare after all steps; from a process, the sum of each block's cells."""
        cells = self.cells(case)
        for block in cells:
            for _ in range(STEPS):
                cool(block)
        return cells[rank] if case.chares else np.array([math.fsum(block) for block in cells])

    def forbidden_together(self, case: Case, traffic: Sequence[Traffic]) -> str:
        """Why a step is computed, or blocks are moved, otherwise than they should."""
        blocks, cells = case.size[0], self.cells(case)
        records = [what for one in traffic for what in one.computed]
        times = Counter(what[:2] for what in records)
        needed = set(product(range(blocks), range(STEPS)))
        for block, step in sorted(needed | set(times)):
            if times[block, step] != ((block, step) in needed):
                return f"block {block} was computed {times[block, step]} times in step {step}"
        where = np.zeros((STEPS, blocks), dtype=np.int64)
        for block, step, pe in records:
            where[step, block] = pe
        for rank, one in enumerate(traffic):
            left = np.argwhere((where[:-1] == rank) & (where[1:] != rank))[:, 1]
            enough = A_LOAD * (STEPS + 1) * blocks + sum(cells[b].nbytes + A_LOAD for b in left)
            if (one.handed or 0) > enough:
                return f"process {rank} gave {one.handed} bytes to MPI; {enough} are enough"
        for step in range(STEPS - 1):
            loads = np.array([cool(block) for block in cells])
            reason = unwise(loads, where[step], where[step + 1], self.pes(case))
            if reason:
                return f"after step {step} {reason}"
        return ""

    def words(self, case: Case) -> str:
        """Blocks, and where they are at the beginning."""
        start = {SPREAD: "in order", TOGETHER: "all in one place", SINGLE: "one in each place"}
        return f"{case.size[0]} blocks, {start[case.size[2]]}"

    def cells(self, case: Case) -> list[np.ndarray]:
        """The cells of each block: uneven numbers of them, and the last blocks are the hottest.

        With two places, of which one is empty, they are drawn until they tell.
        """
        places = self.pes(case)
        for attempt in count():
            random = case._replace(size=(*case.size, *[attempt] * bool(attempt))).random()
            found = self.drawn(case, random)
            if places != 2 or case.size[2] != TOGETHER or telling([*map(np.copy, found)]):
                break
        return found

    @staticmethod
    def drawn(case: Case, random: np.random.Generator) -> list[np.ndarray]:
        """The cells of each block, as `random` draws them."""
        blocks, cells, _ = case.size
        sizes = random.integers(cells // 2, 3 * cells // 2, blocks)
        heat = np.linspace(COLDEST, HOTTEST, blocks)
        return [top * random.random(size) for top, size in zip(heat, sizes, strict=True)]


def telling(cells: Sequence[np.ndarray]) -> bool:
    """Whether it is seen if blocks move as long as anything can be gained; cells change.

    All blocks begin in the first of two places. Of six sets of blocks, one does not tell.
    """
    where = np.zeros(len(cells), dtype=np.int64)
    for _ in range(STEPS - 1):
        loads = np.array([cool(block) for block in cells])
        if unwise(loads, where, place(loads, where, 2, limit=0.0), 2):
            return True
        where = place(loads, where, 2)
    return False


def compute(block: int, step: int, cells: np.ndarray) -> int:
    """Let the active cells of a block cool, in place; returns their number, the block's load.

    ``block``: its number; ``step``: which step it is, from 0; ``cells``: (n,), float64.
    """
    LOG.computed.append((int(block), int(step)))
    return cool(cells)


def cool(cells: np.ndarray) -> int:
    """Let cells above a threshold cool, in place; returns their number."""
    active = cells > ACTIVE
    cells[active] *= COOLING
    return int(np.count_nonzero(active))


def place(loads: np.ndarray, where: np.ndarray, pes: int, limit: float = LIMIT) -> np.ndarray:
    """Where blocks of given loads are to be, by the rule of the page; all (blocks,)."""
    where = where.copy()
    while True:
        per = np.bincount(where, loads, pes)
        full, empty = per.argmax(), per.argmin()
        gap = per[full] - per[empty]
        useful = np.flatnonzero((where == full) & (loads > 0) & (loads < gap))
        if per[full] <= limit * per.mean() or not len(useful):
            return where
        where[useful[np.abs(2 * loads[useful] - gap).argmin()]] = empty


def unwise(loads: np.ndarray, before: np.ndarray, after: np.ndarray, pes: int) -> str:
    """Why moving blocks from ``before`` to ``after`` is not good enough; empty if it is."""
    by_rule = place(loads, before, pes)
    largest, possible = (np.bincount(there, loads, pes).max() for there in (after, by_rule))
    mean = loads.sum() / pes
    if largest > max(possible, LIMIT * mean) + SLACK:
        return (
            f"the largest load is {largest / mean:.2f} times the mean; "
            f"{possible / mean:.2f} is possible"
        )
    moved, enough = (int(np.count_nonzero(there != before)) for there in (after, by_rule))
    if moved > enough:
        return f"{moved} blocks were moved; {enough} are enough"
    return ""


LESSON = Balancing()
