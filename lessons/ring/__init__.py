"""Lesson 1: a ring of processes, and why it may deadlock."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.lesson import Case, Criterion, Lesson, Traffic

SMALL, LARGE = 3, 50_000  # numbers: a message that MPI buffers, and one that it does not


class Ring(Lesson):
    """Every process gets the arrays of all processes, which travel around a ring."""

    name: ClassVar[str] = "ring"
    number: ClassVar[int] = 1
    title: ClassVar[str] = "A ring, and how it comes to a halt"
    minutes: ClassVar[int] = 45
    function: ClassVar[dict[str, str]] = {"mpi4py": "collect", "charm4py": "Member"}

    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(3, "short arrays arrive in rings of 1 and 2", lambda c: few(c) and short(c)),
        Criterion(3, "short arrays arrive in rings of 3 and 4", lambda c: not few(c) and short(c)),
        Criterion(2, "long arrays arrive, of which MPI keeps no copy", lambda c: not short(c)),
        Criterion(2, "one message in each turn, to the right", messages=True),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """A small array and a large one."""
        return [Case(processes, (size + more,), seed) for size in (SMALL, LARGE)]

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The process's own array."""
        return (self._all(case)[rank].copy(),)

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """All arrays, (processes, n), in the order of the ranks."""
        return self._all(case)

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """Messages go to the right only, one in each turn."""
        right, turns = (rank + 1) % case.processes, case.processes - 1
        if traffic.sent is None:
            came = traffic.received or 0  # without those through channels and futures
            return f"chare {rank} got {came} messages; {turns} are enough" if came > turns else ""
        for other, count in traffic.sent.items():
            if other != right:
                return f"process {rank} sent to process {other}, which is not its right neighbour"
            if count > turns:
                return f"process {rank} sent {count} messages; {turns} are enough"
        return f"process {rank} sent nothing" if turns and not traffic.sent else ""

    def words(self, case: Case) -> str:
        """The length of the arrays."""
        return f"arrays of {case.size[0]} numbers"

    @staticmethod
    def _all(case: Case) -> np.ndarray:
        return case.random().random((case.processes, *case.size))


def few(case: Case) -> bool:
    """Whether there are at most two processes."""
    return case.processes <= 2


def short(case: Case) -> bool:
    """Whether arrays are so short that MPI keeps a copy."""
    return case.size[0] < LARGE


LESSON = Ring()
