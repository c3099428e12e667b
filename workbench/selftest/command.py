"""The command: makes all trials, shows the table fault x app x driver, and counts."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

import drivers
import miniapps
from workbench.exit_status import VALID, WRONG
from workbench.selftest.trials import ENDS, Found, solve, trials

NOT_THERE = "·"  # where a fault changes nothing
SURVIVED = "SURVIVED"
HARMLESS = "harmless"
LONGEST = 48  # letters of an error
WIDTH = 200  # columns of the table; a terminal wraps its lines


def selftest(apps: list[str], names: list[str], words: str | None, markdown: bool) -> int:
    """Try every fault in every app under every driver, show a table; returns the exit status.

    ``names``: the drivers; ``words``: part of the faults' names. The status is 1 if a fault
    survives, if the right program fails, or, where all are tried, if a fault acts nowhere.
    """
    with tempfile.TemporaryDirectory(prefix="miniapps-") as folder:
        found = list(solve(list(trials(apps, names, words, Path(folder)))))
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
    everything = words is None and {*apps} == {*miniapps.names()} and {*names} == {*drivers.names()}
    return conclude(found, everything)


def conclude(found: Sequence[Found], everything: bool) -> int:
    """Print what went wrong, and the counts; returns the exit status."""
    wrong = [one for one in found if one.trial.fault is not None]
    failed = [one for one in found if one.trial.fault is None and one.caught]
    survived = [one for one in wrong if one.survived]
    tried, acted = ({one.trial.fault for one in ones} for ones in (wrong, acting(wrong)))
    idle = sorted(map(str, tried - acted)) if everything else []
    for one in failed:
        print(f"the right program fails: {one.trial.app}, {one.trial.driver}: {one.caught}")
    for one in survived:
        print(f"survives: {one.trial.fault}: {one.trial.app}, {one.trial.driver}")
    for one in wrong:
        if one.acted and not one.caught and not one.survived:
            print(f"harmless: {one.trial.fault}: {one.trial.app}: {one.harmless}")
    for name in idle:
        print(f"changes nothing anywhere: {name}")
    for line in drivers.left_out():
        print(line)
    trials = len(acting(wrong))
    print(f"{len(acted)} faults act in {trials} trials; {len(survived)} of these survive")
    return WRONG if failed or survived or idle else VALID


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
        return SURVIVED if one.survived else HARMLESS
    checks = one.caught.split(", ")
    if one.caught.startswith(ENDS) or len(checks) == 1:
        return textwrap.shorten(one.caught, LONGEST, placeholder="…")
    return f"{checks[0]} and {len(checks) - 1} more"
