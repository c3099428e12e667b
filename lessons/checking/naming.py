"""Names what is wrong with a program: a known mistake, the nearest one, or what is missing yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from miniapps.lessons.checking import check
from miniapps.lessons.checking.check import Outcome
from miniapps.lessons.checking.unfilled import unfilled
from miniapps.lessons.lesson import Lesson
from miniapps.lessons.mistakes import Mistake, source

UNFILLED = "parts of the skeleton are not filled in yet"
NEAREST = "nearest known mistake"
NOT_ALL = (
    "Your program fails as with this mistake in the first case that fails, but does not do the "
    "same in all cases: its mistake may be another one."
)
SEVERAL = "One of these mistakes; in all cases that were tried they do the same:"
More = Callable[[], Sequence[Outcome]]
Same = Callable[[Outcome, Outcome], bool]


class Named(NamedTuple):
    """A known mistake. ``exact``: it alone does all that the program does; else it is the nearest.

    The nearest one does the same, or has the same symptom, in the first case in which the program
    is wrong. ``others``: more mistakes that do all that the program does.
    """

    mistake: Mistake
    exact: bool
    others: tuple[Mistake, ...] = ()

    @property
    def words(self) -> str:
        """What to tell the student."""
        known = self.mistake.words
        if self.others:
            return "\n\n".join([SEVERAL, *(one.words for one in (self.mistake, *self.others))])
        return known if self.exact else f"{NEAREST}: {known}\n\n{NOT_ALL}"


class Explanation(NamedTuple):
    """Why a program is wrong, in words; empty if unknown. ``sure``: nothing else is the reason."""

    words: str
    sure: bool


def explanation(
    lesson: Lesson,
    runtime: str,
    program: Path,
    known: Sequence[Outcome],
    more: More = tuple,
) -> Explanation:
    """Why a program is wrong, from its outcomes, of which one is not right.

    ``more()`` runs it in further cases, before one mistake is named as the only one: on one process
    several may do the same.
    """
    skeleton = lesson.skeleton(runtime)
    left = unfilled(source(program), skeleton)
    missing = f"{UNFILLED}: {', '.join(left.parts)}\n\n" if left.parts else ""
    if left.all:
        every = lesson.mistakes(runtime)
        same = (one.words for one in every if unfilled(one.text.encode(), skeleton).all)
        return Explanation((missing + next(same, "")).strip(), True)
    found = recognised(lesson, runtime, known)
    if found and (found.exact or found.others) and (further := more()):
        found = recognised(lesson, runtime, [*known, *further])
    if found and (found.exact or found.others):
        return Explanation(found.words, True)
    return Explanation((missing + (found.words if found else "")).strip(), False)


def recognised(lesson: Lesson, runtime: str, known: Sequence[Outcome]) -> Named | None:
    """The known mistake that explains a program's outcomes, or the nearest one; None if none is.

    A mistake explains them if it alone does the same in every case in which the program ended, and
    is stopped by the same, with the same symptoms, in the first case in which it was stopped. Of
    several that are near, it is one that does so in the most cases, and sends to the same
    processes. A program without a wrong outcome has no mistake.
    """
    wrong = next((outcome for outcome in known if outcome.reason), None)
    if wrong is None:
        return None
    every = lesson.mistakes(runtime)
    alike = [mistake for mistake in every if mistake.stops == wrong.stops]
    seen = first_outcomes(lesson, runtime, alike, wrong)
    groups = grouped(known, wrong)
    same = [mistake for mistake, outcome in seen if wrong.same(outcome)]
    if same:
        left, all_agree = narrowed(lesson, runtime, same, groups, Outcome.same)
        more = tuple(left[1:]) if all_agree else ()
        return Named(left[0], all_agree and not more, more)
    others = [one for one in every if one not in alike and kind(one.stops) == kind(wrong.stops)]
    seen += first_outcomes(lesson, runtime, others, wrong)
    resembling = [pair for pair in seen if wrong.resembles(pair[1])]
    resembling.sort(key=lambda pair: pair[1].receivers != wrong.receivers)
    near = [mistake for mistake, _ in resembling]
    if not near:
        return None
    left, _ = narrowed(lesson, runtime, near, groups, Outcome.resembles)
    return Named(left[0], False)


def kind(stops: str) -> str:
    """What stops a program, without the numbers of messages, which depend on those of chares."""
    return check.NUMBER.sub("#", stops).replace("#, ", "")


def first_outcomes(
    lesson: Lesson, runtime: str, mistakes: Sequence[Mistake], wrong: Outcome
) -> list[tuple[Mistake, Outcome]]:
    """What becomes of known mistakes in the first case in which a program is wrong."""
    paths = [mistake.path for mistake in mistakes]
    found = check.outcomes(lesson, runtime, paths, [wrong.case])
    return [(mistake, those[0]) for mistake, those in zip(mistakes, found, strict=True)]


def grouped(known: Sequence[Outcome], wrong: Outcome) -> list[list[Outcome]]:
    """The other outcomes by number of processes, and at last the first case that was stopped."""
    ended = [outcome for outcome in known if not outcome.stops and outcome is not wrong]
    stopped = [outcome for outcome in known if outcome.stops and outcome is not wrong]
    counts = sorted({outcome.case.processes for outcome in ended})
    groups = [[one for one in ended if one.case.processes == count] for count in counts]
    return groups + ([stopped[:1]] if stopped and not wrong.stops else [])


def narrowed(
    lesson: Lesson,
    runtime: str,
    left: list[Mistake],
    groups: Sequence[Sequence[Outcome]],
    same: Same,
) -> tuple[list[Mistake], bool]:
    """The mistakes that do the same for the most groups of cases, and whether in all of them."""
    for seen in groups:
        cases = [outcome.case for outcome in seen]
        found = check.outcomes(lesson, runtime, [mistake.path for mistake in left], cases)
        still = [
            mistake
            for mistake, those in zip(left, found, strict=True)
            if len(those) == len(seen) and all(map(same, seen, those))
        ]
        if not still:
            return left, False
        left = still
    return left, True
