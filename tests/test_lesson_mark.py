"""`miniapps lesson mark`: points, isolation, and the forms of marks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import support
from lesson_names import at_once, not_named

from miniapps import lessons
from miniapps.lessons.balancing import TOGETHER, telling
from miniapps.lessons.checking import check, running
from miniapps.lessons.checking.mark import LARGEST_MORE, cases_of, mark, seed_of
from miniapps.lessons.checking.naming import UNFILLED
from miniapps.lessons.checking.running import Task
from miniapps.lessons.checking.submissions import Submission, found_in
from miniapps.lessons.mistakes import Mistake
from miniapps.lessons.sum import UNIT
from miniapps.workbench import cli
from miniapps.workbench.exit_status import VALID

RUNTIME = "from mpi4py import MPI\n"


def hand_in(folder: Path, student: str, text: str, lesson: str = "halo") -> None:
    """Put a student's program into a folder of submissions."""
    (folder / student).mkdir(parents=True, exist_ok=True)
    (folder / student / f"{lesson}.py").write_text(text)


def answer(lesson: str = "halo", runtime: str = "mpi4py") -> str:
    """The model answer, which imports its runtime."""
    text = lessons.load(lesson).answer(runtime).read_text()
    return text if runtime in text.split('"""')[2] else RUNTIME + text


def mistake(lesson: str, name: str) -> str:
    """A known mistake."""
    return Mistake(lessons.load(lesson).folder / "mistakes" / f"{name}.diff").text


@pytest.mark.slow
def test_marks_of_a_class(tmp_path, capsys, monkeypatch) -> None:
    """Catches isolation in which no answer runs, points for nothing, and marks of another one."""
    monkeypatch.setattr(check, "PROCESSES", (2,))
    hand_in(tmp_path, "ada", answer())
    hand_in(tmp_path, "bob", answer("sum", "charm4py"), "sum")
    hand_in(tmp_path, "cy", RUNTIME + mistake("halo", "mpi4py_up_and_down"))
    assert cli.main(["lesson", "mark", str(tmp_path), "--salt", "salt", "--not-isolated"]) == VALID
    said = capsys.readouterr()
    rows = [line.split()[:3] for line in said.out.splitlines() if line[:1].isalpha()]
    assert ["ada", "halo", "10"] in rows and ["bob", "sum", "10"] in rows, said.out
    assert ["cy", "halo", "0"] in rows
    assert "isolated" in said.err


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("runtime", ["mpi4py", "charm4py", "numba"])
def test_skeletons_get_no_points(runtime: str, monkeypatch) -> None:
    """Catches points for a file as it was handed out, and points that add up to another total."""
    monkeypatch.setattr(check, "PROCESSES", (1,) if runtime == "numba" else (2, 3))
    taught = [
        lesson for lesson in map(lessons.load, lessons.names()) if lesson.runtimes[0] == runtime
    ]
    handed_out = [
        (lesson, Submission("ada", lesson.name, lesson.folder / f"for_{runtime}.py", runtime))
        for lesson in taught
    ]
    tasks = [
        Task.of(lesson, runtime, one.program, case)
        for processes in check.PROCESSES
        for lesson, one in handed_out
        for case in cases_of(lesson, runtime, seed_of("salt", one))
        if case.processes == processes
    ]
    run = at_once(tasks)
    for lesson, one in handed_out:
        marked = mark(one, "salt", run)
        assert (marked.points, marked.most) == (0, 10), lesson.name
        assert marked.mistake.startswith(UNFILLED), lesson.name


@pytest.mark.long
@pytest.mark.usefixtures("forked")
def test_points_for_what_holds(tmp_path, monkeypatch) -> None:
    """Catches all points or none for a program that hangs in some cases, and no explanation."""
    monkeypatch.setattr(check, "PROCESSES", (2,))
    monkeypatch.setattr(running, "STALL_S", 1.0)
    hand_in(tmp_path, "ada", RUNTIME + mistake("ring", "mpi4py_send_first"), "ring")
    program = tmp_path / "ada" / "ring.py"
    marked = mark(Submission("ada", "ring", program, "mpi4py"), "salt", running.run)
    assert [mark.points for mark in marked.marks] == [3, 3, 0, 0]
    assert "waits in Send" in marked.marks[2].reason and "waits for the next" in marked.mistake


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("name", "runtime"), [("sum", "mpi4py"), ("ring", "charm4py")])
def test_marks_name_known_mistakes(name: str, runtime: str) -> None:
    """Catches marks that cannot say what they gave no points for; lesson_names.py does all."""
    assert not_named(name, runtime, "salt") == []


@pytest.mark.parametrize("name", ["halo", "overlap"])
def test_all_sizes_show_blocks_of_one_row_or_column(name: str) -> None:
    """Catches sizes of a student's own that do not show a mistake, so that it gets all points."""
    lesson = lessons.load(name)
    for seed in range(LARGEST_MORE):
        shapes = [
            tuple(n - 2 for n in lesson.arguments(case, rank)[0].shape)
            for case in cases_of(lesson, "mpi4py", seed)
            for rank in range(case.processes)
        ]
        assert any(n == 1 < m for n, m in shapes) and any(m == 1 < n for n, m in shapes)
        assert len({n for n, _ in shapes}) > 3  # blocks are uneven


def test_all_numbers_of_the_lesson_sum_tell() -> None:
    """Catches numbers of a student's own that have the right sum also if they are cut off."""
    lesson = lessons.load("sum")
    for seed in range(40):
        case = lesson.cases(1, seed)[1]
        numbers, right = lesson.arguments(case, 0)[0] / UNIT, lesson.expected(case, 0)
        assert np.trunc(numbers).astype(np.int64).sum() * UNIT != right, seed
        assert np.rint(numbers).sum() * UNIT != right, seed


@pytest.mark.long
def test_all_loads_of_the_lesson_balancing_tell() -> None:
    """Catches loads of a student's own with which needless moves are not seen."""
    lesson = lessons.load("balancing")
    for seed in range(40):
        cases = [one for one in cases_of(lesson, "mpi4py", seed) if one.processes == 2]
        assert any(telling(lesson.cells(case)) for case in cases if case.size[2] == TOGETHER)


def test_cases_differ_by_student_and_salt() -> None:
    """Catches answers that can be copied from another student, or from another year."""
    seeds = {
        seed_of(salt, Submission(student, lesson))
        for salt in ("a", "b")
        for student in ("ada", "bob")
        for lesson in ("ring", "sum")
    }
    assert len(seeds) == 8
    sizes = {cases_of(lessons.load("halo"), "mpi4py", seed)[0].size for seed in range(8)}
    assert len(sizes) == 8


def test_what_was_ended_loses_all_that_is_open() -> None:
    """Catches a submission that is started again and again although it does harm."""
    runs = []

    def ended(tasks):
        runs.append(len(tasks))
        return [running.Ended("it wrote too much"), *[None] * (len(tasks) - 1)]

    marked = mark(Submission("ada", "ring", Path("ring.py"), "mpi4py"), "salt", ended)
    assert runs == [8]
    assert (marked.points, marked.reasons) == (0, ["it wrote too much"])


def test_lessons_own_programs_are_allowed(tmp_path) -> None:
    """Catches a rule that refuses an answer or a skeleton."""
    for name in lessons.names():
        lesson = lessons.load(name)
        for runtime in lesson.runtimes:
            hand_in(tmp_path / name, f"answer-{runtime}", answer(name, runtime), name)
            hand_in(tmp_path / name, f"empty-{runtime}", lesson.skeleton(runtime), name)
        assert [one.trouble for one in found_in(tmp_path / name, name) if one.trouble] == []


def test_where_submissions_are_found(tmp_path) -> None:
    """Catches layouts of folders that are not read, and files that must not be."""
    hand_in(tmp_path, "ada", RUNTIME)
    hand_in(tmp_path, "ada", RUNTIME, "ring")
    hand_in(tmp_path / "bob", "week2", RUNTIME)  # as nbgrader
    hand_in(tmp_path, "cy", RUNTIME)
    hand_in(tmp_path / "cy", "old", RUNTIME)
    (tmp_path / "dan").mkdir()
    (tmp_path / "dan" / "halo.py").symlink_to(tmp_path / "ada" / "halo.py")
    hand_in(tmp_path, "eve", f"{RUNTIME}#{'x' * (1 << 20)}")
    (tmp_path / "fay.py").write_text(RUNTIME)
    (tmp_path / "gil").mkdir()
    found = {(one.student, one.lesson): one.trouble for one in found_in(tmp_path, None)}
    assert found[("ada", "halo")] == found[("ada", "ring")] == found[("bob", "halo")] == ""
    assert found[("cy", "halo")] == "2 files halo.py"
    assert found[("dan", "halo")] == "is no ordinary file"
    assert "is longer than" in found[("eve", "halo")]
    assert len(found) == 6
    one_lesson = {one.student: one.trouble for one in found_in(tmp_path, "halo")}
    assert one_lesson["fay"] == "" and one_lesson["gil"] == "no file halo.py"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "--salt", "s"], "No such file"),
        (["empty", "--salt", "s"], "holds no submissions"),
        (["full", "--salt", "s", "--lesson", "hallo"], "one of ring, halo"),
        (["full", "--salt", ""], "a secret"),
        (["full"], "--salt"),
        (["full", "--salt", "s", "--format", "xml"], "--format"),
        ([str(support.ROOT), "--salt", "s", "--lesson", "halo"], "must not hold this program"),
        (["twice", "--salt", "s", "--lesson", "halo"], "holds ada and ada.py"),
    ],
)
def test_bad_input_is_one_line(words, said, tmp_path, monkeypatch, refused) -> None:
    """Catches a traceback, and marks of something else than was meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    hand_in(tmp_path / "full", "ada", RUNTIME)
    hand_in(tmp_path / "twice", "ada", RUNTIME)
    (tmp_path / "twice" / "ada.py").write_text(RUNTIME)
    assert said in refused("lesson", "mark", *words)
