"""What the processes of one launch do: programs, each in the same cases."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from miniapps import drivers, lessons
from miniapps.drivers.descriptor import Driver, Options
from miniapps.drivers.hosts import Hosts
from miniapps.drivers.job import Watcher
from miniapps.lessons.lesson import RUNTIMES, Case, Traffic

STUCK = "no chare has anything left to do; messages by chare: "  # and not all have answered
AN_ARRAY = "an array"  # the kind of result that is stored in a file
Report = Callable[[int, list[Any]], None]  # stores what all processes of a work have to report


@dataclass(frozen=True)
class Work:
    """One program in one case. ``folder``: where the processes store what they return.

    The processes do not know the case's seed. Each finds there what it is given, its own part of
    the problem, so that it cannot compute the answer by itself.
    """

    lesson: str
    runtime: str
    program: Path
    case: Case
    folder: Path
    number: int
    warmup: ClassVar[int] = 0
    steps: ClassVar[int] = 1
    output: ClassVar[Path | None] = None
    hosts: ClassVar[Hosts | None] = None  # it is done on this one
    folders: ClassVar[list[Path]] = []

    @property
    def app(self) -> str:
        """What the progress bar shows."""
        return self.program.name

    @property
    def driver(self) -> str:
        """The driver that launches processes of the runtime."""
        return RUNTIMES[self.runtime]

    @property
    def can(self) -> Driver:
        """Its description."""
        return drivers.get(self.driver)

    @property
    def own(self) -> Options:
        """The driver's own options, of which none is used."""
        return self.can.options()

    @property
    def pes(self) -> int:
        """The number of processes that are launched."""
        return pes_for(self.lesson, self.runtime, self.case)

    def arguments(self) -> list[str]:
        """The argument by which a process takes part."""
        return ["take-part"]

    def result(self, rank: int) -> Path:
        """The file in which a process stores what the program returned."""
        return self.folder / f"{self.number}-{rank}.npy"

    def given(self, rank: int) -> Path:
        """The file with the arguments of the program in a process, after the communicator."""
        return self.folder / f"given-{self.number}-{rank}.pickle"

    def give(self, arguments: Sequence[tuple[Any, ...]]) -> None:
        """Write what each process is given."""
        for rank, words in enumerate(arguments):
            self.given(rank).write_bytes(pickle.dumps(words))

    def take(self, rank: int) -> tuple[Any, ...]:
        """What a process is given; the file is removed, so that no other process can read it."""
        words: tuple[Any, ...] = pickle.loads(self.given(rank).read_bytes())
        self.given(rank).unlink()
        return words

    def keep(self, rank: int, returned: Any, traffic: Traffic) -> dict[str, Any]:
        """Store what the program returned in a process, and return what else there is to report."""
        if isinstance(returned, np.ndarray) and not returned.dtype.hasobject:
            try:
                np.save(self.result(rank), returned)
            except OSError as error:
                raise OSError(f"it left no room for results: {error}") from error
            return {"returned": AN_ARRAY, **traffic._asdict()}
        kind = (
            "an array of objects" if isinstance(returned, np.ndarray) else type(returned).__name__
        )
        return {"returned": kind, **traffic._asdict()}


def pes_for(lesson: str, runtime: str, case: Case) -> int:
    """The number of processes that are launched for a case; several chares may share one."""
    if not drivers.get(RUNTIMES[runtime]).over_decomposition:
        return case.processes
    return min(lessons.load(lesson).most_pes, case.processes)


def in_turn(
    works: Sequence[Work], watcher: Watcher, report: Report, run: Callable[[Work], list[Any]]
) -> None:
    """Run all works of a launch from one process. Raises what a program raises."""
    for number, work in enumerate(works):
        watcher.heartbeat(0, number)
        report(number, run(work))
    watcher.finish(0)
