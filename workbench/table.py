"""Tables of plain text for the terminal, as wide as it is; what does not fit becomes a list.

A table that is too wide loses the columns whose cells are all the same, which one line lists
instead; then cells of text are wrapped; then the text of each row has a line of its own, above the
numbers. If even the numbers do not fit, each row becomes a list.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from miniapps.parameters import printable

USUAL_WIDTH = 80  # characters, also where standard output is no terminal
LEAST = 12  # characters to which the cells of a column of text may be wrapped
ENOUGH = 3  # columns of numbers that are worth a grid of their own
GAP = "  "  # between columns
NONE = "-"  # a cell without a value


@dataclass(frozen=True)
class Column:
    """The title of a column, and whether its cells are numbers or code."""

    title: str
    numeric: bool = False
    code: bool = False


@dataclass(frozen=True)
class Table:
    """A table of plain text; every row has a cell for each column."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def width() -> int:
    """The characters of a line: the terminal's, or what COLUMNS says; `USUAL_WIDTH` at least."""
    return max(USUAL_WIDTH, shutil.get_terminal_size((USUAL_WIDTH, 0)).columns)


def show(tables: Sequence[Table]) -> None:
    """Print tables on standard output, with an empty line after each."""
    for table in tables:
        print(*lines(table, width()), sep="\n", end="\n\n")


def lines(table: Table, most: int) -> Iterator[str]:
    """The lines of a table, of at most that many characters unless a single word is longer.

    Texts may be of files that anybody has written: control characters are shown as escapes.
    """
    columns = tuple(replace(column, title=printable(column.title)) for column in table.columns)
    rows = tuple(tuple(map(printable, row)) for row in table.rows)
    table = replace(table, columns=columns, rows=rows)
    yield from wrapped(table.title, most)
    yield from _body(table, most)
    for note in table.notes:
        yield from wrapped(note, most, GAP)


def wrapped(text: str, most: int, indent: str = "") -> list[str]:
    """A text in lines of at most that many characters; no word is broken."""
    return textwrap.wrap(
        printable(text),
        most,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fitted(line: str, most: int) -> list[str]:
    """A line, or if it is longer than ``most`` characters, lines that do not break its words."""
    line = printable(line)
    if len(line) <= most:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    first, *rest = wrapped(line.strip(), most - len(indent) - len(GAP))
    return [indent + first, *(indent + GAP + part for part in rest)]


def say(lines: Iterable[str]) -> None:
    """Print lines on standard output, each `fitted` to its width."""
    for line in lines:
        print(*fitted(line, width()), sep="\n")


def labelled(label: str, text: str, most: int) -> list[str]:
    """A text beside its label, in lines that begin below one another."""
    first, *rest = wrapped(text, max(most - len(label), LEAST)) or [""]
    return [label + first, *(" " * len(label) + line for line in rest)]


def _body(table: Table, most: int) -> Iterator[str]:
    """The rows, in the fullest form that fits."""
    short, common = _without_common(table)
    for shown, wrap in ((table, False), (short, False), (short, True)):
        widths = _widths(shown, most, wrap)
        if widths is not None:
            yield from _head(shown.columns, widths)
            for row in shown.rows:
                yield from _row(row, widths, shown.columns)
            break
    else:
        yield from _headed(short, most) or _list(short, most)
    if shown is short:
        yield from wrapped(common, most, GAP)


def _without_common(table: Table) -> tuple[Table, str]:
    """The table without columns whose cells are all the same, and a line that lists these cells."""
    cells = list(zip(*table.rows, strict=True))
    same = [n for n, column in enumerate(cells) if n and len(column) > 1 and len({*column}) == 1]
    kept = [n for n in range(len(table.columns)) if n not in same]
    rows = tuple(tuple(row[n] for n in kept) for row in table.rows)
    short = replace(table, columns=tuple(table.columns[n] for n in kept), rows=rows)
    said = [
        f"{table.columns[n].title} {cells[n][0]}" for n in same if cells[n][0] not in (NONE, "")
    ]
    return short, f"in all rows: {'; '.join(said)}" if said else ""


def _widths(table: Table, most: int, wrap: bool) -> list[int] | None:
    """The width of each column; None if they do not fit. ``wrap``: cells of text may be wrapped."""
    titles = [column.title for column in table.columns]
    cells = [list(column) for column in zip(*table.rows, strict=True)] or [[] for _ in titles]
    widths = [
        max(map(len, [*title.split(), *column]), default=0)
        for title, column in zip(titles, cells, strict=True)
    ]
    least = [
        max([LEAST, *(len(word) for text in (title, *column) for word in text.split())])
        if wrap and not of.numeric
        else needed
        for of, title, column, needed in zip(table.columns, titles, cells, widths, strict=True)
    ]
    room = most - len(GAP) * (len(widths) - 1)
    while sum(widths) > room:
        spare = [have - need for have, need in zip(widths, least, strict=True)]
        if max(spare, default=0) <= 0:
            return None
        widths[spare.index(max(spare))] -= 1
    return widths


def _head(columns: Sequence[Column], widths: list[int]) -> Iterator[str]:
    """The titles, aligned at their last lines, and a rule."""
    parts = [wrapped(of.title, width) for of, width in zip(columns, widths, strict=True)]
    height = max(map(len, parts), default=0)
    yield from _beside([[""] * (height - len(part)) + part for part in parts], widths, columns)
    yield GAP.join("─" * width for width in widths)


def _row(cells: Sequence[str], widths: list[int], columns: Sequence[Column]) -> Iterator[str]:
    """The lines of a row, whose cells are wrapped to the widths."""
    parts = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    yield from _beside(parts, widths, columns)


def _beside(
    parts: Sequence[list[str]], widths: list[int], columns: Sequence[Column]
) -> Iterator[str]:
    """Cells of several lines beside one another."""
    for line in zip_longest(*parts, fillvalue=""):
        placed = zip(line, widths, columns, strict=True)
        cells = [t.rjust(w) if of.numeric else t.ljust(w) for t, w, of in placed]
        yield GAP.join(cells).rstrip()


def _headed(table: Table, most: int) -> list[str]:
    """The numbers as a grid, with the text of each row in a line above; empty if it is too wide."""
    columns = table.columns
    numeric = [n for n, column in enumerate(columns) if column.numeric]
    text = [n for n in range(len(columns)) if n not in numeric]
    rows = tuple(tuple(row[n] for n in numeric) for row in table.rows)
    numbers = Table("", tuple(columns[n] for n in numeric), rows)
    widths = _widths(numbers, most - len(GAP), wrap=False)
    if widths is None or len(numeric) < ENOUGH:
        return []
    made = [GAP + line for line in _head(numbers.columns, widths)]
    for row, cells in zip(table.rows, rows, strict=True):
        words = [row[n] if n == 0 else f"{columns[n].title} {row[n]}" for n in text]
        made += wrapped("; ".join(words), most)
        made += [GAP + line for line in _row(cells, widths, numbers.columns)]
    return made


def _list(table: Table, most: int) -> Iterator[str]:
    """For each row its first cell, and below it the other cells with their titles."""
    titles = [column.title for column in table.columns[1:]]
    label = max(map(len, titles), default=0)
    for first, *cells in table.rows:
        yield from wrapped(first, most)
        for title, cell in zip(titles, cells, strict=True):
            if cell != NONE:
                yield from labelled(f"{GAP}{title:{label}}{GAP}", cell, most)
