"""``miniapps comm anatomy``: what the calls that move a message consist of.

Under MPI that is measured at each thread level. MPI is started once per process, so each level is a
launch of its own. They are made in turns, because where the system places the ranks can matter more
than the level.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from miniapps import communication
from miniapps.communication.anatomy import LIBRARY, PARTS, Row, rows
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.comm.text import warnings, written
from miniapps.workbench.plural import counted
from miniapps.workbench.quoting import csv_of
from miniapps.workbench.run import launch
from miniapps.workbench.study.statistics import mean_interval
from miniapps.workbench.table import NONE, Column, Table, show

LAUNCHES = 3  # of each level
COMPARED = 3  # calls in the table of thread levels: the runtime's first ones


def comm_anatomy(spec: CommSpec, options: argparse.Namespace, runtime: list[str]) -> int:
    """Measure one thread level, or all; returns the exit status."""
    asked = spec.settings.thread_level
    known = communication.get(spec.driver).thread_levels[::-1]
    levels = [asked] if asked or not known else known
    records = []
    for level in [*levels] * LAUNCHES:
        one = replace(spec, settings=replace(spec.settings, thread_level=level))
        command = launch.command(one, runtime, options.launcher)
        record = launch.launch(one, command, options.stall)
        if isinstance(record, int):
            return record
        records.append(record)
        if record["wrong"]:
            break
    return deliver(records, options)


def deliver(records: Sequence[dict[str, Any]], options: argparse.Namespace) -> int:
    """Show the records of all thread levels and write the requested files; the exit status."""
    wrong = records[-1]["wrong"]
    found = [] if wrong else rows_of(records)
    made = {
        "schema": records[0]["schema"],
        "benchmark": records[0]["benchmark"],
        "valid": not wrong,
        "results": [described(row) for row in found],
        "launches": records,
    }
    if found and options.json != "-":
        show(tables(records, found))
    return written(options, json.dumps(made), csv_of(made["results"]) if found else None, wrong)


def rows_of(records: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows of all thread levels, in the order in which they were launched first."""
    levels: dict[str | None, list[dict[str, Any]]] = {}
    for record in records:
        levels.setdefault(record["thread_level"], []).append(record)
    return [row for launches in levels.values() for row in rows(launches)]


def described(row: Row) -> dict[str, Any]:
    """A row with plain names; us per message."""
    mean = mean_interval(row.trials)
    known = mean.low == mean.low  # a single trial has no bounds
    return {
        "thread_level": row.level,
        "size": row.size,
        "call": row.call,
        "whole_us": row.whole,
        "mean_us": mean.value,
        "low_us": mean.low if known else None,
        "high_us": mean.high if known else None,
        **{f"{part}_us": row.parts.get(part) for part in PARTS},
    }


def tables(records: Sequence[dict[str, Any]], found: Sequence[Row]) -> list[Table]:
    """A table of parts for each size, at the first level; one of levels if there are several."""
    levels = list(dict.fromkeys(row.level for row in found))
    first = [row for row in found if row.level == levels[0]]
    made = [
        parts_table(size, [row for row in first if row.size == size])
        for size in dict.fromkeys(row.size for row in first)
    ]
    made += [sides_table(records)] if communication.get(records[0]["driver"]).sides else []
    if len(levels) > 1:
        compared = list(communication.get(records[0]["driver"]).anatomy)[:COMPARED]
        made.append(levels_table([row for row in found if row.path in compared], levels))
    return [*made[:-1], replace(made[-1], notes=tuple(notes(records)))]


def parts_table(size: int | None, found: Sequence[Row]) -> Table:
    """The parts of all calls for one size; without one, of calls of nothing to the own rank."""
    columns = (Column("call"), *(Column(name, numeric=True) for name in ("whole", *PARTS)))
    cells = tuple(
        (row.call, number(row.whole), *(number(row.parts.get(part)) for part in PARTS))
        for row in found
    )
    title = f"{size} B, us per message" if size is not None else "nothing to the own rank, us"
    level = found[0].level
    return Table(title if level is None else f"{title}, thread level {level}", columns, cells)


def sides_table(records: Sequence[dict[str, Any]]) -> Table:
    """What only one rank does for a message, for all sizes: the fastest of all trials."""
    names = communication.get(records[0]["driver"]).sides
    sizes = list(records[0]["sides"])

    def fastest(side: str, size: str) -> float:
        return min(us for record in records for us in record["sides"][size][side])

    cells = tuple(
        (title, *(number(fastest(side, size)) for size in sizes)) for side, title in names.items()
    )
    columns = (Column("call"), *(Column(f"{size} B", numeric=True) for size in sizes))
    return Table("one side of a message to the own rank, us", columns, cells)


def levels_table(found: Sequence[Row], levels: Sequence[str | None]) -> Table:
    """The whole time of some calls at all thread levels."""
    whole = {(row.level, row.size, row.path): row.whole for row in found}
    calls = {(row.size, row.path): row.call for row in found}
    cells = tuple(
        (call, str(size), *(number(whole.get((level, size, path))) for level in levels))
        for (size, path), call in calls.items()
    )
    columns = (Column("call"), *(Column(name, numeric=True) for name in ("B", *map(str, levels))))
    return Table("thread levels, us per message", columns, cells)


def notes(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What a reader must know about the numbers."""
    first = records[0]
    alike = [record for record in records if record["thread_level"] == first["thread_level"]]
    trials = counted(sum(record["trials"] for record in alike), "trial")
    library = " ".join(first["library"].split())
    yield f"{library}; the fastest of {trials}; every byte was checked"
    if first["without_c"]:
        yield f"no ping-pong in C, so {LIBRARY} and rest are not known: {first['without_c']}"
    provided = {r["thread_level"]: r["provided_level"] for r in records}
    for asked, got in provided.items():
        if asked != got:
            yield f"asked for thread level {asked}, MPI provides {got}"
    yield from first.get("notes", ())
    yield from warnings(records)


def number(value: float | None) -> str:
    """Microseconds, with two digits after the point."""
    return NONE if value is None else f"{value:.2f}"
