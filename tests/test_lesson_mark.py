"""`miniapps lesson mark`: points, isolation, and the forms of marks."""

from __future__ import annotations

from pathlib import Path

import pytest
import support

import lessons
from workbench import cli
from workbench.exit_status import VALID
from workbench.lesson import check, running
from workbench.lesson.mark import mark
from workbench.lesson.submissions import Submission

ANSWERS = support.ROOT / "teaching" / "answers"
RUNTIME = "from mpi4py import MPI\n"


def hand_in(folder: Path, student: str, text: str, lesson: str = "halo") -> None:
    """Put a student's program into a folder of submissions."""
    (folder / student).mkdir(parents=True, exist_ok=True)
    (folder / student / f"{lesson}.py").write_text(text)


def answer(lesson: str = "halo", runtime: str = "mpi4py") -> str:
    """The model answer, which imports its runtime."""
    text = (ANSWERS / lesson / f"for_{runtime}.py").read_text()
    return text if runtime in text.split('"""')[2] else RUNTIME + text


def mistake(lesson: str, name: str) -> str:
    """A known mistake."""
    return (lessons.load(lesson).folder / "mistakes" / f"{name}.py").read_text()


def test_marks_of_a_class(tmp_path, capsys) -> None:
    """Catches isolation in which no answer runs, points for nothing, and marks of another one."""
    hand_in(tmp_path, "ada", answer())
    hand_in(tmp_path, "bob", answer("sum", "charm4py"), "sum")
    hand_in(tmp_path, "cy", RUNTIME + mistake("halo", "mpi4py_up_and_down"))
    assert cli.main(["lesson", "mark", str(tmp_path), "--salt", "salt"]) == VALID
    said = capsys.readouterr()
    rows = [line.split()[:3] for line in said.out.splitlines() if line[:1].isalpha()]
    assert ["ada", "halo", "10"] in rows and ["bob", "sum", "10"] in rows
    assert ["cy", "halo", "0"] in rows
    assert "isolated" in said.err


@pytest.mark.parametrize("name", lessons.names())
def test_skeletons_get_no_points(name: str, monkeypatch) -> None:
    """Catches points for a file as it was handed out, and points that add up to another total."""
    monkeypatch.setattr(check, "PROCESSES", (2, 3))
    skeleton = lessons.load(name).folder / "for_mpi4py.py"
    marked = mark(Submission("ada", name, skeleton, "mpi4py"), "salt", running.run)
    assert (marked.points, marked.most) == (0, 10)
