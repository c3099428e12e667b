"""Faults of numbers about a run: its times, their units, statistics, and what is shown of them.

A run's checks prove its bits, not its seconds. So each of these faults, a change of a line, must be
seen by a run, as its times contradict each other, or by the test that numbers.toml names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.quoting import markdown_row
from miniapps.workbench.selftest import altered
from miniapps.workbench.selftest.altered import Change, Tried
from miniapps.workbench.selftest.drawn import of_day
from miniapps.workbench.table import Column, Table, say, show

PRESET = "numbers"  # in the report, in place of a size
TABLE = Path(__file__).with_name("numbers.toml")
FAULTS = tuple(
    Change(name, file, old, new, seen_by)
    for file, witnesses in tomllib.loads(TABLE.read_text(encoding="utf-8")).items()
    for seen_by, faults in witnesses.items()
    for name, (old, new) in faults.items()
)
COLUMNS = Column("fault"), Column("file"), Column("caught by")


def chosen(words: str, count: int | None) -> list[Change]:
    """The faults to try, whose key contains the words: `of_day`, or all."""
    return of_day([one for one in altered.possible(FAULTS) if words in one.key], count)


def key_of(change: Change) -> tuple[Any, ...]:
    """What tells a fault from all other trials in a report."""
    return PRESET, change.witness, change.file, change.key


def show_table(found: Sequence[Tried], markdown: bool) -> None:
    """Print what saw each fault."""
    rows = [
        (one.change.key, one.change.file, one.caught or one.wrong)
        for one in found
        if not one.is_right
    ]
    if markdown:
        for row in rows:
            print(markdown_row(row))
    elif rows:
        show([Table("what caught each fault of numbers", COLUMNS, tuple(rows))])


def conclude(found: Sequence[Tried]) -> int:
    """Print what went wrong, and the counts; returns the exit status."""
    wrong = [one for one in found if one.wrong]
    lines = [f"{one.change.key}: {one.wrong}" for one in wrong]
    tried = [one for one in found if not one.is_right]
    left = len(FAULTS) - len(altered.possible(FAULTS))
    if tried:
        seen = sum(bool(one.caught) for one in tried)
        lines.append(f"{counted(len(tried), 'fault')} of numbers; {seen} caught")
    if tried and left:
        lines.append(f"left out: {counted(left, 'fault')} of numbers, as the tests are not here")
    say(lines)
    return WRONG if wrong else VALID
