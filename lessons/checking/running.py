"""Runs programs of students, and brings back what they returned."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from miniapps.lessons.lesson import PARTS, Case, Kernels, Lesson, Traffic
from miniapps.lessons.mistakes import runnable
from miniapps.lessons.work import AN_ARRAY, Work, pes_for
from miniapps.workbench.run import launch
from miniapps.workbench.run.memory import require_shared_of
from miniapps.workbench.run.scratch import scratch_folder

STALL_S = 4.0
KEPT = 32  # cases whose numbers are kept in memory: of one lesson on one number of processes
# What is started; -P: it imports nothing from a student's folder.
PROCESS = (sys.executable, "-P", "-m", "miniapps.lessons.checking.started")
HIDDEN = 0  # instead of a case's seed, with which a program could compute the answer


class Task(NamedTuple):
    """One program in one case. ``given``: the arguments of each process, after the communicator."""

    lesson: str
    runtime: str
    program: Path
    case: Case
    given: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, lesson: Lesson, runtime: str, program: Path, case: Case) -> Task:
        """The task of running a program in a case."""
        return cls(lesson.name, runtime, program, case._replace(seed=HIDDEN), given(lesson, case))


@lru_cache(maxsize=KEPT)
def given(lesson: Lesson, case: Case) -> tuple[tuple[Any, ...], ...]:
    """What the processes are given in a case; nobody changes it, as each gets a copy."""
    return tuple(lesson.arguments(case, rank) for rank in range(case.parts))


class Returned(NamedTuple):
    """What a program that has ended returned, by process: the types' names, and arrays.

    The value is None if it is no array, or one of Python objects.
    """

    kinds: tuple[str, ...]
    values: tuple[np.ndarray | None, ...]
    traffic: tuple[Traffic, ...]


class Ended(str):
    """Why a program was ended that is not to be run again, in words."""


End = Returned | str | None  # a text says what stopped the program; None: it was not run


def run(tasks: Sequence[Task]) -> list[End]:
    """Run programs for one runtime; tasks that follow each other on as many PEs share a launch.

    If a program fails, the rest of its launch is not run.
    """
    ends: list[End] = []
    for together in launches(tasks):
        found = run_together(together)
        ends += [*found, *[None] * (len(together) - len(found))]
    return ends


def launches(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """The tasks of each launch."""
    for _, group in groupby(tasks, lambda task: pes_for(task.lesson, task.runtime, task.case)):
        yield list(group)


def run_together(tasks: Sequence[Task]) -> list[Returned | str]:
    """Run programs in one launch; nothing comes after the first failure."""
    with scratch_folder("miniapps-lesson-") as folder:
        files = {task.program: runnable(task.program, folder) for task in tasks}
        works = [
            Work(task.lesson, task.runtime, files[task.program], task.case, folder, number)
            for number, task in enumerate(tasks)
        ]
        for work, task in zip(works, tasks, strict=True):
            work.give(task.given)
        require_shared_of("lesson", works[0])
        with launch.pes_started_by(PROCESS):
            command = launch.command(works[0], [], None)
            results = launch.launch_all(works, command, STALL_S)
        return [
            result if isinstance(result, str) else returned(work, result)
            for work, result in zip(works, results, strict=False)
        ]


def returned(work: Work, answers: Any) -> Returned:
    """What a program returned, from the answers of its processes and their files."""
    kinds = tuple(answer["returned"] for answer in answers)
    values = tuple(
        np.load(work.result(rank)) if kind == AN_ARRAY else None for rank, kind in enumerate(kinds)
    )
    return Returned(kinds, values, tuple(map(traffic_of, answers)))


def traffic_of(answer: dict[str, Any]) -> Traffic:
    """The messages of one process, from its answer."""
    sent, swept = answer["sent"], answer["swept"]
    by_receiver = None if sent is None else {int(to): sent[to] for to in sorted(sent)}
    both = None if swept is None else tuple(swept)
    computed = tuple(map(tuple, answer.get("computed", ())))
    did = answer.get("gpu")
    gpu = None if did is None else Kernels(*map(int, did))
    sizes = answer["received"], both, answer["handed"], computed
    part = str(answer.get("part", PARTS["mpi4py"]))
    trouble, left_open = str(answer.get("trouble", "")), int(answer.get("open", 0))
    return Traffic(by_receiver, *sizes, gpu, trouble, left_open, part, int(answer.get("got", 0)))
