"""A PE that runs students' programs for Charm4Py, one case after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
from charm4py import Array, Chare, Future, Group, charm

from miniapps import lessons
from miniapps.drivers.charm import yielding
from miniapps.drivers.job import RunError, Watcher
from miniapps.lessons.charm.order import ORDER
from miniapps.lessons.failures import placed
from miniapps.lessons.lesson import PARTS, Traffic, load_function
from miniapps.lessons.log import LOG
from miniapps.lessons.work import STUCK, Report, Work, in_turn

FAILED = 3  # exit status
NUMBER = 8  # bytes
BEGINNING = 2  # calls: prepare and start


def take_part(works: Sequence[Work], watcher: Watcher, report: Report) -> None:
    """Run all programs of a launch on its PEs; ends the process."""
    classes = {program: class_of(work) for program, work in {w.program: w for w in works}.items()}
    methods = {made: count_calls(made) for made in classes.values()}
    charm.invokeEntryMethod = ORDER.changed(charm.invokeEntryMethod, methods)

    def main(_: list[str]) -> None:
        try:
            in_turn(works, watcher, report, partial(run, classes, watcher))
        except Exception as error:
            watcher.fail(placed(error, classes))
            charm.exit(FAILED)
        charm.exit(0)

    def failed() -> None:
        error = sys.exc_info()[1]
        assert isinstance(error, Exception)
        watcher.fail(placed(error, classes))
        charm.abort(str(error))

    charm.handleGeneralError = failed
    charm.start(main, modules=[__name__, *(made.__module__ for made in classes.values())])


def class_of(work: Work) -> Any:
    """The class of chares that a program defines. Raises RunError."""
    name = lessons.load(work.lesson).function[work.runtime]
    found = load_function(work.program, name)
    if not (isinstance(found, type) and issubclass(found, Chare)):
        raise RunError(f"{name} is no class of chares: it is to begin with `class {name}(Chare):`")
    return found


def run(classes: dict[Path, Any], watcher: Watcher, work: Work) -> list[Any]:
    """Run the program in a case; returns the answers of its chares. Raises RuntimeError."""
    lesson, count = lessons.load(work.lesson), work.case.parts
    chares = Array(classes[work.program], ndims=1)
    for rank in range(count):
        chares.ckInsert(rank, [], onPE=lesson.home(work.case, rank, work.pes))
    chares.ckDoneInserting()
    logs = Group(Notes)
    logs.begin(str((work.lesson, work.case)), work.number, watcher, awaitable=True).get()
    done = [Future() for _ in range(count)]
    answers_of(
        chares[rank].prepare(count, *work.take(rank), future, awaitable=True)
        for rank, future in enumerate(done)
    )
    chares.start()
    charm.waitQD()
    came = answers_of(chares[rank].calls_of_lesson(ret=True) for rank in range(count))
    calls = [called - BEGINNING for called, _ in came]
    if not all(future.ready() for future in done):
        raise RuntimeError(f"{STUCK}{', '.join(map(str, calls))}")
    part = PARTS[work.runtime]
    noted = answers_of(logs[pe].computed(ret=True) for pe in range(work.pes))
    computed = sorted(what for of_pe in noted for what in of_pe)
    return [
        work.keep(
            rank,
            future.get(),
            Traffic(None, calls[rank], computed=by_index, part=part, got=got),
        )
        for rank, (future, (_, got)) in enumerate(zip(done, came, strict=True))
        for by_index in [tuple(what for what in computed if what[0] == rank)]
    ]


def answers_of(futures: Iterable[Future]) -> list[Any]:
    """Wait for all answers at once: each may take long where others use the cores."""
    return [future.get() for future in list(futures)]


def bytes_of(given: Any) -> int:
    """The bytes of the numbers in arguments: arrays, and what lists, tuples and dicts hold."""
    match given:
        case np.ndarray():
            return given.nbytes
        case list() | tuple():
            return sum(map(bytes_of, given))
        case dict():
            return sum(map(bytes_of, given.values()))
    return NUMBER


class Notes(Chare):
    """What a PE has noted in a case."""

    def begin(self, case: str, number: int, watcher: Watcher) -> None:
        """Begin a new case, of this number among those of the launch."""
        watcher.heartbeat(charm.myPe(), number)
        yielding.begin()
        LOG.forget()
        ORDER.begin(case)

    def computed(self) -> list[tuple[int, int, int]]:
        """Which blocks were computed here: number, step and PE."""
        return [(*what, charm.myPe()) for what in LOG.computed]


def count_calls(chare: Any) -> list[str]:
    """Let every chare of a class count the calls of the methods that the program defines.

    Returns their names, without `prepare`.
    """
    own = {name: one for name, one in vars(chare).items() if isfunction(one) and name[:2] != "__"}
    for name, method in own.items():
        setattr(chare, name, counting(method))
    chare.lesson_calls = chare.lesson_bytes = 0
    chare.calls_of_lesson = lambda self: (self.lesson_calls, self.lesson_bytes)
    chare.migrated = arriving(chare.migrated)
    return [name for name in own if name != "prepare"]


def arriving(migrated: Callable[..., Any]) -> Callable[..., Any]:
    """What Charm4Py calls when a chare has migrated: the method that moved it has not ended."""

    @wraps(migrated)
    def arrived(self: Any) -> Any:
        self.lesson_inside = False
        return migrated(self)

    return arrived


def counting(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that counts its calls by messages, not those by other methods of the chare.

    It counts the bytes that come with them, too, but for what the check gives in `prepare`.
    """

    @wraps(method)
    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        inside = vars(self).get("lesson_inside", False)
        if not inside:
            self.lesson_calls += 1
            self.lesson_bytes += bytes_of(arguments) if method.__name__ != "prepare" else 0
        self.lesson_inside = True
        try:
            return method(self, *arguments, **named)
        finally:
            self.lesson_inside = inside

    return counted
