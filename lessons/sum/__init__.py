"""Lesson 3: a sum that does not depend on the number of processes."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.lesson import Case, Criterion, Lesson, Traffic

UNIT = 2.0**-40
LENGTHS = (3, 1001)  # with 3 numbers, one of 4 processes has none
A_SUM = 256  # bytes, also if it is pickled
SMALLEST, LARGEST = -6, 5  # powers of ten: sums beyond the 53 bits of a float64, in units


class Sum(Lesson):
    """Every process gets the sum of all numbers, in whole units."""

    name: ClassVar[str] = "sum"
    number: ClassVar[int] = 3
    title: ClassVar[str] = "A sum with the same bits on any number of processes"
    minutes: ClassVar[int] = 45
    function: ClassVar[dict[str, str]] = {"mpi4py": "total", "charm4py": "Part"}

    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(5, "the same bits with 1 to 4 parts", lambda case: not few(case)),
        Criterion(3, "also if a part has one number or none", lambda case: few(case)),
        Criterion(2, "only sums travel, and at most one to each part", messages=True),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """Few numbers and many; always the same ones, however many processes there are."""
        few, many = LENGTHS
        return [Case(processes, (length,), seed) for length in (few, many + more)]

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The process's part of the numbers."""
        (length,) = case.size
        low, high = (length * (rank + more) // case.processes for more in (0, 1))
        return (self.numbers(case)[low:high].copy(),)

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """The sum of all numbers, each rounded to whole units; one value, also with one number."""
        units = np.rint(self.numbers(case) / UNIT).astype(np.int64)
        return np.array([units.sum() * UNIT])

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """A process sends at most one sum to each; a chare gets as many, and the result."""
        if traffic.sent is not None:
            sent, most = sum(traffic.sent.values()), case.processes
            handed, enough = traffic.handed or 0, case.processes * A_SUM
            if sent > most:
                return f"process {rank} sent {sent} messages; {most} are enough"
            much = f"process {rank} gave {handed} bytes to MPI; a sum has 8"
            return much if handed > enough and not few(case) else ""
        came, most, got = traffic.received or 0, case.processes + 1, traffic.got
        if came > most:
            return f"chare {rank} got {came} messages; {most} are enough"
        much = f"chare {rank} got {got} bytes; a sum has 8"
        return much if got > most * A_SUM and not few(case) else ""

    def words(self, case: Case) -> str:
        """How many numbers."""
        return f"{case.size[0]} numbers"

    @staticmethod
    def numbers(case: Case) -> np.ndarray:
        """Numbers of very different size, of both signs; many of them are drawn until they tell."""
        (length,) = case.size
        for attempt in count():
            random = np.random.default_rng([case.seed, length, *[attempt] * bool(attempt)])
            signed = random.standard_normal(length)
            found = signed * 10.0 ** random.integers(SMALLEST, LARGEST, length)
            if few(case) or telling(found):
                break
        return found


def telling(numbers: np.ndarray) -> bool:
    """Whether numbers that are cut off, rounded down or rounded too late have another sum.

    Of four sets of 1001 numbers, one has the same sum if its numbers are cut off.
    """
    units = numbers / UNIT
    wrong = [np.trunc(units).astype(np.int64).sum(), np.floor(units).astype(np.int64).sum()]
    wrong += [np.rint(numbers.sum() / UNIT), np.rint(units).sum(), units.sum()]
    return np.rint(units).astype(np.int64).sum() * UNIT not in [one * UNIT for one in wrong]


def few(case: Case) -> bool:
    """Whether a process may have no number."""
    return case.size[0] == min(LENGTHS)


LESSON = Sum()
