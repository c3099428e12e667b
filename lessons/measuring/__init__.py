"""Lesson 5: measuring how a program scales, with a clock that is simulated."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.lesson import Case, Criterion, Lesson
from miniapps.lessons.log import LOG

TICK_S = 2.0**-20  # a power of two, so that differences of times are exact
QUIET, NOISY, SLOW_FIRST = (1, 0, 1), (5, 10, 1), (3, 10, 3)  # repetitions, noise, first call
SERIAL_S, PARALLEL_S = (0.5, 1.5), (15.0, 25.0)  # from, to; on one process
UNEVEN = (1.1, 1.5)  # how many times as large as that of process 0 a share is: from, to
MORE = 3  # fewer than so many pairs of repetitions are added; calls take long on a busy machine
LATEST_S = 1000.0  # at which a clock may stand when the program begins


class Measuring(Lesson):
    """Every process gets the times on 1 to all processes, and what follows from them."""

    name: ClassVar[str] = "measuring"
    number: ClassVar[int] = 5
    title: ClassVar[str] = "Measuring: strong scaling, Amdahl, efficiency, noise"
    minutes: ClassVar[int] = 60
    function: ClassVar[dict[str, str]] = {"mpi4py": "measure"}

    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(4, "right where all repetitions take the same time", lambda c: not noisy(c)),
        Criterion(3, "right with noise", lambda c: noisy(c) and not slow_first(c)),
        Criterion(3, "right with noise and a slow first call", lambda c: slow_first(c)),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """A quiet machine, a noisy one, and one on which the first call takes longer."""
        return [
            Case(processes, (repetitions + 2 * (more % MORE), noise, first), seed)
            for repetitions, noise, first in (QUIET, NOISY, SLOW_FIRST)
        ]

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The process's clock, the work, and the number of repetitions, which is odd."""
        zeros = case.random().integers(0, int(LATEST_S / TICK_S), case.processes)
        serial, shares = self.ticks(case)
        mine = serial if rank == 0 else np.zeros_like(serial)
        calls = {
            count: [*zip(mine[count - 1].tolist(), share.tolist(), strict=True)]
            for count, share in enumerate(shares[:, :, rank], 1)
        }
        return Clock(int(zeros[rank])), Work(calls), case.size[0]

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """By number of processes: time, speed-up, efficiency and serial fraction."""
        serial, shares = self.ticks(case)
        times = np.median((serial + shares.max(axis=2))[:, 1:], axis=1) * TICK_S
        count = np.arange(1, case.processes + 1)
        speed_up = times[0] / times
        fraction = np.zeros(case.processes)
        fraction[1:] = ((1 / speed_up - 1 / count) / (1 - 1 / np.maximum(count, 2)))[1:]
        return np.round(np.stack([times, speed_up, speed_up / count, fraction], axis=1), 3)

    def words(self, case: Case) -> str:
        """What the machine is like, and how often the work is timed."""
        repetitions, noise, first = case.size
        machine = f"noise {noise} %" if noise else "no noise"
        slow = f", first call {first} times as long" if first > 1 else ""
        return f"{machine}{slow}, repetitions: {repetitions}"

    @staticmethod
    def ticks(case: Case) -> tuple[np.ndarray, np.ndarray]:
        """The ticks of all calls of the work, of which the first one is not to be timed.

        The serial part, (numbers of processes, calls), and the shares, (..., processes).
        """
        repetitions, noise, first = case.size
        random, calls, most = case.random(), 1 + repetitions, case.processes
        serial = np.full((most, calls), random.uniform(*SERIAL_S))
        parallel = random.uniform(*PARALLEL_S)
        shares = np.zeros((most, calls, most))
        for count in range(1, most + 1):
            parts = random.uniform(*UNEVEN, count)
            parts[0] = 1.0  # so a program that measures process 0 alone is wrong
            shares[count - 1, :, :count] = parallel * parts / parts.sum()
        for spent in (serial, shares):
            spent *= 1.0 + noise / 100 * random.exponential(size=spent.shape)
            spent[:, 0] *= first
        return np.rint(serial / TICK_S).astype(int), np.rint(shares / TICK_S).astype(int)


class Clock:
    """The simulated clock of one process, in s since a moment that differs from clock to clock.

    It advances while the process works, and while it waits at a barrier, or in another call in
    which all wait for all (`lessons.mpi.watched`).
    """

    def __init__(self, zero: int) -> None:
        self.zero = zero

    def __call__(self) -> float:
        """The time, in s."""
        return (self.zero + LOG.ticks) * TICK_S


class Work:
    """The work of one process: by number of processes, the ticks of each call's two parts."""

    def __init__(self, calls: dict[int, list[tuple[int, int]]]) -> None:
        self.calls = calls

    def __call__(self, comm: Any, count: int) -> None:
        """Wait for the serial part, which process 0 does; then do this process's share.

        Raises RuntimeError if no call is left.
        """
        left = self.calls.get(count)
        if not left:
            raise RuntimeError(
                f"work(comm, {count}) is called once more than needed: on each number of "
                "processes, call it once without the clock, and then once in each repetition"
            )
        serial, share = left.pop(0)
        LOG.ticks += serial
        comm.Barrier()
        LOG.ticks += share


def noisy(case: Case) -> bool:
    """Whether repetitions differ."""
    return case.size[1] > 0


def slow_first(case: Case) -> bool:
    """Whether the first call takes longer."""
    return case.size[2] > 1


LESSON = Measuring()
