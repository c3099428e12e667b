"""The forms of marks, each read by a parser; what stays if marking is interrupted."""

from __future__ import annotations

import csv
import errno
import json
import os
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pandas
import pytest
import support

from miniapps import lessons
from miniapps.lessons.checking import apart, mark, marking, marks
from miniapps.lessons.checking.mark import Mark, Marked
from miniapps.lessons.checking.submissions import Submission
from miniapps.lessons.lesson import Criterion
from miniapps.workbench import cli
from miniapps.workbench.exit_status import FAILED, INTERRUPTED, VALID
from miniapps.workbench.table import USUAL_WIDTH

FIRST, SECOND = Criterion(3, "right"), Criterion(7, "few <messages> & none, in vain")
NASTY = 'it fails: "<a>" & b,\x00\x1b[31m ]]> \ud800 ; ü'
MARKED = (
    Marked(Submission("ada", "halo", runtime="mpi4py"), (Mark(FIRST, 3), Mark(SECOND, 7))),
    Marked(Submission("ada", "ring", runtime="mpi4py"), (Mark(FIRST, 3), Mark(SECOND, 0, NASTY))),
    Marked(
        Submission("=1+1, bob", "halo", trouble="=cmd"),
        (Mark(FIRST, 0, "=cmd"), Mark(SECOND, 0, "=cmd")),
        "You did\nthis.",
    ),
)
PER_SUITE = {  # what JUnit's schema asks of each element
    "testsuite": "package id name timestamp hostname tests failures errors time".split(),
    "testcase": ["name", "classname", "time"],
    "failure": ["type", "message"],
    "property": ["name", "value"],
}
TESTED = {"score", "max_score", "status", "name", "output", "output_format"}


def test_the_table_fits(capsys) -> None:
    """Catches rows that are too wide, and marks that are not in it."""
    said = marks.table(MARKED).splitlines()
    assert max(map(len, said)) <= USUAL_WIDTH
    assert any(line.split()[:3] == ["ada", "ring", "3"] for line in said)
    assert "\x1b" not in "".join(said)


def test_csv_is_read_as_it_was() -> None:
    """Catches cells that are cut at a comma, and cells that a spreadsheet would compute."""
    rows = list(csv.DictReader(marks.as_csv(MARKED).splitlines()))
    assert [int(row["points"]) for row in rows] == [3, 7, 3, 0, 0, 0]
    assert [int(row["of"]) for row in rows] == [3, 7] * 3
    assert rows[3]["criterion"] == SECOND.words and rows[3]["missing_because"].endswith("; ü")
    assert rows[4]["student"] == "'=1+1, bob" and rows[4]["missing_because"] == "'=cmd"


def test_junit_has_what_its_schema_asks() -> None:
    """Catches XML that is not well-formed, elements out of order, and counts that are not right."""
    root = ElementTree.fromstring(marks.junit(MARKED).encode())
    assert root.tag == "testsuites" and len(root) == 3
    for number, suite in enumerate(root):
        cases = suite.findall("testcase")
        order = [child.tag for child in suite]
        assert order == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
        assert (suite.get("id"), suite.get("tests")) == (str(number), str(len(cases)))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
        for element in suite.iter():
            assert sorted(element.attrib) == sorted(PER_SUITE.get(element.tag, [])), element.tag
    assert [suite.get("failures") for suite in root] == ["0", "1", "2"]
    failure = root[1].find("testcase/failure")
    assert failure is not None and failure.get("message", "").startswith('it fails: "<a>" & b,')


def test_gradescope_reads_a_file_for_each_student() -> None:
    """Catches fields that Gradescope does not know, and scores that do not add up."""
    files = {name: json.loads(text) for name, text in marks.gradescope(MARKED).items()}
    assert list(files) == ["ada/results.json", "=1+1, bob/results.json"]
    for results in files.values():
        assert results["score"] == sum(test["score"] for test in results["tests"])
        for test in results["tests"]:
            assert set(test) == TESTED and 0 <= test["score"] <= test["max_score"]
            assert test["status"] == ("passed" if test["score"] else "failed")
    assert files["ada/results.json"]["score"] == 13
    assert [test["max_score"] for test in files["ada/results.json"]["tests"]] == [3, 7, 3, 7]
    assert "You did" in files["=1+1, bob/results.json"]["output"]


def test_nbgrader_grades_and_feedback(tmp_path) -> None:
    """Catches columns that are not those of nbgrader's export, and pages that are no HTML."""
    marks.write("nbgrader", MARKED, tmp_path / "out")
    table = pandas.read_csv(tmp_path / "out" / "grades.csv")
    assert list(table.columns) == marks.NBGRADER
    assert list(table["score"]) == [10, 3, 0] and set(table["max_score"]) == {10}
    assert list(table["student_id"]) == ["ada", "ada", "=1+1, bob"]

    class Page(HTMLParser):
        words = ""

        def handle_data(self, data: str) -> None:
            self.words += data

    page = Page()
    page.feed((tmp_path / "out/feedback/ada/ring/ring.html").read_text())
    assert "few <messages> & none, in vain (0 of 7)" in page.words and '"<a>"' in page.words


@pytest.fixture
def a_class(tmp_path, monkeypatch) -> Path:
    """Two submissions that cannot be run, in a folder; nothing is launched for them."""
    monkeypatch.setattr(apart, "obstacle", lambda hidden: "")
    for student in ("ada", "bob"):
        (tmp_path / "class" / student).mkdir(parents=True)
        (tmp_path / "class" / student / "halo.py").write_text("print('right, to the last bit')")
    return tmp_path


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("table", ["."]),
        ("csv", ["."]),
        ("junit", ["."]),
        ("gradescope", ["ada/results.json", "bob/results.json"]),
        ("nbgrader", ["grades.csv", "feedback/ada/halo/halo.html"]),
    ],
)
def test_marks_are_written(format: str, files: list[str], a_class, capsys, refused) -> None:
    """Catches a form that the command does not write, and marks that are overwritten."""
    words = ["lesson", "mark", a_class / "class", "--salt", "s", "--format", format]
    words = [*map(str, words), "--output", str(a_class / "out")]
    assert cli.main(words) == VALID
    for name in files:
        assert "halo" in (a_class / "out" / name).read_text()
    capsys.readouterr()
    assert "exists; it is not overwritten" in refused(*words)


def test_folders_need_a_name(a_class, refused) -> None:
    """Catches a form of several files that goes to standard output."""
    words = ("lesson", "mark", a_class / "class", "--salt", "s", "--format", "gradescope")
    assert "needs --output" in refused(*words)


def test_marks_so_far_stay(a_class, monkeypatch, capsys) -> None:
    """Catches marks that are lost by Ctrl-C, or by a submission after them."""
    mark = marking.mark_all

    def interrupted(submissions, salt, run, done):
        mark(submissions[:1], salt, run, done)
        assert (a_class / "out.csv").read_text().count("ada") == 4
        raise KeyboardInterrupt

    monkeypatch.setattr(marking, "mark_all", interrupted)
    words = ["lesson", "mark", str(a_class / "class"), "--salt", "s", "--format", "csv"]
    assert cli.main([*words, "--output", str(a_class / "out.csv")]) == INTERRUPTED
    assert "1 of 2 submissions are not marked" in capsys.readouterr().err
    assert cli.main(words) == INTERRUPTED
    said = capsys.readouterr().out
    assert said.count("ada") == 4 and "bob" not in said


def test_a_submission_that_breaks_the_check_costs_no_other_marks(a_class, monkeypatch, capsys):
    """Catches marks of a class that are lost because the check fails on one of them."""
    right = mark.mark

    def breaks(submission, salt, run):
        if submission.student == "ada" and "fault" not in submission.trouble:
            raise RecursionError("too deep")
        return right(submission, salt, run)

    monkeypatch.setattr(mark, "mark", breaks)
    words = ["lesson", "mark", str(a_class / "class"), "--salt", "s", "--format", "csv"]
    assert cli.main(words) == FAILED
    said = capsys.readouterr()
    rows = list(csv.DictReader(said.out.splitlines()))
    assert [row["student"] for row in rows] == ["ada"] * 4 + ["bob"] * 4
    assert "RecursionError: too deep" in rows[0]["missing_because"]
    assert "imports none of" in rows[-1]["missing_because"]
    assert "mark by hand: halo of ada" in said.err and "halo of bob" not in said.err


def test_marks_are_printed_if_they_cannot_be_written(a_class, monkeypatch, capsys) -> None:
    """Catches marks that are lost when the disk is full, after an hour of marking."""

    def full(path: Path, text: str) -> None:
        if "ada" in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_text(text)

    monkeypatch.setattr(marks, "write_text", full)
    words = ["lesson", "mark", str(a_class / "class"), "--salt", "s", "--format", "csv"]
    assert cli.main([*words, "--output", str(a_class / "out.csv")]) == FAILED
    said = capsys.readouterr()
    assert "No space left on device; the marks:" in said.err
    assert all(name in said.out for name in ("ada", "bob"))


def test_marking_without_isolation_is_asked_for(a_class, monkeypatch, refused, capsys) -> None:
    """Catches programs that run unprotected although nobody has said so, or that see answers."""
    folders = []

    def obstacle(hidden: tuple[Path, ...]) -> str:
        folders.extend(hidden)
        return "unshare: not permitted"

    monkeypatch.setattr(apart, "obstacle", obstacle)
    words = ("lesson", "mark", a_class / "class", "--salt", "s")
    assert "cannot isolate programs here (unshare: not permitted)" in refused(*words)
    assert cli.main([*map(str, words), "--not-isolated"]) == VALID
    assert "not isolated (unshare: not permitted)" in capsys.readouterr().err
    halo = lessons.load("halo").folder.resolve()
    assert {a_class / "class", halo / "right", halo / "mistakes"} <= {*folders}


def test_the_page_for_teachers_has_the_criteria() -> None:
    """Catches criteria that are changed, and points that do not add up to the same total."""
    page = (support.ROOT / "docs" / "teaching" / "for-teachers.md").read_text()
    for name in lessons.names():
        criteria = lessons.load(name).criteria
        assert sum(one.points for one in criteria) == 10
        rows = [f"| {one.points} | {one.words} |\n" for one in criteria]
        assert f"| {name} {'| '.join(rows)}" in page
