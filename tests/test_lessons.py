"""The lessons: model answers pass, skeletons fail, and each known mistake is recognised."""

from __future__ import annotations

from pathlib import Path

import pytest
import support

import lessons
from lessons.lesson import Lesson, Mistake
from workbench import cli
from workbench.exit_status import VALID, WRONG
from workbench.lesson import check, command, running

ANSWERS = support.ROOT / "teaching" / "answers"
RUNTIMES = [(name, runtime) for name in lessons.names() for runtime in lessons.load(name).runtimes]
LINES = 80  # of a skeleton


def first_wrong(lesson: Lesson, runtime: str, programs: list[Path]) -> list[check.Outcome | None]:
    """The first outcome of each program that is not right; only the last one may not end."""
    wrong: list[check.Outcome | None] = [None] * len(programs)
    for processes in check.PROCESSES:
        cases = lesson.cases(processes, command.PUBLIC_SEED)
        for number, found in enumerate(check.outcomes(lesson, runtime, programs, cases)):
            failed = [outcome for outcome in found if outcome.reason]
            wrong[number] = wrong[number] or (failed[0] if failed else None)
        if wrong[-1] is not None and wrong[-1].stops:
            break
    return wrong


@pytest.mark.parametrize(("name", "runtime"), RUNTIMES)
def test_answers_pass_and_mistakes_differ(name: str, runtime: str) -> None:
    """Catches a lesson that nobody can solve, and a mistake that passes or looks like another."""
    lesson = lessons.load(name)
    ending = [mistake for mistake in lesson.mistakes(runtime) if not mistake.stops]
    answer = ANSWERS / name / f"for_{runtime}.py"
    right, *wrong = first_wrong(lesson, runtime, [answer, *(m.path for m in ending)])
    assert right is None and None not in wrong
    for mistake, outcome in zip(ending, wrong, strict=True):
        assert outcome is not None and not outcome.stops, mistake
        assert sum(outcome.same(other) for other in wrong if other is not None) == 1, mistake


@pytest.mark.parametrize(("name", "runtime"), RUNTIMES)
def test_skeletons_fail(name: str, runtime: str) -> None:
    """Catches a check that cannot fail, and skeletons that are too long."""
    lesson = lessons.load(name)
    assert first_wrong(lesson, runtime, [lesson.folder / f"for_{runtime}.py"]) != [None]
    assert len(lesson.skeleton(runtime).splitlines()) < LINES


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
        (wrong,) = first_wrong(lesson, runtime, [mistake.path])
    assert wrong is not None and wrong.stops == mistake.stops
    assert check.recognised(lesson, runtime, wrong) == mistake


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
    assert (tmp_path / "ring.md").exists() and (tmp_path / "ring.py").exists()
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
        (["start", "ring", "--for", "block"], "--for"),
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
    assert "imports none of mpi4py, charm4py" in refused("lesson", "check", program)
