"""The lessons: right programs pass, and each known mistake is recognised."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from unittest.mock import Mock

import pytest
import support
from lesson_table import PAGE, RUNTIMES, Program, ending, first_wrong, overview, row, title_of

from miniapps import lessons
from miniapps.lessons.checking import check, command, naming, running
from miniapps.lessons.checking.naming import Named
from miniapps.lessons.checking.running import Returned
from miniapps.lessons.checking.submissions import runtime_of
from miniapps.lessons.lesson import PARTS, RIGHT, Case, Traffic, load_program
from miniapps.lessons.measuring import Work
from miniapps.lessons.mistakes import Mistake
from miniapps.workbench import cli
from miniapps.workbench.errors import LOG, explained
from miniapps.workbench.exit_status import VALID, WRONG

LINES = 80  # of a skeleton
FEWEST_RIGHT = 4  # programs of a lesson, by runtime, in as many styles
FEWEST_MISTAKES = 60  # of all lessons

NOT_ALLOWED = {  # mistakes in kernels, and what is said about them
    "no_bounds_check": "thread (0, 1) of block (0, 1) goes beyond an array: [7, 1] of array 7 x 19",
    "in_place": "a race: thread (1, 0) of block (0, 0) reads [1, 1] of array 6 x 18",
    "no_barrier": "a race: thread (1, 0) of block (0, 0) writes [1, 2] of shared array 6 x 18",
    "some_threads_do_not_wait": "waits in syncthreads, and thread (0, 1) of block (0, 1) has ended",
    "edges_not_copied": "is never set",
    "only_own_cells": "is never set",
    "copied_in_each_step": "4 arrays were copied to the GPU and 4 back; 2 and 1 are enough",
    "rows_along_x": "a warp's load touches 4.3 lines of memory on average; 4 are enough",
    "tile_not_used": "2 blocks loaded 848 cells; 216 are enough",
}


@pytest.fixture(autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    """Fork processes, but for Numba, which is asked for its simulator when it is imported."""
    if "numba" not in request.node.name:
        request.getfixturevalue("forked")


# The tests of these come first: while they wait for what has stopped, others use the cores.
STOPPING = {
    (name, runtime): [one for one in lessons.load(name).mistakes(runtime) if one.stops]
    for name, runtime in RUNTIMES
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runtime"), [taught for taught, some in STOPPING.items() if some])
def test_what_stops_a_program_is_recognised(name: str, runtime: str, monkeypatch) -> None:
    """Catches a mistake that is taken for another one, and memory that a failed rank leaves."""
    monkeypatch.setattr(running, "STALL_S", 1.0)
    lesson = lessons.load(name)
    known = {Program(lesson, runtime, one.path): one for one in STOPPING[name, runtime]}
    programs = list(known)
    wrong: dict[Program, check.Outcome] = {}
    # Each stops a launch, which is noticed after a while: two launches at a time.
    halves = filter(None, (programs[::2], programs[1::2]))
    with support.no_shared_memory_left(), ThreadPoolExecutor(2) as pool:
        for some in pool.map(first_wrong, halves):
            wrong |= some
    stops = {one.path: outcome.stops for one, outcome in wrong.items()}
    assert stops == {one.path: mistake.stops for one, mistake in known.items()}
    for one, mistake in known.items():
        named = naming.recognised(lesson, runtime, [wrong[one]])
        assert named == Named(mistake, exact=True), one.path


@pytest.mark.slow
@pytest.mark.parametrize("runtime", sorted({runtime for _, runtime in RUNTIMES}))
def test_answers_pass_and_mistakes_differ(runtime: str, monkeypatch) -> None:
    """Catches a check that wants one style, and a mistake that passes or looks like another.

    Those that do the same in the first case that fails must differ on two processes.
    """
    taught = [lessons.load(name) for name, taught_in in RUNTIMES if taught_in == runtime]
    right, known = {}, {}
    for lesson in sorted(taught, key=lambda lesson: lesson.most_pes):
        paths = lesson.right(runtime)
        assert len(paths) >= FEWEST_RIGHT, lesson.name
        assert {runtime_of(path, lesson) for path in paths} == {runtime}, lesson.name
        paths += lesson.folder.glob(f"{RIGHT}/part_{runtime}.py")  # what mistakes differ from
        right[lesson] = [Program(lesson, runtime, path) for path in paths]
        known[lesson] = [
            Program(lesson, runtime, mistake.path) for mistake in ending(lesson, runtime)
        ]
    wrong = first_wrong([one for lesson in right for one in right[lesson] + known[lesson]])
    assert not {one.path: wrong[one].reason for one in chain(*right.values()) if one in wrong}
    others = re.compile("|".join({"process", "chare"} - {PARTS[runtime]}))
    assert not {one.path: wrong[one].reason for one in wrong if others.search(wrong[one].reason)}
    page = PAGE.read_text()
    for mistakes in known.values():
        found = [wrong[one] for one in mistakes if one in wrong and not wrong[one].stops]
        assert len(found) == len(mistakes), mistakes
        monkeypatch.setattr(running, "STALL_S", 1.0)
        assert_told_apart(mistakes, found)
        for one, outcome in zip(mistakes, found, strict=True):
            assert row(one.lesson, Mistake(one.path), outcome) in page, "make lesson-table"
            assert NOT_ALLOWED.get(one.path.stem.removeprefix("numba_"), "") in outcome.reason


def assert_told_apart(mistakes: list[Program], found: list[check.Outcome]) -> None:
    """Fail unless every two mistakes of a lesson differ, in these outcomes or on two processes."""
    alike = [
        one
        for one, outcome in zip(mistakes, found, strict=True)
        if sum(map(outcome.same, found)) > 1
    ]
    if not alike:
        return
    lesson, runtime, _ = alike[0]
    cases = lesson.cases_for(runtime, 2, command.PUBLIC_SEED)
    later = check.outcomes(lesson, runtime, [one.path for one in alike], cases)
    for (one, first), (other, second) in combinations(zip(alike, later, strict=True), 2):
        same = len(first) == len(second) and all(map(check.Outcome.same, first, second))
        assert not same, f"{one.path} is as {other.path}"


def test_the_table_has_all_lessons_and_mistakes() -> None:
    """Catches a table that was not made again, a small library, and a text of two mistakes."""
    page = PAGE.read_text()
    assert "\n".join(overview()) in page, "make lesson-table"
    every = [(lessons.load(name), one) for name, one in RUNTIMES]
    known = [(lesson, mistake) for lesson, one in every for mistake in lesson.mistakes(one)]
    stems = {mistake.path.stem for _, mistake in known}
    assert {f"numba_{name}" for name in NOT_ALLOWED} <= stems
    stopped = [row(lesson, mistake, None) for lesson, mistake in known if mistake.stops]
    assert [line for line in stopped if line not in page] == []
    assert len({mistake.words for _, mistake in known}) >= FEWEST_MISTAKES
    texts = {(mistake.words, lesson.name) for lesson, mistake in known}
    assert len(texts) == len({words for words, _ in texts}), "two lessons share a text"
    for lesson, runtime in every:
        words = [mistake.words for mistake in lesson.mistakes(runtime)]
        assert all(words) and len(set(words)) == len(words), (lesson.name, runtime)
    titles = re.findall(r"(?m)^\| ((?:mpi4py|charm4py|block|numba) [^|]+) \|", page)
    assert titles == [title_of(mistake) for _, mistake in known]


@pytest.mark.parametrize(("name", "runtime"), RUNTIMES)
def test_skeletons_fail(name: str, runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a check that cannot fail, and skeletons that are too long."""
    lesson = lessons.load(name)
    assert len(lesson.skeleton(runtime).splitlines()) < LINES
    if runtime != lesson.runtimes[0]:  # those are marked in test_lesson_mark.py
        monkeypatch.setattr(check, "PROCESSES", (2,))
        assert first_wrong([Program(lesson, runtime, lesson.folder / f"for_{runtime}.py")])


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
        assert naming.recognised(lesson, "mpi4py", wrong) == Named(mistake, exact=True)


def test_results_of_all_processes_are_needed() -> None:
    """Catches a comparison that ends with the shorter sequence, so that nothing is compared."""
    lesson = lessons.load("ring")
    case = lesson.cases(2, 1)[0]
    for count in (0, 1, 3):
        values = tuple(lesson.expected(case, rank % 2) for rank in range(count))
        sent = tuple(Traffic(sent={1 - rank % 2: 1}) for rank in range(count))
        end = Returned(("an array",) * count, values, sent)
        outcome = check.outcome_of(lesson, case, end, lesson.answer("mpi4py"))
        assert "2 processes were not all returned" in outcome.reason and not outcome.right
    right = Returned(("an array",) * 2, values[:2], (Traffic({1: 1}), Traffic({0: 1})))
    assert not check.outcome_of(lesson, case, right, lesson.answer("mpi4py")).reason


def test_an_error_is_placed_in_the_program(monkeypatch) -> None:
    """Catches a line of a library's source that nobody has, and brackets that stay open."""
    monkeypatch.delenv(LOG, raising=False)
    try:
        exec(compile("1 / 0", "mpi4py/Comm.pyx", "exec"))
    except ZeroDivisionError as error:
        said = check.stopped(Case(2, (3,), 0), explained(error)).reason
    assert re.fullmatch(r"it fails: .*: division by zero \(test_lessons.py:\d+\)", said)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("PE 0 (process 12) died in step 0", "MPI.Finalize, comm.Abort and exit of Charm4Py end"),
        ("PE 1 (process 9) died in step 2; meanwhile ..., as memory ran out", "memory ran out"),
    ],
)
def test_a_process_that_died_is_explained(report: str, said: str) -> None:
    """Catches words of the launch, which a student does not know."""
    reason = check.stopped(Case(2, (3,), 0), report).reason
    assert said in reason and "PE" not in reason


@pytest.mark.slow
def test_a_wrong_result_is_explained(tmp_path, monkeypatch, capsys) -> None:
    """Catches a program that is not compared with the known mistakes."""
    lesson = lessons.load("ring")
    mistake = next(m for m in lesson.mistakes("mpi4py") if m.path.stem == "mpi4py_not_forwarded")
    program = tmp_path / "ring.py"
    program.write_text("from mpi4py import MPI\n" + mistake.text)
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


def test_nothing_is_stored_beside_a_program(tmp_path: Path, monkeypatch) -> None:
    """Catches Python's compiled code in a student's folder, which stays where a check is killed."""
    program = tmp_path / "ring.py"
    program.write_text("answer = 42\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert load_program(program).answer == 42
    assert [*tmp_path.iterdir()] == [program] and not sys.dont_write_bytecode
