"""Marks a submission: runs it in cases of its own, and gives points by criteria."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from miniapps import lessons
from miniapps.lessons.checking import check, naming
from miniapps.lessons.checking.check import Outcome
from miniapps.lessons.checking.running import Ended, Task
from miniapps.lessons.checking.submissions import Submission
from miniapps.lessons.lesson import Case, Criterion, Lesson
from miniapps.parameters import one_line
from miniapps.workbench.errors import explained

LARGEST_MORE = 8  # by how many numbers a student's cases are longer, at most
SEED_BITS = 48


@dataclass(frozen=True)
class Mark:
    """The points for one criterion; ``reason``: why there are none, else empty."""

    criterion: Criterion
    points: int
    reason: str = ""


@dataclass(frozen=True)
class Marked:
    """A submission with its marks.

    ``mistake``: the known mistake that it has, the nearest one, or what is not filled in, in words.
    ``by_hand``: the check itself has failed on it, so that somebody must look at it.
    """

    submission: Submission
    marks: tuple[Mark, ...]
    mistake: str = ""
    by_hand: bool = False

    @property
    def points(self) -> int:
        """All points that were given."""
        return sum(mark.points for mark in self.marks)

    @property
    def most(self) -> int:
        """All points that there are."""
        return sum(mark.criterion.points for mark in self.marks)

    @property
    def reasons(self) -> list[str]:
        """Why points are missing, each reason once."""
        return list(dict.fromkeys(mark.reason for mark in self.marks if mark.reason))


def seed_of(salt: str, submission: Submission) -> int:
    """The seed of a student's cases in a lesson; nobody can tell it without the salt."""
    text = "\0".join((salt, submission.student, submission.lesson))
    return seed_from(text.encode(errors="surrogateescape"))


def seed_from(data: bytes) -> int:
    """A seed that only those can tell who have the data."""
    return int.from_bytes(blake2b(data).digest()) >> (512 - SEED_BITS)


def cases_of(lesson: Lesson, runtime: str, seed: int) -> list[Case]:
    """The cases of one student, for each number of processes."""
    more = 1 + seed % LARGEST_MORE
    return [
        case
        for processes in check.PROCESSES
        for case in lesson.cases_for(runtime, processes, seed, more)
    ]


def mark(submission: Submission, salt: str, run: check.Run) -> Marked:
    """Mark a submission. ``run`` runs its tasks, apart from everything else."""
    lesson = lessons.load(submission.lesson)
    if submission.trouble:
        none = (Mark(criterion, 0, submission.trouble) for criterion in lesson.criteria)
        return Marked(submission, tuple(none))
    outcomes = Outcomes(lesson, submission, run)
    cases = cases_of(lesson, submission.runtime, seed_of(salt, submission))
    while open_cases := outcomes.open_cases(cases):
        outcomes.run(open_cases)
    marks = tuple(
        Mark(criterion, 0 if reason else criterion.points, one_line(reason))
        for criterion in lesson.criteria
        for reason in [outcomes.failure(criterion)]
    )
    return Marked(submission, marks, outcomes.mistake())


class Outcomes:
    """What became of a submission in the cases that were run so far."""

    def __init__(self, lesson: Lesson, submission: Submission, run: check.Run) -> None:
        self.lesson, self.submission, self._run = lesson, submission, run
        self.known: dict[Case, Outcome] = {}
        self.ended = ""

    def open_cases(self, cases: Sequence[Case]) -> list[Case]:
        """The cases that a criterion needs that has not failed yet."""
        needed = [one.about for one in self.lesson.criteria if not self.failure(one)]
        return [
            case
            for case in cases
            if case not in self.known and any(about(case) for about in needed)
        ]

    def run(self, cases: Sequence[Case]) -> None:
        """Run the submission in cases, on each number of processes until it is stopped."""
        program, runtime = self.submission.program, self.submission.runtime
        tasks = [Task.of(self.lesson, runtime, program, case) for case in cases]
        for case, end in zip(cases, self._run(tasks), strict=True):
            if isinstance(end, Ended):
                self.ended = end
            elif end is not None:
                self.known[case] = check.outcome_of(self.lesson, case, end, program)

    def failure(self, criterion: Criterion) -> str:
        """Why a criterion does not hold in a case that was run; empty if it holds so far.

        Nothing holds any more once a submission had to be ended.
        """
        for case, outcome in self.known.items():
            if criterion.about(case) and (criterion.messages or not outcome.right):
                if outcome.reason:
                    return f"{self.where(case)}: {outcome.reason}"
        return self.ended

    def where(self, case: Case) -> str:
        """The case in words."""
        return check.where(self.lesson, self.submission.runtime, case)

    def mistake(self) -> str:
        """What explains the first failure, in words; empty if nothing is known."""
        outcomes = [*self.known.values()]
        if not any(outcome.reason for outcome in outcomes):
            return ""
        one = self.submission
        return naming.explanation(self.lesson, one.runtime, one.program, outcomes).words


def mark_all(
    submissions: Sequence[Submission],
    salt: str,
    run: check.Run,
    done: Callable[[Marked], None],
) -> None:
    """Mark submissions, one after the other; ``done`` gets each as soon as it is marked.

    If the check itself fails on one, it gets no points, and the reason says so.
    """
    for submission in submissions:
        try:
            marked = mark(submission, salt, run)
        except Exception as error:
            what = f"not marked, by a fault of the check: {explained(error)}; mark it by hand"
            marked = replace(mark(submission._replace(trouble=what), salt, run), by_hand=True)
        done(marked)
