"""The command: makes all trials, shows the table fault x app x driver, and counts."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from miniapps import apps, drivers
from miniapps.json_input import parsed
from miniapps.parameters import InputError, require
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.quoting import markdown_row
from miniapps.workbench.run.output import append_line
from miniapps.workbench.run.scratch import scratch_for_all
from miniapps.workbench.run.writable import check_writable
from miniapps.workbench.selftest import altered, numbered, simulated
from miniapps.workbench.selftest.altered import Change
from miniapps.workbench.selftest.drawn import of_day
from miniapps.workbench.selftest.trials import (
    ENDS,
    SCALES,
    TINY,
    Found,
    Scale,
    Trial,
    solve,
    trials,
)
from miniapps.workbench.table import Column, Table, say, show

NOT_THERE = "·"  # where a fault changes nothing
SURVIVED = "SURVIVED"
ALLOWED = "allowed"
FAILS = "fails, but the fault has changed nothing", "the right program fails"
LONGEST = 48  # letters of an error
FIELDS = "preset", "driver", "app", "fault"  # of a report: what tells a trial from all others
COLUMNS = Column("fault"), Column("app"), Column("caught by")


@dataclass(frozen=True)
class Asked:
    """What to try: the drivers' ``names``, a part of the faults' names, and how large runs are.

    ``drawn``: how many trials of each app and driver to make, or a `Part` of them, others each day;
    None: all. ``numbers``: likewise, of `numbered.FAULTS`. ``report``: a file of JSON Lines, to
    which each trial is appended as it ends; ``resume``: leave out the trials that it has. Raises
    InputError.
    """

    apps: list[str]
    names: list[str]
    words: str | None = None
    preset: str = TINY.preset
    drawn: int | None = None
    report: Path | None = None
    resume: bool = False
    numbers: int | None = None

    def __post_init__(self) -> None:
        names = ", ".join(SCALES)
        require(self.preset in SCALES, "--preset", self.preset, f"must be one of: {names}")
        require(self.drawn is None or self.drawn > 0, "--draw", self.drawn, "must be 1 or more")
        some = self.numbers is None or self.numbers >= 0
        require(some, "--numbers", self.numbers, "must be 0 or more")
        given = not self.resume or self.report is not None
        require(given, "--resume", "given", "needs --json FILE")
        check_writable("--json", self.report)

    @property
    def everything(self) -> bool:
        """Whether every fault is tried wherever it may act."""
        chosen = self.words is not None or self.drawn is not None
        return self.anywhere and not (chosen or self.resume)

    @property
    def anywhere(self) -> bool:
        """Whether all apps and drivers are asked for, in tiny problems."""
        whole = {*self.apps} == {*apps.names()} and {*self.names} == {*drivers.names()}
        return whole and self.preset == TINY.preset

    @cached_property
    def known(self) -> set[tuple[Any, ...]]:
        """The keys of the trials that need not be made, nor appended, again."""
        return trials_in(self.report) if self.report is not None and self.resume else set()

    def changes(self) -> list[Change]:
        """The faults of numbers to try; they belong to no app or driver."""
        if not self.anywhere:
            return []
        chosen = numbered.chosen(self.words or "", self.numbers)
        return [one for one in chosen if numbered.key_of(one) not in self.known]

    def require_faults(self, folder: Path) -> None:
        """Raise InputError if no fault has the words in its name: all would seem to be caught."""
        if self.words is None:
            return
        every = replace(self, drawn=None, numbers=None, resume=False)
        some = any(one.fault for one in every.trials(folder)) or every.changes()
        why = "is in the name of no fault that these apps and drivers can have"
        why = "; ".join([why, *drivers.left_out(), *simulated.left_out()])
        require(bool(some), "--fault", self.words, why)

    def columns(self, found: Sequence[Found]) -> list[str]:
        """The columns of the table: the drivers, and a simulated GPU where one was tried."""
        tried = {one.trial.driver for one in found}
        return [*self.names, *sorted(tried - {*self.names})]

    def trials(self, marks: Path) -> list[Trial]:
        """The trials to make; the right program's are always among them."""
        if (self.words or "").startswith(altered.PREFIX):
            return []
        every = list(trials(self.apps, self.names, self.words, marks, self.preset))
        every = [one for one in every if one.fault is None or key_of(one) not in self.known]
        if self.drawn is None:
            return every
        groups: dict[tuple[str, str], list[Trial]] = {}
        for trial in every:
            groups.setdefault((trial.app, trial.driver), []).append(trial)
        return [
            trial
            for right, *wrong in groups.values()
            for trial in (right, *of_day(wrong, self.drawn))
        ]


def selftest(asked: Asked, markdown: bool) -> int:
    """Try faults in apps under drivers, show a table; returns the exit status.

    The status is 1 if a fault survives or does not fit its app, if a run fails in which no fault
    has acted, if a run has run out of time twice, or, where all are tried, if a fault acts nowhere.
    """
    found, changed = [], []
    with scratch_for_all() as folder:
        asked.require_faults(folder)
        for one in made(asked.trials(folder), SCALES[asked.preset]):
            found.append(one)
            key = key_of(one.trial)
            if asked.report is not None and key not in asked.known:
                caught = TEMPORARY.sub("", one.caught)
                allowed = one.allowed if one.acted and not caught else ""
                append(asked.report, key, one.acted, caught, allowed, one.trial.is_thorough)
    for change in altered.tried(asked.changes()):
        changed.append(change)
        if asked.report is not None and not change.is_right:
            append(asked.report, numbered.key_of(change.change), change.acted, change.caught)
    if found or not changed:
        show_table(found, asked.columns(found), markdown)
    numbered.show_table(changed, markdown)
    status = conclude(found, asked.everything) if found or not changed else VALID
    return max(status, numbered.conclude(changed))


def made(trials: list[Trial], scale: Scale) -> Iterator[Found]:
    """Make all trials; without the reference, those that survive again with every round audited."""
    again = []
    for one in in_time(trials, scale):
        if one.survived and scale != TINY:
            again.append(one.trial.thorough())
        else:
            yield one
    if again:
        yield from in_time(again, scale)


def in_time(trials: list[Trial], scale: Scale) -> Iterator[Found]:
    """Make all trials; those that run out of time again, alone and with more time."""
    late = []
    for one in solve(trials, scale):
        if one.out_of_time:
            late.append(one.trial)
        else:
            yield one
    for trial in late:
        (one,) = solve([trial], scale.patient())
        yield replace(one, disturbed=True)


def key_of(trial: Trial) -> tuple[Any, ...]:
    """The `FIELDS` of a trial in a report."""
    return trial.preset, trial.driver, trial.app, trial.fault


def trials_in(report: Path) -> set[tuple[Any, ...]]:
    """The keys of the trials that a report has; there need not be one. Raises InputError."""
    if not report.exists():
        return set()
    try:
        lines = [parsed(line) for line in report.read_text(encoding="utf-8").splitlines()]
        return {tuple(line[field] for field in FIELDS) for line in lines}
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError("--json", report, "is not a file of this command") from None


TEMPORARY = re.compile(r"/\S*/miniapps-[\w-]+/")  # a folder of one launch


def append(
    report: Path,
    key: tuple[Any, ...],
    acted: bool,
    caught: str,
    allowed: str = "",
    every_round_audited: bool = False,
) -> None:
    """Append a trial to a report, as docs/checks.md describes it."""
    more = {"every_round_audited": every_round_audited, "acted": acted}
    line = dict(zip(FIELDS, key, strict=True)) | more | {"caught": caught, "allowed": allowed}
    with report.open("ab") as file:
        append_line(report, file.fileno(), json.dumps(line).encode() + b"\n")


def show_table(found: Sequence[Found], names: list[str], markdown: bool) -> None:
    """Print what caught each fault: in Markdown with a column for each driver."""
    rows = [*rows_of([one for one in found if one.trial.fault is not None], names)]
    if markdown:
        head = ["fault", "app", *names]
        for row in (head, ["---"] * len(head), *rows):
            print(markdown_row(row))
        print()
    else:
        joined = tuple(with_drivers(row, names) for row in rows)
        show([Table("what caught each fault", COLUMNS, joined)])


def conclude(found: Sequence[Found], everything: bool) -> int:
    """Print what went wrong, and the counts; returns the exit status."""
    status, lines = conclusion(found, everything)
    say(lines)
    return status


def conclusion(found: Sequence[Found], everything: bool) -> tuple[int, list[str]]:
    """The exit status; what went wrong, in lines, and the counts."""
    wrong = [one for one in found if one.trial.fault is not None]
    late = [one for one in found if one.out_of_time]
    failed = [one for one in found if one.caught and not one.acted and not one.out_of_time]
    survived = [one for one in wrong if one.survived]
    tried, acted = ({one.trial.fault for one in ones} for ones in (wrong, acting(wrong)))
    idle = sorted(map(str, tried - acted)) if everything else []
    lines = [f"{FAILS[one.trial.fault is None]}: {place(one)}: {one.caught}" for one in failed]
    again = [one for one in found if one.disturbed and not one.out_of_time]
    lines += [f"disturbed: {place(one)}: ran out of time, and was made again" for one in again]
    twice = "ran out of time twice, so it shows nothing"
    lines += [f"{twice}: {place(one)}: {one.caught}" for one in late]
    lines += [f"survives: {place(one)}" for one in survived]
    misfits = [one for one in wrong if one.is_misfit]
    lines += [f"not a fault, as it does not fit: {place(one)}: {one.caught}" for one in misfits]
    allowed = [one for one in acting(wrong) if not one.caught and not one.survived]
    lines += [f"allowed: {place(one)}: {one.allowed}" for one in allowed]
    lines += [f"changes nothing anywhere: {name}" for name in idle]
    lines += [*drivers.left_out(), *simulated.left_out()]
    lines += [summary(len(acted), len(acting(wrong)), len(survived))]
    return WRONG if failed or late or survived or misfits or idle else VALID, lines


def place(one: Found) -> str:
    """The fault, app and driver of a trial."""
    trial = one.trial
    return ": ".join(filter(None, [trial.fault, f"{trial.app}, {trial.driver}"]))


def summary(faults: int, trials: int, survived: int) -> str:
    """How many faults act, in how many trials, and in how many of these nothing catches them."""
    act = "acts" if faults == 1 else "act"
    survive = "survives" if survived == 1 else "survive"
    where = f"{counted(faults, 'fault')} {act} in {counted(trials, 'trial')}"
    return f"{where}; {survived} of these {survive}"


def acting(found: Sequence[Found]) -> list[Found]:
    """The trials in which the fault has changed something."""
    return [one for one in found if one.acted]


def rows_of(found: Sequence[Found], names: list[str]) -> Iterator[list[str]]:
    """A row for each fault and app in which it acts: what caught it under each driver."""
    cells = {
        (str(one.trial.fault), one.trial.app, one.trial.driver): shown(one) for one in acting(found)
    }
    for fault, app in sorted({(fault, app) for fault, app, _ in cells}):
        yield [fault, app, *(cells.get((fault, app, name), NOT_THERE) for name in names)]


def with_drivers(row: list[str], names: list[str]) -> tuple[str, str, str]:
    """A row of `rows_of` in which one cell says what caught the fault under which drivers."""
    fault, app, *cells = row
    under: dict[str, list[str]] = {}
    for name, cell in zip(names, cells, strict=True):
        if cell != NOT_THERE:
            under.setdefault(cell, []).append(name)
    return fault, app, "; ".join(f"{', '.join(some)}: {cell}" for cell, some in under.items())


def shown(one: Found) -> str:
    """What caught a fault: the first of the checks, and how many more; or the error, in short."""
    if not one.caught:
        return SURVIVED if one.survived else ALLOWED
    checks = one.caught.split(", ")
    if one.caught.startswith(ENDS) or len(checks) == 1:
        return textwrap.shorten(one.caught, LONGEST, placeholder="…")
    return f"{checks[0]} and {len(checks) - 1} more"
