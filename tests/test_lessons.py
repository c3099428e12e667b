"""The lessons: right programs pass, and each known mistake is recognised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest
import support

import lessons
from lessons.lesson import Case, Lesson, Mistake, Traffic
from lessons.measuring import Work
from workbench import cli
from workbench.errors import LOG, explained
from workbench.exit_status import VALID, WRONG
from workbench.lesson import check, command, running
from workbench.lesson.running import Returned, Task

ANSWERS = support.ROOT / "teaching" / "answers"
STYLES = support.ROOT / "teaching" / "other_styles"  # right programs of others
RUNTIMES = [(name, runtime) for name in lessons.names() for runtime in lessons.load(name).runtimes]
LINES = 80  # of a skeleton
FEWEST_STYLES = 3  # of a lesson, by runtime


class Program(NamedTuple):
    """A program for a lesson."""

    lesson: Lesson
    runtime: str
    path: Path


def first_wrong(programs: Sequence[Program]) -> dict[Program, check.Outcome]:
    """The first outcome that is not right of each program that has one; only the last may not end.

    The programs are for one runtime: all share a launch on each number of processes.
    """
    wrong: dict[Program, check.Outcome] = {}
    for processes in check.PROCESSES:
        tried = [
            (one, case)
            for one in programs
            if one not in wrong
            for case in one.lesson.cases_for(one.runtime, processes, command.PUBLIC_SEED)
        ]
        ends = running.run([Task.of(*one, case) for one, case in tried])
        for (one, case), end in zip(tried, ends, strict=True):
            if end is not None and one not in wrong:
                outcome = check.outcome_of(one.lesson, case, end, one.path)
                wrong |= {one: outcome} if outcome.reason else {}
    return wrong


@pytest.mark.parametrize("runtime", sorted({runtime for _, runtime in RUNTIMES}))
def test_answers_pass_and_mistakes_differ(runtime: str) -> None:
    """Catches a check that wants one style, and a mistake that passes or looks like another."""
    taught = [lessons.load(name) for name, taught_in in RUNTIMES if taught_in == runtime]
    right, ending = {}, {}
    for lesson in sorted(taught, key=lambda lesson: lesson.most_pes):
        styles = sorted((STYLES / lesson.name).glob(f"{runtime}_*.py"))
        assert len(styles) >= FEWEST_STYLES, lesson.name
        paths = [ANSWERS / lesson.name / f"for_{runtime}.py", *styles]
        right[lesson] = [Program(lesson, runtime, path) for path in paths]
        known = [mistake.path for mistake in lesson.mistakes(runtime) if not mistake.stops]
        ending[lesson] = [Program(lesson, runtime, path) for path in known]
    wrong = first_wrong([one for lesson in right for one in right[lesson] + ending[lesson]])
    assert not {one.path: wrong[one].reason for one in chain(*right.values()) if one in wrong}
    for mistakes in ending.values():
        found = [wrong[one] for one in mistakes if one in wrong and not wrong[one].stops]
        assert len(found) == len(mistakes), mistakes
        for one, outcome in zip(mistakes, found, strict=True):
            assert sum(outcome.same(other) for other in found) == 1, one.path


@pytest.mark.parametrize(("name", "runtime"), RUNTIMES)
def test_skeletons_fail(name: str, runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a check that cannot fail, and skeletons that are too long."""
    lesson = lessons.load(name)
    assert len(lesson.skeleton(runtime).splitlines()) < LINES
    if runtime != lesson.runtimes[0]:  # those are marked in test_lesson_mark.py
        monkeypatch.setattr(check, "PROCESSES", (2,))
        assert first_wrong([Program(lesson, runtime, lesson.folder / f"for_{runtime}.py")])


STOPPING = [
    (name, runtime, mistake)
    for name, runtime in RUNTIMES
    for mistake in lessons.load(name).mistakes(runtime)
    if mistake.stops
]


@pytest.mark.parametrize(
    ("name", "runtime", "mistake"), STOPPING, ids=[mistake.path.stem for *_, mistake in STOPPING]
)
def test_what_stops_a_program_is_recognised(
    name: str, runtime: str, mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a mistake that is taken for another one, and memory that a failed rank leaves."""
    monkeypatch.setattr(running, "STALL_S", 1.5)
    lesson = lessons.load(name)
    with support.no_shared_memory_left():
        (wrong,) = first_wrong([Program(lesson, runtime, mistake.path)]).values()
    assert wrong.stops == mistake.stops
    assert check.recognised(lesson, runtime, [wrong]) == mistake


def test_of_two_mistakes_the_one_that_agrees_more_often_is_named(monkeypatch) -> None:
    """Catches a program that looks like two mistakes in one case and is taken for the first."""
    lesson = lessons.load("sum")
    both = [mistake for mistake in lesson.mistakes("mpi4py") if not mistake.stops][:2]
    one, two = lesson.cases(2, command.PUBLIC_SEED)[:2]

    def outcomes(lesson, runtime, programs, cases):
        """In the first case all programs give the same bits, in others each its own."""
        bits = {
            (program, case): b"same" if case is one else str(program).encode()
            for program in programs
            for case in cases
        }
        return [
            [check.Outcome(case, bits[program, case], reason="wrong") for case in cases]
            for program in programs
        ]

    monkeypatch.setattr(check, "outcomes", outcomes)
    for mistake in both:
        (known,) = outcomes(lesson, "mpi4py", [mistake.path], [one, two])
        wrong = [replace(outcome, reason="wrong") for outcome in known]
        assert check.recognised(lesson, "mpi4py", wrong) == mistake


def test_results_of_all_processes_are_needed() -> None:
    """Catches a comparison that ends with the shorter sequence, so that nothing is compared."""
    lesson = lessons.load("ring")
    case = lesson.cases(2, 1)[0]
    for count in (0, 1, 3):
        values = tuple(lesson.expected(case, rank % 2) for rank in range(count))
        sent = tuple(Traffic(sent={1 - rank % 2: 1}) for rank in range(count))
        end = Returned(("an array",) * count, values, sent)
        outcome = check.outcome_of(lesson, case, end, ANSWERS / "ring" / "for_mpi4py.py")
        assert "2 processes were not all returned" in outcome.reason and not outcome.right
    right = Returned(("an array",) * 2, values[:2], (Traffic({1: 1}), Traffic({0: 1})))
    assert not check.outcome_of(lesson, case, right, ANSWERS / "ring" / "for_mpi4py.py").reason


def test_an_error_is_placed_in_the_program(monkeypatch) -> None:
    """Catches a line of a library's source that nobody has, and brackets that stay open."""
    monkeypatch.delenv(LOG, raising=False)
    try:
        exec(compile("1 / 0", "mpi4py/Comm.pyx", "exec"))
    except ZeroDivisionError as error:
        said = check.stopped(Case(2, (3,), 0), explained(error)).reason
    assert re.fullmatch(r"it fails: .*: division by zero \(test_lessons.py:\d+\)", said)


def test_a_wrong_result_is_explained(tmp_path, monkeypatch, capsys) -> None:
    """Catches a program that is not compared with the known mistakes."""
    lesson = lessons.load("ring")
    mistake = next(m for m in lesson.mistakes("mpi4py") if m.path.stem == "mpi4py_not_forwarded")
    program = tmp_path / "ring.py"
    program.write_text("from mpi4py import MPI\n" + mistake.path.read_text())
    assert cli.main(["lesson", "check", str(program)]) == WRONG
    said = capsys.readouterr().out
    assert "FAIL  3 processes" in said and mistake.words in said


def test_what_a_student_does(tmp_path, monkeypatch, capsys) -> None:
    """Catches commands of a lesson that do not fit each other."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lesson", "list"]) == VALID and "ring" in capsys.readouterr().out
    assert cli.main(["lesson", "start", "ring", "--for", "mpi4py"]) == VALID
    assert {path.name for path in tmp_path.iterdir()} == {"ring.md", "ring.html", "ring.py"}
    capsys.readouterr()
    assert cli.main(["lesson", "check", "ring.py"]) == WRONG
    said = capsys.readouterr().out
    assert "FAIL  2 processes" in said and "hint" in said
    hints = [cli.main(["lesson", "hint", "ring", str(number)]) for number in (1, 2, 3)]
    assert hints == [VALID] * 3 and "Sendrecv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["start", "nothing"], "one of"),
        (["start", "ring", "--for", "block"], "this lesson is for mpi4py and charm4py"),
        (["hint", "ring", "4"], "1 to 3"),
        (["check", "ring.py"], "No such file"),
    ],
)
def test_bad_input_is_one_line(words, text, tmp_path, monkeypatch, refused) -> None:
    """Catches a traceback."""
    monkeypatch.chdir(tmp_path)
    assert text in refused("lesson", *words)


def test_a_program_for_no_runtime_is_refused(tmp_path, refused) -> None:
    """Catches a program that computes the answer by itself."""
    program = tmp_path / "ring.py"
    program.write_text("import numpy\ndef collect(comm, mine): return numpy.zeros(3)\n")
    assert "imports none of mpi4py, charm4py, miniapps" in refused("lesson", "check", program)


def test_work_is_not_done_more_often_than_needed() -> None:
    """Catches a program that runs out of durations, and does not learn why."""
    work = Work({1: [(1, 2)]})
    work(Mock(), 1)
    for count in (1, 2):
        with pytest.raises(RuntimeError, match=rf"work\(comm, {count}\) is called once more"):
            work(Mock(), count)
