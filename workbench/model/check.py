"""`miniapps model check`: the model against published tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.model import machine as machines
from miniapps.workbench.model.fitting import corrected
from miniapps.workbench.model.formula import values
from miniapps.workbench.model.machine import Machine
from miniapps.workbench.model.published import TABLES, Published, Row
from miniapps.workbench.run.writable import check_figure
from miniapps.workbench.show.marks import write
from miniapps.workbench.study.cells import columns_of, number
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.table import Table, show

HOLDS, FAILS = "holds", "fails"


@dataclass(frozen=True)
class Checked:
    """A row with its prediction."""

    row: Row
    predicted_s: float
    limit: float

    @property
    def error(self) -> float:
        """Predicted over published, less 1; 0 within a published interval, else to its bound."""
        near = min(max(self.predicted_s, self.row.low_s), self.row.high_s)
        return self.predicted_s / near - 1

    @property
    def holds(self) -> bool:
        """Whether the prediction is near enough."""
        return abs(self.error) <= self.limit


def predictions(table: Published, rows: Sequence[Row], machine: Machine) -> list[Checked]:
    """Each row predicted: by costs that fit the other rows, if any are fitted to this table."""
    start = only_free(machine, table.free)
    found = []
    for row in rows:
        others = [other for other in rows if other.fitted and other is not row]
        costs = corrected(start, others) if table.free else machine
        seconds = float(row.counts.seconds(values(costs, row.counts.names)))
        found.append(Checked(row, seconds, table.limit))
    return found


def only_free(machine: Machine, free: Sequence[str]) -> Machine:
    """The machine with no room for costs that are not fitted."""
    costs = {
        name: cost if name in free else Interval(cost.value, cost.value, cost.value)
        for name, cost in machine.costs.items()
    }
    return dataclasses.replace(machine, costs=costs)


def machine_of(table: Published) -> Machine:
    """The machine of a table, with the costs that fit another table if it says so."""
    machine = machines.read(table.machine)
    for other in TABLES:
        if other.title == table.given:
            fitted = [row for row in other.rows(machine) if row.fitted]
            return corrected(only_free(machine, other.free), fitted)
    return machine


def check(figure: Path | None = None) -> int:
    """Print a table per published table; WRONG if one that should hold fails, or vice versa.

    ``figure``: a file for a drawing of them. Raises InputError for one that cannot be written.
    """
    check_figure(figure)
    wrong, shown, drawn = False, [], {}
    for table in TABLES:
        machine = machine_of(table)
        found = predictions(table, table.rows(machine), machine)
        counts = [one for one in found if one.row.fitted or not table.free]
        holds = all(one.holds for one in counts)
        wrong |= holds == (table.fails is not None)
        shown.append(_table(table, found, holds))
        drawn[table.title] = [(one.row, one.predicted_s) for one in found]
    show(shown)
    if figure is not None:
        from miniapps.workbench.show.model_figure import checked_figure

        print(write(checked_figure(drawn), figure))
    return WRONG if wrong else VALID


def _table(table: Published, found: Sequence[Checked], holds: bool) -> Table:
    """The table of the terminal."""
    rows = tuple(_cells(one, table) for one in found)
    columns = columns_of("run", "#published, ms", "#predicted, ms", "#error", "result")
    limit = f"{table.limit:.0%}"
    largest = max(abs(one.error) for one in found if one.row.fitted or not table.free)
    result = f"{HOLDS if holds else FAILS}: largest error {largest:.1%}, limit {limit}"
    notes = [result, table.note, *([f"Why it fails: {table.fails}"] if table.fails else [])]
    fitted = f", fitted: {', '.join(table.free)}, each row from the others" if table.free else ""
    title = f"{table.title} (studies/published/{table.file}.json; {table.machine}{fitted})"
    return Table(title, columns, rows, tuple(notes))


def _cells(one: Checked, table: Published) -> tuple[str, ...]:
    row = one.row
    published = number(row.published_s * 1e3)
    if row.high_s > row.low_s:
        published = f"{number(row.low_s * 1e3, 3)} to {number(row.high_s * 1e3, 3)}"
    counted = row.fitted or not table.free
    result = (HOLDS if one.holds else FAILS) if counted else f"not fitted: {_word(one)}"
    return row.label, published, number(one.predicted_s * 1e3), f"{one.error:+.1%}", result


def _word(one: Checked) -> str:
    """How a row that does not count fares."""
    if one.row.high_s > one.row.low_s and math.isclose(one.error, 0.0):
        return "within the published interval"
    return HOLDS if one.holds else FAILS
