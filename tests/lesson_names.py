"""Whether `lesson mark`, with sizes and numbers of a student's own, names the known mistakes.

`python tests/lesson_names.py SALT [LESSON ...]` marks every known mistake as the program of a
student, and prints those that are not named; and every right program, and prints what it loses. It
takes some minutes for all lessons; test_lesson_mark.py does it for a few.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

from lesson_table import RUNTIMES, ending

from miniapps import lessons
from miniapps.lessons.checking import check, running
from miniapps.lessons.checking.mark import cases_of, mark, seed_of
from miniapps.lessons.checking.running import End, Task
from miniapps.lessons.checking.submissions import Submission
from miniapps.lessons.lesson import Case, Lesson
from miniapps.lessons.mistakes import Mistake


def not_named(name: str, runtime: str, salt: str) -> list[tuple[Mistake, str]]:
    """The mistakes of a lesson that end and that marks do not name, and what is said instead."""
    lesson, student = lessons.load(name), Submission("ada", name, runtime=runtime)
    known = ending(lesson, runtime)
    cases = cases_of(lesson, runtime, seed_of(salt, student))
    run = looked_up(lesson, runtime, [mistake.path for mistake in known], cases)
    with mock.patch.object(check, "outcomes", partial(check.outcomes, run=run)):
        return [pair for mistake in known if (pair := said(mistake, student, salt, run))[1]]


def losses(name: str, runtime: str, salt: str) -> list[tuple[Path, str]]:
    """The right programs of a lesson that do not get all points, and why."""
    lesson, student = lessons.load(name), Submission("ada", name, runtime=runtime)
    right = lesson.right(runtime)
    cases = cases_of(lesson, runtime, seed_of(salt, student))
    run = looked_up(lesson, runtime, right, cases)
    marked = [mark(student._replace(program=program), salt, run) for program in right]
    pairs = zip(right, marked, strict=True)
    return [(program, one.reasons[0]) for program, one in pairs if one.points < one.most]


def said(
    mistake: Mistake, student: Submission, salt: str, run: check.Run = running.run
) -> tuple[Mistake, str]:
    """A mistake, and what marks say instead of its name; empty if they name it."""
    marked = mark(student._replace(program=mistake.path), salt, run)
    if marked.points == marked.most:
        return mistake, "it passes"
    named = marked.mistake.endswith(mistake.words)  # what is not filled in may come before it
    return mistake, "" if named else marked.mistake or marked.reasons[0]


def looked_up(
    lesson: Lesson, runtime: str, programs: Sequence[Path], cases: Sequence[Case]
) -> Callable[[Sequence[Task]], list[End]]:
    """What `running.run` finds; all programs have run in all cases before, in few launches."""
    return at_once(
        [Task.of(lesson, runtime, program, case) for case in cases for program in programs]
    )


def at_once(tasks: Sequence[Task]) -> Callable[[Sequence[Task]], list[End]]:
    """What `running.run` finds; tasks that follow each other on as many PEs have run together."""
    ends = {(task.program, task.case): end for task, end in run_all(tasks)}

    def run(asked: Sequence[Task]) -> list[End]:
        """As `running.run`: nothing of a launch is run after a failure."""
        found: list[End] = []
        for together in running.launches(asked):
            these = [ends[task.program, task.case] for task in together]
            failed = next((at for at, end in enumerate(these) if isinstance(end, str)), len(these))
            found += [*these[: failed + 1], *[None] * len(these[failed + 1 :])]
        return found

    return run


def run_all(tasks: Sequence[Task]) -> Iterator[tuple[Task, End]]:
    """Run tasks, also those after one that fails."""
    for together in running.launches(tasks):
        left = together
        while left:
            ends = running.run_together(left)
            yield from zip(left, ends, strict=False)
            left = left[len(ends) :]


def main() -> None:
    """Print the mistakes that are not named."""
    salt, *names = sys.argv[1:]
    running.STALL_S = 2.0
    for name, runtime in RUNTIMES:
        if names and name not in names:
            continue
        student = Submission("ada", name, runtime=runtime)
        stopped = [mistake for mistake in lessons.load(name).mistakes(runtime) if mistake.stops]
        found = not_named(name, runtime, salt)
        found += [pair for one in stopped if (pair := said(one, student, salt))[1]]
        print(f"{name} {runtime}: {len(found)} not named", flush=True)
        for mistake, instead in found:
            print(f"  {mistake.path.stem}: {instead.splitlines()[0]}", flush=True)
        for program, why in losses(name, runtime, salt):
            print(f"  {program} is right, and loses points: {why}", flush=True)


if __name__ == "__main__":
    main()
