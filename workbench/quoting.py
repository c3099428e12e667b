"""What may stand in files that other programs read: a function for each kind of output.

Records and campaigns are files that anybody may have written. Schemas say which texts they may have
(`workbench.run.shapes`); these functions do not trust that. Each quotes a text for its output, or
raises InputError if that output has no way to quote it. Tables of the terminal quote their cells
themselves (`workbench.table`), and so do pages (`workbench.study.report.rendered`).
"""

from __future__ import annotations

import csv
import io
import pprint
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from miniapps.parameters import line as line
from miniapps.parameters import printable, require

# What a spreadsheet would compute, if a cell began with it; the wide ones where Chinese or Japanese
# is written.
FORMULA = (*"=+-@", *"\uff1d\uff0b\uff0d\uff20")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
PLAIN = (str, int, float, bool, type(None))


def word(text: str, where: str) -> str:
    """A text that may be part of a file's name, or of a format without quotes, such as Extra-P's.

    ``where``: the output, for the message.
    """
    allowed = "must be of letters, digits and _.+-, and begin with a letter or digit"
    require(bool(WORD.fullmatch(text)), where, repr(text), allowed)
    return text


def literal(value: Any) -> str:
    """Plain data as a literal of Python, which is nothing but data whatever texts it has."""
    _require_plain(value)
    return pprint.pformat(value, width=100, sort_dicts=False)


def _require_plain(value: Any) -> None:
    """Raise InputError unless a value is of JSON, in which numbers are finite."""
    if isinstance(value, dict | list):
        for inner in value if isinstance(value, list) else [*value, *value.values()]:
            _require_plain(inner)
        return
    fits = type(value) in PLAIN and not (isinstance(value, float) and value - value != 0)
    require(fits, "export", repr(value), "is no text and no finite number")


def cell(value: Any) -> Any:
    """A cell of a table in CSV, which a spreadsheet shows as it is even if it looks like a formula.

    Numbers, and texts of numbers, stay numbers.
    """
    if not isinstance(value, str):
        return value
    text = line(value)
    return f"'{text}" if text.startswith(FORMULA) and not is_number(text) else text


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with commas between: a header and rows; None becomes an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow(map(cell, row))
    return text.getvalue()


def csv_of(rows: Sequence[dict[str, Any]], columns: Sequence[str] = ()) -> str:
    """A table with commas between; the columns are the keys of the first row, unless given."""
    names = columns or list(rows[0])
    return csv_text(names, ([row.get(name) for name in names] for row in rows))


def markdown_row(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(line(text).replace('|', '&#124;') for text in cells)} |"


def figure(text: str) -> str:
    """A text of a figure, which is no formula."""
    return text.replace("$", r"\$")


def markup(text: str) -> str:
    """A text of a page, or of an attribute of its elements."""
    return escape(printable(text))
