"""The table of lessons, their checks, and the wrong programs that each check finds.

`python tests/lesson_table.py` runs all known mistakes and writes the table of
docs/teaching/README.md, below its marker; test_lessons.py compares it. It takes some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from miniapps import lessons
from miniapps.lessons.checking import check, command, running
from miniapps.lessons.checking.running import Task
from miniapps.lessons.lesson import Lesson
from miniapps.lessons.mistakes import Mistake

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "teaching" / "README.md"
MARKER = "<!-- make lesson-table writes what follows -->\n"
SLOW = {"numba"}  # runtimes under which a few cases take as long as a launch
RUNTIMES = [(name, runtime) for name in lessons.names() for runtime in lessons.load(name).runtimes]


class Program(NamedTuple):
    """A program for a lesson."""

    lesson: Lesson
    runtime: str
    path: Path


def first_wrong(programs: Sequence[Program]) -> dict[Program, check.Outcome]:
    """The first outcome that is not right of each program that has one.

    The programs are for one runtime: all share a launch on each number of processes, and one more
    for each program that stops it. Those that are slow are run in one case first, in which most
    wrong ones are found.
    """
    wrong: dict[Program, check.Outcome] = {}
    slow = programs[0].runtime in SLOW
    some = (slice(0, 1), slice(1, None)) if slow else (slice(None),)
    for processes, these in product(check.PROCESSES, some):
        tried = [
            (one, case)
            for one in programs
            if one not in wrong
            for case in one.lesson.cases_for(one.runtime, processes, command.PUBLIC_SEED)[these]
        ]
        while tried:
            ends = running.run([Task.of(*one, case) for one, case in tried])
            left = [pair for pair, end in zip(tried, ends, strict=True) if end is None]
            for (one, case), end in zip(tried, ends, strict=True):
                if end is not None and one not in wrong:
                    outcome = check.outcome_of(one.lesson, case, end, one.path)
                    wrong |= {one: outcome} if outcome.reason else {}
            tried = [(one, case) for one, case in left if one not in wrong]
    return wrong


def ending(lesson: Lesson, runtime: str) -> list[Mistake]:
    """Known mistakes that end with a wrong result."""
    return [mistake for mistake in lesson.mistakes(runtime) if not mistake.stops]


def overview() -> Iterator[str]:
    """The lines of the table of all lessons."""
    yield "| lesson | runtime | cases | checks | right programs | wrong programs | those stopped |"
    yield "|---|---|---|---|---|---|---|"
    sums = [0, 0, 0]
    for name, runtime in RUNTIMES:
        lesson = lessons.load(name)
        cases = sum(len(lesson.cases_for(runtime, count, 1)) for count in check.PROCESSES)
        known = lesson.mistakes(runtime)
        stopped = len(known) - len(ending(lesson, runtime))
        programs = len(lesson.right(runtime)), len(known), stopped
        sums = [total + more for total, more in zip(sums, programs, strict=True)]
        numbers = cases, len(lesson.criteria), *programs
        yield f"| {name} | {runtime} | {' | '.join(map(str, numbers))} |"
    yield f"| all | | | | {' | '.join(map(str, sums))} |"


def title_of(mistake: Mistake) -> str:
    """The short name of a wrong program, in words."""
    return mistake.name.replace("_", " ")


def row(lesson: Lesson, mistake: Mistake, outcome: check.Outcome | None) -> str:
    """The line of a wrong program, whose first wrong outcome this is; of one that stops: None."""
    if outcome is None:
        finds = f"stopped: {mistake.stops}"
    else:
        results = not outcome.right  # or else its messages are not allowed
        lost = (one for one in lesson.criteria if one.about(outcome.case))
        finds = next(one.words for one in lost if results or one.messages)
    return f"| {title_of(mistake)} | {finds} | {mistake.words.splitlines()[0]} |"


def table(name: str, wrong: Mapping[Program, check.Outcome]) -> Iterator[str]:
    """The lines of a lesson's wrong programs."""
    yield f"### {name}"
    yield ""
    yield "| wrong program | found by | explanation |"
    yield "|---|---|---|"
    lesson = lessons.load(name)
    for runtime in lesson.runtimes:
        for mistake in lesson.mistakes(runtime):
            yield row(lesson, mistake, wrong.get(Program(lesson, runtime, mistake.path)))


def main() -> None:
    """Write the tables."""
    wrong: dict[Program, check.Outcome] = {}
    for runtime in sorted({runtime for _, runtime in RUNTIMES}):
        taught = [lessons.load(name) for name, taught_in in RUNTIMES if taught_in == runtime]
        taught.sort(key=lambda lesson: lesson.most_pes)  # those on as many PEs share a launch
        programs = [
            Program(lesson, runtime, mistake.path)
            for lesson in taught
            for mistake in ending(lesson, runtime)
        ]
        wrong |= first_wrong(programs)
    lines = ["", *overview()]
    for name in lessons.names():
        lines += ["", *table(name, wrong)]
    head = PAGE.read_text().partition(MARKER)[0]
    PAGE.write_text(f"{head}{MARKER}{chr(10).join(lines)}\n")


if __name__ == "__main__":
    main()
