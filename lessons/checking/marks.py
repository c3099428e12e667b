"""Writes marks, in the forms that teachers' programs read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from miniapps.lessons.checking.mark import Mark, Marked
from miniapps.parameters import InputError, require
from miniapps.workbench.quoting import csv_text, line, markup
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.table import Column, Table, lines, width

NBGRADER = (  # the columns of nbgrader's own export
    "assignment,duedate,timestamp,student_id,last_name,first_name,email,raw_score,"
    "late_submission_penalty,score,max_score"
).split(",")
CSV = ("student", "lesson", "runtime", "criterion", "points", "of", "missing_because")


def table(marked: Sequence[Marked]) -> str:
    """A table for people; of the reasons why points are missing, the first."""
    columns = (
        Column("student"),
        Column("lesson"),
        Column("points", numeric=True),
        Column("of", numeric=True),
        Column("missing because"),
    )
    rows = tuple(
        (
            line(one.submission.student),
            one.submission.lesson,
            str(one.points),
            str(one.most),
            line("; ".join(one.reasons[:1])) or "-",
        )
        for one in marked
    )
    return "\n".join(lines(Table("Marks", columns, rows), width())) + "\n"


def as_csv(marked: Sequence[Marked]) -> str:
    """A line for each criterion."""
    rows: list[Sequence[Any]] = []
    for one in marked:
        student, lesson, _, runtime, _ = one.submission
        for mark in one.marks:
            about = mark.criterion
            row = (student, lesson, runtime, about.words, mark.points, about.points)
            rows.append((*row, mark.reason))
    return csv_text(CSV, rows)


def junit(marked: Sequence[Marked]) -> str:
    """JUnit's XML: a suite for each submission, a test case for each criterion.

    Times are 0, and the date is a fixed one: marks do not depend on when they were made.
    """
    suites = ElementTree.Element("testsuites")
    for number, one in enumerate(marked):
        lost = [mark for mark in one.marks if mark.reason]
        student, lesson = line(one.submission.student), one.submission.lesson
        about = {"package": lesson, "id": str(number), "name": student, "hostname": "localhost"}
        about |= {"timestamp": "1970-01-01T00:00:00", "tests": str(len(one.marks))}
        about |= {"failures": str(len(lost)), "errors": "0", "time": "0"}
        suite = ElementTree.SubElement(suites, "testsuite", about)
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in (("points", one.points), ("of", one.most)):
            ElementTree.SubElement(properties, "property", {"name": name, "value": str(value)})
        for mark in one.marks:
            named = {"name": title(mark), "classname": f"{lesson}.{student}", "time": "0"}
            case = ElementTree.SubElement(suite, "testcase", named)
            if mark.reason:
                why = {"message": line(mark.reason), "type": "criterion"}
                ElementTree.SubElement(case, "failure", why)
        ElementTree.SubElement(suite, "system-out").text = line(one.mistake)
        ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(suites)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}{ElementTree.tostring(suites, encoding='unicode')}\n"


def title(mark: Mark) -> str:
    """A criterion and its points."""
    return f"{mark.criterion.words} ({mark.points} of {mark.criterion.points})"


def gradescope(marked: Sequence[Marked]) -> dict[str, str]:
    """A file ``STUDENT/results.json`` for each student, as Gradescope's autograders write it."""
    files = {}
    for student, theirs in groupby(marked, lambda one: one.submission.student):
        mine = list(theirs)
        tests = [
            {
                "name": f"{one.submission.lesson}: {mark.criterion.words}",
                "score": mark.points,
                "max_score": mark.criterion.points,
                "status": "failed" if mark.reason else "passed",
                "output": line(mark.reason),
                "output_format": "text",
            }
            for one in mine
            for mark in one.marks
        ]
        mistakes = "\n\n".join(one.mistake for one in mine if one.mistake)
        results = {
            "score": sum(one.points for one in mine),
            "output": mistakes,
            "output_format": "text",
            "stdout_visibility": "hidden",
            "tests": tests,
        }
        files[f"{student}/results.json"] = json.dumps(results, indent=1) + "\n"
    return files


def nbgrader(marked: Sequence[Marked]) -> dict[str, str]:
    """``grades.csv`` with the columns of nbgrader's export, and a page of feedback for each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, NBGRADER, restval="", lineterminator="\n")  # ids as they are
    writer.writeheader()
    files = {}
    for one in marked:
        student, lesson = one.submission.student, one.submission.lesson
        points = float(one.points)
        row = {"assignment": lesson, "student_id": student, "max_score": float(one.most)}
        row |= {"raw_score": points, "score": points, "late_submission_penalty": 0.0}
        writer.writerow(row)
        files[f"feedback/{student}/{lesson}/{lesson}.html"] = page(one)
    return {"grades.csv": text.getvalue()} | files


def page(one: Marked) -> str:
    """The feedback for a student, as a page for a browser."""
    items = [
        f"<li>{markup(title(mark))}<br>{markup(line(mark.reason))}</li>\n" for mark in one.marks
    ]
    heading = markup(f"{one.submission.lesson}: {one.points} of {one.most} points")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{heading}</title>\n'
        f"<h1>{heading}</h1>\n<ul>\n{''.join(items)}</ul>\n<p>{markup(one.mistake)}</p>\n</html>\n"
    )


class Form(NamedTuple):
    """A form of marks: one text, or several files by name."""

    text: Callable[[Sequence[Marked]], str] | None = None
    files: Callable[[Sequence[Marked]], dict[str, str]] | None = None


FORMATS = {
    "table": Form(table),
    "csv": Form(as_csv),
    "junit": Form(junit),
    "gradescope": Form(files=gradescope),
    "nbgrader": Form(files=nbgrader),
}


def require_output(format: str, path: Path | None) -> None:
    """Raise InputError unless marks can be written in a form to a path, which must be new."""
    if path is None:
        needed = f"needs --output FOLDER, for a folder that {format} reads"
        require(FORMATS[format].files is None, "--format", format, needed)
        return
    require(not path.exists(), "--output", path, "exists; it is not overwritten")
    try:
        write(format, [], path)
    except OSError as error:
        raise InputError("--output", path, error.strerror or "cannot be written") from None


def write(format: str, marked: Sequence[Marked], path: Path | None) -> None:
    """Write marks in a form, to a path or to standard output."""
    form = FORMATS[format]
    if form.text is not None:
        text = form.text(marked)
        if path is None:
            print(text, end="")
        else:
            write_text(path, text)
    elif form.files is not None and path is not None:
        path.mkdir(exist_ok=True)
        for name, text in form.files(marked).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(path / name, text)
