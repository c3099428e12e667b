"""``miniapps demo``: every app under every driver, validated, timed, tabulated and plotted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import drivers
import miniapps
from workbench import environment
from workbench.exit_status import FAILED, VALID, WRONG
from workbench.run import output
from workbench.run.cases import Case, spec_of
from workbench.run.execute import solve
from workbench.show.plots import plot_step_times

STEPS = 100


def configurations() -> Iterator[Case]:
    """The cases in which each app runs: all drivers, one PE per core, at most two PEs."""
    pes = min(2, environment.cores())
    for driver in drivers.usable():
        name = driver.name
        yield Case(name, 1 if driver.one_pe else pes)
        if driver.over_decomposition:
            yield Case(name, pes, 4)
        if driver.balancers:
            yield Case(name, pes, 4, driver.balancers[0], 30)


def demo(folder: Path) -> int:
    """Run every app in every case; returns the exit status of the worst run."""
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    table = Table(title="every app under every driver: the same problem, the same bits")
    for column in ("app", "run", "valid", "state", "ms per step", "rate", "utilisation"):
        table.add_column(column, overflow="fold")
    records: list[dict[str, Any]] = []
    status = VALID
    for app in miniapps.names():
        for case in configurations():
            console.print(f"running {app}, {case} ...", style="dim")
            result = solve(spec_of(app, case, "small", STEPS))
            if isinstance(result, int):
                table.add_row(app, str(case), f"[red]failed: status {result}[/]")
                status = max(status, FAILED)
                continue
            records.append(result)
            table.add_row(*_row(app, case, result))
            if not result["valid"] or result["state_hash"] != _first(records, app):
                status = max(status, WRONG)
    console.print(table)
    for line in drivers.left_out():
        console.print(line, soft_wrap=True, markup=False)
    output.write_text(folder / "records.json", json.dumps(records, indent=1) + "\n")
    figure = plot_step_times(records, folder / "step_times.png")
    console.print(f"figure: {figure}\nrecords: {folder / 'records.json'}")
    return status


def _first(records: list[dict[str, Any]], app: str) -> str:
    """The state hash of an app's first run, which all its other runs must have too."""
    return next(r["state_hash"] for r in records if r["app"] == app)


def _row(app: str, case: Case, result: dict[str, Any]) -> list[str]:
    state = result["state_hash"][:8]
    if not result["valid"]:
        return [app, str(case), "[red]WRONG[/]", state]
    rate = result["rate"]
    return [
        app,
        str(case),
        "[green]yes[/]",
        state,
        f"{result['step_time_s']['median'] * 1e3:.4g}",
        f"{rate['value']:.3g} {rate['unit']}",
        f"{result['utilisation']:.0%}",
    ]
