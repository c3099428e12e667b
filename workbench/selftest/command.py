"""The command: makes all trials, shows the table fault x app x driver, and counts."""

from __future__ import annotations

import json
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

import drivers
import miniapps
from miniapps.parameters import require
from workbench.exit_status import VALID, WRONG
from workbench.plural import counted
from workbench.selftest import simulated
from workbench.selftest.trials import ENDS, SCALES, TINY, Found, Scale, Trial, solve, trials

NOT_THERE = "·"  # where a fault changes nothing
SURVIVED = "SURVIVED"
ALLOWED = "allowed"
LONGEST = 48  # letters of an error
WIDTH = 200  # columns of the table; a terminal wraps its lines


@dataclass(frozen=True)
class Asked:
    """What to try: the drivers' ``names``, a part of the faults' names, and how large runs are.

    ``drawn``: how many trials to draw of each app and driver; None: all. ``report``: a file of
    JSON Lines, to which each trial is appended as it ends. Raises InputError.
    """

    apps: list[str]
    names: list[str]
    words: str | None = None
    preset: str = TINY.preset
    drawn: int | None = None
    report: Path | None = None

    def __post_init__(self) -> None:
        names = ", ".join(SCALES)
        require(self.preset in SCALES, "--preset", self.preset, f"must be one of: {names}")
        require(self.drawn is None or self.drawn > 0, "--draw", self.drawn, "must be 1 or more")

    @property
    def everything(self) -> bool:
        """Whether every fault is tried wherever it may act."""
        some = self.words is not None or self.drawn is not None or self.preset != TINY.preset
        whole = {*self.apps} == {*miniapps.names()} and {*self.names} == {*drivers.names()}
        return whole and not some

    def columns(self, found: Sequence[Found]) -> list[str]:
        """The columns of the table: the drivers, and a simulated GPU where one was tried."""
        tried = {one.trial.driver for one in found}
        return [*self.names, *sorted(tried - {*self.names})]

    def trials(self, marks: Path) -> list[Trial]:
        """The trials to make; the right program's are always among them."""
        every = list(trials(self.apps, self.names, self.words, marks, self.preset))
        if self.drawn is None:
            return every
        groups: dict[tuple[str, str], list[Trial]] = {}
        for trial in every:
            groups.setdefault((trial.app, trial.driver), []).append(trial)
        draw = Random(0)
        return [
            trial
            for right, *wrong in groups.values()
            for trial in (right, *draw.sample(wrong, min(self.drawn, len(wrong))))
        ]


def selftest(asked: Asked, markdown: bool) -> int:
    """Try faults in apps under drivers, show a table; returns the exit status.

    The status is 1 if a fault survives, if the right program fails, or, where all are tried, if a
    fault acts nowhere.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="miniapps-") as folder:
        for one in made(asked.trials(Path(folder)), SCALES[asked.preset]):
            found.append(one)
            if asked.report is not None:
                append(asked.report, one)
    names = asked.columns(found)
    rows = [*rows_of([one for one in found if one.trial.fault is not None], names)]
    head = ["fault", "app", *names]
    if markdown:
        for row in (head, ["---"] * len(head), *rows):
            print(f"| {' | '.join(row)} |")
        print()
    else:
        table = Table(*head, title="what caught each fault")
        for row in rows:
            table.add_row(*row)
        Console(width=WIDTH).print(table, soft_wrap=True, markup=False)
    return conclude(found, asked.everything)


def made(trials: list[Trial], scale: Scale) -> Iterator[Found]:
    """Make all trials; without the reference, those that survive again with every round audited."""
    again = []
    for one in solve(trials, scale):
        if one.survived and scale != TINY:
            again.append(one.trial.thorough())
        else:
            yield one
    if again:
        yield from solve(again, scale)


def append(report: Path, one: Found) -> None:
    """Append a trial to a report, as docs/validation.md describes it."""
    trial = one.trial
    line = {
        "preset": trial.preset,
        "fault": trial.fault,
        "app": trial.app,
        "driver": trial.driver,
        "every_round_audited": trial.is_thorough,
        "acted": one.acted,
        "caught": one.caught,
        "allowed": one.allowed if one.acted and not one.caught else "",
    }
    with report.open("a") as file:
        file.write(json.dumps(line) + "\n")


def conclude(found: Sequence[Found], everything: bool) -> int:
    """Print what went wrong, and the counts; returns the exit status."""
    wrong = [one for one in found if one.trial.fault is not None]
    failed = [one for one in found if one.trial.fault is None and one.caught]
    unsaid = [one for one in wrong if one.caught and not one.acted]
    survived = [one for one in wrong if one.survived]
    tried, acted = ({one.trial.fault for one in ones} for ones in (wrong, acting(wrong)))
    idle = sorted(map(str, tried - acted)) if everything else []
    for one in failed:
        print(f"the right program fails: {one.trial.app}, {one.trial.driver}: {one.caught}")
    for one in unsaid:
        where = f"{one.trial.fault}: {one.trial.app}, {one.trial.driver}"
        print(f"fails, but the fault has changed nothing: {where}: {one.caught}")
    for one in survived:
        print(f"survives: {one.trial.fault}: {one.trial.app}, {one.trial.driver}")
    for one in wrong:
        if one.acted and not one.caught and not one.survived:
            print(f"allowed: {one.trial.fault}: {one.trial.app}: {one.allowed}")
    for name in idle:
        print(f"changes nothing anywhere: {name}")
    for line in (*drivers.left_out(), *simulated.left_out()):
        print(line)
    print(summary(len(acted), len(acting(wrong)), len(survived)))
    return WRONG if failed or survived or idle else VALID


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


def shown(one: Found) -> str:
    """What caught a fault: the first of the checks, and how many more; or the error, in short."""
    if not one.caught:
        return SURVIVED if one.survived else ALLOWED
    checks = one.caught.split(", ")
    if one.caught.startswith(ENDS) or len(checks) == 1:
        return textwrap.shorten(one.caught, LONGEST, placeholder="…")
    return f"{checks[0]} and {len(checks) - 1} more"
