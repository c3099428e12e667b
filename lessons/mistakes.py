"""Known mistakes: wrong programs, each stored as its difference from a right one.

A file ``mistakes/<runtime>_<name>.diff`` in a lesson's folder begins with what a student reads,
and, if something stops the program, a line ``stops: ...``, that names it on the fewest processes as
`lessons.checking.check` reports it. Then comes the difference as ``git diff -U1`` writes it, so
that ``git apply`` makes the right program wrong. Nothing here is applied by guess: a line that is
not where the difference has it is an error.

Students get whole programs in place of differences, because these show what is right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from miniapps.parameters import InputError

SUFFIX = ".diff"
HEAD = re.compile(
    r"(?P<words>(?s:.+?))\n\n(stops: (?P<stops>.+)\n\n)?--- a/(?P<right>.+)\n\+\+\+ b/(?P=right)\n"
)
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Mistake:
    """A wrong program, which is recognised by its results or by what stops it.

    ``path``: its difference from a right program, or where students have it, the program. Its
    docstring is what a student reads. A line ``STOPS = "..."`` names what stops it; without it, it
    ends with a wrong result.
    """

    path: Path

    @property
    def name(self) -> str:
        """The runtime and a short name."""
        return self.path.stem

    @cached_property
    def text(self) -> str:
        """The whole program. Raises InputError if its difference does not apply."""
        return source(self.path).decode()

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed program."""
        return ast.parse(self.text)

    @property
    def words(self) -> str:
        """What to tell the student."""
        return ast.get_docstring(self.tree) or ""

    @property
    def stops(self) -> str:
        """What stops it; empty if it ends."""
        for node in self.tree.body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id="STOPS")], value=ast.Constant(value=str(text))
                ):
                    return text
        return ""


def source(program: Path) -> bytes:
    """The text of a program; that of a difference is made. Raises InputError if it cannot be."""
    return made(program).encode() if program.suffix == SUFFIX else program.read_bytes()


def runnable(program: Path, folder: Path) -> Path:
    """The program as a file that can be run; one that is made is written into a folder."""
    if program.suffix != SUFFIX:
        return program
    file = folder / f"{program.parents[1].name}_{program.stem}.py"
    file.write_bytes(source(program))
    return file


def made(path: Path) -> str:
    """The wrong program that a difference makes. Raises InputError if it does not apply."""
    text = path.read_text(encoding="utf-8")
    head = HEAD.match(text)
    if head is None:
        raise InputError("mistake", path, "needs an explanation, and then --- a/FILE, +++ b/FILE")
    right = path.parents[1].joinpath(*PurePosixPath(head["right"]).parts[-2:])
    before = right.read_text(encoding="utf-8")
    try:
        lines = changed(before.splitlines(), text[head.end() :].splitlines())
    except ValueError as error:
        raise InputError("mistake", path, f"does not fit {head['right']}: {error}") from None
    body = without_docstring("".join(f"{line}\n" for line in lines))
    if body == without_docstring(before):
        raise InputError("mistake", path, f"changes nothing in {head['right']}")
    words = head["words"] + "\n" * ("\n" in head["words"])
    stops = f'\nSTOPS = "{head["stops"]}"\n' if head["stops"] else ""
    return f'"""{words}"""\n{stops}{body}'


def without_docstring(text: str) -> str:
    """A program from the line below its docstring on."""
    return re.sub(r'\A""".*?"""\n', "", text, flags=re.DOTALL)


def changed(before: Sequence[str], difference: Sequence[str]) -> list[str]:
    """The lines of a program after a difference. Raises ValueError if it does not fit."""
    after, at, left = list[str](), 0, iter(difference)
    for head in left:
        numbers = HUNK.match(head)
        if numbers is None:
            raise ValueError(f"{head!r} is not @@ -LINE,LINES +LINE,LINES @@")
        start, removed, to, added = (int(number or 1) for number in numbers.groups())
        after += before[at : start - 1]
        if start <= at or len(after) != to - 1:
            raise ValueError(f"{numbers[0]} is not where the lines before it end")
        at = start - 1
        end = at + removed, len(after) + added
        while (at, len(after)) != end:
            line = next(left, "end")
            kind, text = line[:1] or " ", line[1:]
            if kind not in "+- ":
                raise ValueError(f"{numbers[0]} has other numbers of lines")
            if kind != "+":
                found = before[at] if at < len(before) else "its end"
                at += 1
                if found != text:
                    raise ValueError(f"line {at} is {found!r}, not {text!r}")
            if kind != "-":
                after.append(text)
    return [*after, *before[at:]]
