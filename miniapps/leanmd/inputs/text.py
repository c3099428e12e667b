"""Text files: lines, and tables whose rows are lines."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from miniapps.leanmd.inputs.tables import OPTION, Chunk, blamed, need, slices
from miniapps.parameters import InputError

MOST_ATOMS = 1e15  # atoms
LONGEST = 1 << 16  # bytes of a line: a row has some words, a comment with other data a few more
ONE_KIND = "all atoms must be of one kind, which is"
SAME = MappingProxyType(  # fields that have the same value for all atoms: what is said otherwise
    dict.fromkeys(("kind", "element", "symbol", "type", "number"), ONE_KIND)
    | {"mass": "the mass of all atoms must be"}
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # with which some editors begin a file
NUMBER = re.compile(  # also of Fortran, as 1.0D+00
    r"[+-]?(?:(?:\d++\.?\d*+|\.\d++)(?:[ed][+-]?\d++)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
FORTRAN = re.compile(rb"(?<=[\d.])[dD](?=[+-]?\d)")  # the D of an exponent


class Lines:
    """Iterates over the lines of a text file, and keeps the position of the current line."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file = path, file
        self.number = 0  # of the current line, from 1
        self.start = self.end = 0  # its range of bytes in the file

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """The next line."""
        raw = self._read()
        if not raw:
            raise StopIteration
        try:
            return raw.removeprefix(BYTE_ORDER_MARK if self.start == 0 else b"").decode()
        except UnicodeDecodeError:
            raise InputError(OPTION, self.location, "is not text in UTF-8") from None

    def _read(self) -> bytes:
        raw = self.file.readline(LONGEST + 1)
        self.number += 1
        self.start, self.end = self.end, self.end + len(raw)
        need(len(raw) <= LONGEST, self.location, f"the line is longer than {LONGEST} bytes")
        return raw

    @property
    def location(self) -> str:
        """The current line, for messages."""
        return f"{self.path}:{self.number}"

    def row(self, what: str) -> list[str]:
        """The words of the next line that is not blank. Raises InputError if there is none."""
        for text in self:
            words = text.split("#")[0].split()
            if words:
                return words
        raise InputError(OPTION, self.location, f"the file ends where {what} must begin")

    def skip_rows(self, rest: int, count: int, what: str, comments: bytes = b"\n") -> None:
        """Skip the last ``rest`` of ``count`` rows. Raises InputError if one is missing.

        ``comments``: how a line begins that is a comment, and no row.
        """
        for row in range(count - rest, count):
            text = self._read().strip()
            need(
                text != b"", self.location, f"{what} must have {count} rows as announced, has {row}"
            )
            is_row = not text.startswith(comments)
            need(is_row, self.location, f"a comment between the rows of {what} is not read")


@contextmanager
def lines_of(path: Path) -> Iterator[Lines]:
    """The lines of a text file, from its beginning."""
    with blamed(path), open(path, "rb") as file:
        yield Lines(path, file)


@dataclass(frozen=True)
class TextTable:
    """Rows of text, one line each."""

    path: Path
    what: str  # the field that is the vector: "position" or "velocity"
    start: int  # the byte at which the first row begins
    line: int  # number of that line
    count: int
    fields: np.dtype  # of a row; "id" and those of `SAME` may be among them
    form: str  # of a row, for messages
    kind: bytes | None = None  # the "kind" that all rows must have; None: that of the first row
    comments: str | None = "#"  # what begins a comment in a row

    def chunks(self) -> Iterator[Chunk]:
        """The rows, some at a time."""
        names = self.fields.names or ()
        same: dict[str, Any] = {"kind": self.kind, "mass": 1.0}
        with blamed(self.path), open(self.path, "rb") as file:
            file.seek(self.start)
            for part in slices(self.count):
                first, wanted = part.start, part.stop - part.start
                lines = list(islice(file, wanted))
                need(len(lines) == wanted, self.location(first), "the file has become shorter")
                rows = self._parsed(lines, first)
                for name in (name for name in SAME if name in names):
                    value = same.get(name)
                    value = same[name] = rows[name][0] if value is None else value
                    self._check_same(name, rows[name] == value, first, value)
                ids = rows["id"] if "id" in names else np.arange(len(rows)) + first + 1
                yield ids, rows[self.what]

    def location(self, row: int) -> str:
        """The line of a row, for messages."""
        return f"{self.path}:{self.line + row}"

    def _parsed(self, lines: list[bytes], first: int) -> np.ndarray:
        """Lines as rows. Bisects the lines to find a bad one, and raises InputError for it."""
        rows = self._loaded(lines)
        if rows is None:
            rows = self._loaded([FORTRAN.sub(b"e", line) for line in lines])
        if rows is not None:
            return rows
        if len(lines) < 2:
            text = b"".join(lines).strip()[:60].decode(errors="backslashreplace")
            raise InputError(OPTION, self.location(first), f"must be {self.form!r}, is {text!r}")
        half = len(lines) // 2
        parts = self._parsed(lines[:half], first), self._parsed(lines[half:], first + half)
        return np.concatenate(parts)

    def _loaded(self, lines: list[bytes]) -> np.ndarray | None:
        """Lines as rows, one each; None if a line is not a row."""
        try:
            b"".join(lines).decode()
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # numpy warns if lines hold no data
                rows = np.loadtxt(lines, self.fields, comments=self.comments, ndmin=1)
        except (ValueError, UserWarning):
            return None
        return rows if len(rows) == len(lines) else None

    def _check_same(self, name: str, same: np.ndarray, first: int, value: Any) -> None:
        """Raise InputError unless all atoms have the same value of a field."""
        shown = repr(value.decode(errors="replace")) if isinstance(value, bytes) else f"{value:g}"
        need(same.all(), self.location(first + int(np.argmin(same))), f"{SAME[name]} {shown}")


def numbers_in(words: list[str], location: object) -> list[float]:
    """Words as finite numbers. Raises InputError for others."""
    numbers = [float(re.sub("[dD]", "e", word)) for word in words if is_number(word)]
    good = len(numbers) == len(words) and bool(np.isfinite(numbers).all())
    need(good, location, f"finite numbers are needed, not {' '.join(words)!r}")
    return numbers


def is_number(word: str) -> bool:
    """Whether a word is a number; NaN and infinity count as numbers."""
    return NUMBER.fullmatch(word) is not None
