"""``miniapps demo``: what the collection is for, in about a minute.

Apps run one problem under every driver, and all must end in the same bits. Then a problem whose
load is uneven runs with and without over-decomposition and load balancing. An app takes part by its
presets: `SCALING` for the first, `UNEVEN` for the second.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from miniapps import apps, drivers
from miniapps.workbench import environment
from miniapps.workbench.exit_status import FAILED, VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.run.batch import Result, solve_all
from miniapps.workbench.run.cases import Case, spec_of
from miniapps.workbench.run.record import DISTURBED, disturbed
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.writable import check_writable, make_folder
from miniapps.workbench.show.demo_figure import figure_of, named
from miniapps.workbench.show.marks import write

SCALING, UNEVEN = "demo", "uneven"  # presets
RECORDS = "records.json"
ODF = 8
BALANCER = "GreedyRefine"  # moves fewer blocks than others
PERIOD, FIRST = 100, 15  # steps between balancing, and where it begins: soon after the warm-up


def scaling_cases() -> list[Case]:
    """Every driver, with one block per PE."""
    return [Case(driver.name, 1 if driver.one_pe else pes()) for driver in drivers.usable()]


def uneven_cases() -> Iterator[Case]:
    """Drivers that studies compare: one block per PE, several, and several with load balancing."""
    several = [driver for driver in drivers.usable() if driver.studied and not driver.one_pe]
    for driver in sorted(several, key=lambda driver: driver.over_decomposition):
        yield Case(driver.name, pes())
        if driver.over_decomposition:
            yield Case(driver.name, pes(), ODF)
        if driver.balancers:
            name = BALANCER if BALANCER in driver.balancers else driver.balancers[0]
            yield Case(driver.name, pes(), ODF, name, PERIOD)


def pes() -> int:
    """One PE per core, at most two PEs."""
    return min(2, environment.cores())


def demo(folder: Path) -> int:
    """Make all runs, print two tables and draw a figure; returns the worst exit status.

    Raises InputError if the folder cannot be written to.
    """
    make_folder("--folder", folder)
    check_writable("--folder", folder / RECORDS)
    console = Console(highlight=False)
    loaded, notes = apps.load_all()
    asked = [(SCALING, case) for case in scaling_cases()]
    asked += [(UNEVEN, case) for case in uneven_cases()]
    runs = [
        (preset, app, case)
        for preset, case in asked
        for app, module in loaded.items()
        if preset in module.Problem.presets
    ]
    console.print(f"{counted(len(runs), 'run')}, in about a minute ...", style="dim")
    specs = [spec_of(app, case, preset, lb_first=FIRST) for preset, app, case in runs]
    results = solve_all(specs)
    found = {run: result for run, result in zip(runs, results, strict=True)}
    status = max(print_scaling(console, found), print_uneven(console, found))
    records = {run: result for run, result in found.items() if isinstance(result, dict)}
    notes += drivers.left_out()
    worst = max(map(disturbed, records.values()), default=0.0)
    if worst > DISTURBED:
        share = f"{worst:.0%} of a PE's time"
        notes.append(f"DISTURBED: other programs took up to {share}; times are too long")
    for line in notes:
        console.print(line, soft_wrap=True, markup=False)
    write_text(folder / RECORDS, json.dumps([*records.values()], indent=1) + "\n")
    scaling, uneven = (
        [record for run, record in records.items() if run[0] == preset]
        for preset in (SCALING, UNEVEN)
    )
    figure = write(figure_of(scaling, uneven), folder / "demo.png")
    console.print(f"\nfigure: {figure}\nrecords: {folder / RECORDS}", markup=False)
    console.print("\nWhat to try next:", *further(runs), sep="\n", markup=False, soft_wrap=True)
    return status


def further(runs: Sequence[tuple[str, str, Case]]) -> list[str]:
    """Commands that show more of what the last run showed; first how to find `miniapps`."""
    preset, app, case = runs[-1]
    balancing = f"--balancer {case.balancer} --lb-period {case.lb_period}" if case.balancer else ""
    return [
        *([] if shutil.which("miniapps") else [f"  . {sys.prefix}/bin/activate"]),
        f"  miniapps run {app} --preset {preset} --driver {case.driver} -n {case.pes} \\",
        f"      --odf {case.odf} {balancing} --output run.h5",
        "  miniapps plot run.h5 --animation    # where each block was, and what it took",
        f"  miniapps study strong {app} --preset {SCALING}    # repeated, with intervals",
        f"  miniapps verify {app}    # the same bits from every decomposition",
    ]


Runs = dict[tuple[str, str, Case], Result]


def print_scaling(console: Console, found: Runs) -> int:
    """A row per app: its step time under every driver, and whether all states are the same."""
    cases = scaling_cases()
    table = Table(title="One problem per app: milliseconds per step", box=box.SIMPLE)
    table.add_column("app")
    for case in cases:
        table.add_column(named(case.driver, case.pes), justify="right")
    table.add_column("same bits", justify="center")
    status = VALID
    for app in dict.fromkeys(app for preset, app, _ in found if preset == SCALING):
        mine = [found[SCALING, app, case] for case in cases]
        status = max(status, status_of(mine))
        tick = "[green]✓[/]" if status_of(mine) == VALID else "[red]NO[/]"
        table.add_row(app, *map(step_cell, mine), tick)
    console.print(table)
    return status


def print_uneven(console: Console, found: Runs) -> int:
    """A row per configuration of the problem whose load is uneven."""
    status = VALID
    for app in dict.fromkeys(app for preset, app, _ in found if preset == UNEVEN):
        mine = {case: found[UNEVEN, app, case] for case in uneven_cases()}
        status = max(status, status_of([*mine.values()]))
        table = Table(title=f"{app} with an uneven load: milliseconds per step", box=box.SIMPLE)
        for title in ("configuration", "ms per step", "imbalance", "same bits"):
            table.add_column(title, justify="left" if title == "configuration" else "right")
        for case, result in mine.items():
            same = status_of([*mine.values()][:1] + [result]) == VALID
            uneven = imbalance_cell(result)
            tick = "[green]✓[/]" if same else "[red]NO[/]"
            name = named(case.driver, case.pes, case.odf, case.balancer)
            table.add_row(name, step_cell(result), uneven, tick)
        console.print(table)
    return status


def step_cell(result: Result) -> str:
    """The mean time of a step, in ms; what is wrong if there is none."""
    if isinstance(result, str):
        return "[red]failed[/]"
    if not result["valid"]:
        return "[red]WRONG[/]"
    return f"{result['wall_s'] / result['steps'] * 1e3:.2f}"


def imbalance_cell(result: Result) -> str:
    """The imbalance of a run, if it has one."""
    if isinstance(result, str) or not result["valid"]:
        return "-"
    return f"{result['imbalance']:.2f}"


def status_of(results: Sequence[Result]) -> int:
    """The exit status of runs of one problem: all must be valid, and end in the same state."""
    if any(isinstance(result, str) for result in results):
        return FAILED
    records = [result for result in results if isinstance(result, dict)]
    states = {record["state_hash"] for record in records}
    valid = all(record["valid"] for record in records)
    return VALID if valid and len(states) == 1 else WRONG
