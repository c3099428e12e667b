"""Marks every known mistake of every lesson, and writes what each check finds as a page.

python teaching/wrong_programs.py docs/teaching/README.md

It takes about ten minutes of two cores. Exit status 1: a mistake gets full marks, or is taken for
another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lessons
from lessons.lesson import Lesson, Mistake
from workbench.lesson import check, running
from workbench.lesson.mark import Marked, mark
from workbench.lesson.submissions import Submission

SALT = "docs"
INTRODUCTION = """# Lessons, checks and wrong programs

For teachers, and for those who write [lessons](../lessons.md). This page is made by

```sh
python teaching/wrong_programs.py docs/teaching/README.md
```

which marks each known mistake as if a student had handed it in, with sizes and numbers that the
lesson's own check does not use. [For teachers](for-teachers.md) has plans and forms of marks.

"""
COLUMNS = """In the tables below, a column is a criterion of the marks; **x**: the program gets no
points for it. The last column is the first line of what the student reads. Each mistake was
recognised as itself.
"""


class Row(NamedTuple):
    """What became of one wrong program."""

    mistake: Mistake
    marked: Marked

    @property
    def trouble(self) -> str:
        """What is wrong with the checks that let it pass or mix it up; empty if nothing."""
        if self.marked.points == self.marked.most:
            return f"{self.mistake.path}: gets full marks"
        if self.marked.mistake != self.mistake.words:
            return f"{self.mistake.path}: is taken for: {self.marked.mistake or 'nothing known'}"
        return ""


def rows_of(lesson: Lesson, runtime: str) -> list[Row]:
    """All known mistakes of a lesson for a runtime, marked."""
    found = []
    for mistake in lesson.mistakes(runtime):
        submission = Submission(mistake.path.stem, lesson.name, mistake.path, runtime)
        found.append(Row(mistake, mark(submission, SALT, running.run)))
        print(".", end="", file=sys.stderr, flush=True)
    return found


def cases(lesson: Lesson, runtime: str) -> int:
    """In how many cases a program is run."""
    return sum(len(lesson.cases_for(runtime, processes, 1)) for processes in check.PROCESSES)


def title_of(mistake: Mistake, runtime: str) -> str:
    """The short name of a wrong program, as its file has it."""
    return mistake.path.stem.removeprefix(f"{runtime}_").replace("_", " ")


def overview(tables: dict[tuple[str, str], list[Row]]) -> Iterator[str]:
    """The lines of the table of all lessons."""
    yield "| lesson | runtime | cases | criteria | wrong programs | of these stopped, not ended |"
    yield "|---|---|---|---|---|---|"
    for (name, runtime), rows in tables.items():
        lesson = lessons.load(name)
        stopped = sum(bool(row.mistake.stops) for row in rows)
        numbers = cases(lesson, runtime), len(lesson.criteria), len(rows), stopped
        yield f"| {name} | {runtime} | {' | '.join(map(str, numbers))} |"
    every = [row for rows in tables.values() for row in rows]
    stopped = sum(bool(row.mistake.stops) for row in every)
    yield f"| all | | | | {len(every)} | {stopped} |"


def table(lesson: Lesson, runtime: str, rows: list[Row]) -> Iterator[str]:
    """The lines of the table of a lesson's wrong programs for a runtime."""
    yield f"## {lesson.name}, {runtime}"
    yield ""
    yield f"| wrong program | {' | '.join(one.words for one in lesson.criteria)} | explanation |"
    yield "|---|" + "---|" * (len(lesson.criteria) + 1)
    for row in rows:
        missing = " | ".join("" if one.points else "x" for one in row.marked.marks)
        words = row.mistake.words.splitlines()[0]
        yield f"| {title_of(row.mistake, runtime)} | {missing} | {words} |"
    yield ""


def main() -> int:
    """Write the page; returns the exit status."""
    tables = {
        (name, runtime): rows_of(lessons.load(name), runtime)
        for name in lessons.names()
        for runtime in lessons.load(name).runtimes
    }
    lines = [*overview(tables), "", COLUMNS]
    for (name, runtime), rows in tables.items():
        lines += table(lessons.load(name), runtime, rows)
    Path(sys.argv[1]).write_text(INTRODUCTION + "\n".join(lines).rstrip() + "\n")
    troubles = [row.trouble for rows in tables.values() for row in rows if row.trouble]
    print("\n".join(troubles), file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
