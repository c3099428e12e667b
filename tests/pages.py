"""The pages of the documentation, and the shell commands that they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from support import ROOT

STUDENTS = "lessons/handout/README.md"


def found(*patterns: str) -> list[str]:
    """The files of the project that match, from its root."""
    paths = (path for pattern in patterns for path in ROOT.glob(pattern))
    return sorted(str(path.relative_to(ROOT)) for path in paths)


LESSONS = found("lessons/*/*.md")  # what students read
EVERY = found("docs/*.md", "docs/*/*.md", "benchmarks/README.md", "*.md")
PAGES = [page for page in EVERY if page != STUDENTS]
SHELLS = ("sh", "bash", "shell", "console")
# How a command begins in a block without a language, which may also show output or a formula.
COMMAND = r"(?:[A-Z_]+=\S+ )*(?:\S*/)?(?:miniapps|make|python3?|mpiexec|pytest|pip|git|apt-get) "
PROMPT, NEVER = r"\$ ", "(?!)"
MARKER = r"<!-- not executed:(?P<reason>.*?)-->"
BLOCK = re.compile(
    rf"(?:^{MARKER}\n+)?"
    r"(?:^```(?P<language>.*)\n(?P<fenced>(?:.*\n)*?)```$|(?<=[\n>]\n)(?P<indented>(?: {4}.*\n)+))",
    flags=re.M,
)
OPERATORS = {"&&", "||", "|", ";"}
KEYWORDS = {"if", "then", "else", "fi", "[", ".", "!"}


class Line(NamedTuple):
    """A command of a block, without its comment, and joined if it continues on further lines."""

    number: int
    text: str
    refused: bool  # the page shows the error that it ends with

    def commands(self) -> list[list[str]]:
        """The words of each command of the line; a variable of the shell is 1."""
        words = shlex.shlex(re.sub(r"\$\w+", "1", self.text), posix=True, punctuation_chars="|&;<>")
        words.whitespace_split = True
        found: list[list[str]] = [[]]
        for word in words:
            if word in OPERATORS:
                found.append([])
            elif found[-1] or not (word in KEYWORDS or re.match(r"[A-Z_]+=", word)):
                found[-1].append(word)
        return [command for command in found if command]


@dataclass(frozen=True)
class Block:
    """A block of commands."""

    lines: list[Line]
    reason: str | None  # why no test executes it, as a marker above it says


def blocks(text: str) -> list[Block]:
    """The blocks of a page that show commands of a shell."""
    shown = []
    for match in BLOCK.finditer(text):
        kind = "fenced" if match["fenced"] is not None else "indented"
        first = text.count("\n", 0, match.start(kind)) + 1
        language = (match["language"] or "").strip()
        begin = "" if language in SHELLS else NEVER if language else COMMAND
        lines = list(lines_of(match[kind].splitlines(), first, begin))
        if lines:
            shown.append(Block(lines, match["reason"] and match["reason"].strip()))
    return shown


def lines_of(lines: list[str], first: int, begin: str) -> Iterator[Line]:
    """The commands among the lines of a block: after prompts, else the lines that so begin.

    ``first``: the number of the first line.
    """
    numbered = iter(enumerate(map(str.strip, lines), first))
    prompts = any(re.match(rf" *{PROMPT}", line) for line in lines)
    for number, line in numbered:
        is_command = re.match(PROMPT if prompts else begin, line)
        while is_command and line.endswith("\\"):
            line = line[:-1] + next(numbered)[1]
        line = re.sub(r"(^|\s+)#( |!).*", "", line.removeprefix("$ "))
        if is_command and line:
            answer = "".join(lines[number + 1 - first : number + 2 - first])
            yield Line(number, line, prompts and answer.startswith("miniapps: "))


def commands(text: str) -> list[list[str]]:
    """The words after each `miniapps` in the blocks of a page."""
    return [
        words[1:]
        for block in blocks(text)
        for line in block.lines
        for words in line.commands()
        if words[0].rpartition("/")[2] == "miniapps"
    ]
