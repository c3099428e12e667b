"""Writes marks, in the forms that teachers' programs read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from miniapps.parameters import require
from workbench.lesson.mark import Marked
from workbench.table import Column, Table, lines, width

PRINTABLE = 60  # characters of a reason in a table


def table(marked: Sequence[Marked]) -> str:
    """A table for people, with why points are missing."""
    columns = (
        Column("student"),
        Column("lesson"),
        Column("points", numeric=True),
        Column("of", numeric=True),
        Column("missing because"),
    )
    rows = tuple(
        (
            plain(one.submission.student),
            one.submission.lesson,
            str(one.points),
            str(one.most),
            plain("; ".join(one.reasons)) or "-",
        )
        for one in marked
    )
    return "\n".join(lines(Table("Marks", columns, rows), width())) + "\n"


def plain(text: str) -> str:
    """A text in one line, without control characters and halves of characters."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in line)


FORMATS: dict[str, Callable[[Sequence[Marked]], str]] = {"table": table}


def require_output(format: str, output: Path | None) -> None:
    """Raise InputError unless the marks can be written in a form to a path."""
    if output is not None:
        require(output.parent.is_dir(), "--output", output, "its folder does not exist")


def write(format: str, marked: Sequence[Marked], output: Path | None) -> None:
    """Write marks in a form, to a path or to standard output."""
    text = FORMATS[format](marked)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text)
