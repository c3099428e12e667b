"""The output of a benchmark: text as OMB-Py prints it, and a table with commas between.

Lines that begin with # are comments; every other line has the size of the messages and then
numbers. So programs that read OMB's output read this one. docs/comm.md explains the columns.
"""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miniapps import communication
from miniapps.communication.catalogue import CATALOGUE, OVERLAP, RATE, Benchmark
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.quoting import csv_of
from miniapps.workbench.run.record import DISTURBED, crowded, disturbed, disturber
from miniapps.workbench.run.replaced import write_text

SIZE_WIDTH, WIDTH, NARROW = 10, 18, 12  # of OMB's columns


@dataclass(frozen=True)
class Column:
    """A column of numbers: its title, its key in a row of results, its width, its format.

    A key that is a number is that of a percentile.
    """

    title: str
    key: str | int
    least: int = WIDTH
    form: str = ".2f"

    @property
    def width(self) -> int:
        """Its width: that of OMB, or more for a longer title."""
        return max(self.least, len(self.title) + 2)

    def cell(self, row: dict[str, Any]) -> str:
        """The number as text, aligned; a value that is missing is nan."""
        value = row["percentiles"][self.key] if isinstance(self.key, int) else row[self.key]
        return format(math.nan if value is None else value, f"{self.width}{self.form}")


def lines(record: dict[str, Any], results: list[dict[str, Any]], full: bool) -> Iterator[str]:
    """The lines of the text."""
    benchmark = CATALOGUE[record["benchmark"]]
    yield f"# OMB Python {communication.get(record['driver']).title} {benchmark.title} Test"
    if benchmark.counts_messages:
        pairs = record["pes"] // 2
        yield f"# [ pairs: {pairs} ] [ window size: {record['window']} ]"
    columns = list(_columns(benchmark, record, full))
    yield _heading(benchmark, columns)
    for row in results:
        size = f"{row['size']:<{SIZE_WIDTH}}" if benchmark.sized else ""
        yield size + "".join(column.cell(row) for column in columns)
    for note in notes(record, results):
        yield f"# {note}"


def _heading(benchmark: Benchmark, columns: list[Column]) -> str:
    """The line of titles."""
    titles = "".join(f"{column.title:>{column.width}}" for column in columns)
    return f"{'# Size (B)':<{SIZE_WIDTH}}{titles}" if benchmark.sized else f"# {titles[2:]}"


def _columns(benchmark: Benchmark, record: dict[str, Any], full: bool) -> Iterator[Column]:
    """The columns: the ones of OMB, and with -f the bounds of the interval."""
    if benchmark.measures == RATE:
        yield from _rates(benchmark)
    elif benchmark.measures == OVERLAP:
        yield from _overlaps(full)
    else:
        yield Column("Avg Latency(us)" if full else "Latency (us)", "value")
    unit = f"({benchmark.unit})"
    if full:
        what = "BW" if benchmark.measures == RATE else "Latency"
        yield Column(f"Min {what}{unit}", "least")
        yield Column(f"Max {what}{unit}", "most")
        yield Column("Iterations", "iterations", NARROW, "d")
    for number, percent in enumerate(record["percentiles"]):
        tail = "Window(us)" if benchmark.windowed else "Tail Lat(us)"
        yield Column(f"P{percent:.15g} {tail}", number)
    if full:
        yield Column(f"99% Low{unit}", "low")
        yield Column(f"99% High{unit}", "high")
    if record["touch"] != "none":
        yield Column("Touch(us)", "touch_us")
        if "unchanged" in record["measured"][0]:
            yield Column(f"Unchanged{unit}", "unchanged")


def _rates(benchmark: Benchmark) -> Iterator[Column]:
    if benchmark.counts_messages:
        yield Column("MB/s", "value")
        yield Column("Messages/s", "messages_per_s")
    else:
        yield Column("Bandwidth (MB/s)", "value")


def _overlaps(full: bool) -> Iterator[Column]:
    yield Column("Overall(us)", "value")
    yield Column("Compute(us)", "compute_us")
    if full:
        yield Column("Coll. Init(us)", "begin_us")
        yield Column("MPI_Wait(us)", "wait_us")
    yield Column("Pure Comm.(us)", "pure_us")
    yield Column("Overlap(%)", "overlap_percent")


def notes(record: dict[str, Any], results: list[dict[str, Any]]) -> Iterator[str]:
    """What a reader must know about the numbers, in sentences."""
    trials = counted(record["trials"], "trial")
    widths = [_half_width(row) for row in results]
    known = [width for width in widths if width is not None]
    spread = f"; 99 % intervals within {max(known):.1%} of the mean" if known else ""
    yield f"mean of {trials}, sizes in another order in each{spread}"
    yield f"a barrier before each measurement; it takes {record['barrier_us']:.2f} us"
    if record["valid"] is None:
        yield "NOT CHECKED: no byte of any message"
    else:
        yield "checked: every byte of every message of the iterations before the trials"
    if record["touch"] != "none":
        yield "touched: the time of touching alone is in the column Touch, and not in the others"
    yield from warnings([record])


def warnings(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Why the numbers of records are not to be quoted, in sentences."""
    worst = max(records, key=disturbed)
    if disturbed(worst) > DISTURBED:
        yield f"DISTURBED: {disturber(worst)}; times are too long"
    if worst["oversubscribed"]:
        yield f"oversubscribed: {crowded(worst, 'rank')}; no speed to quote"


def written(options: Namespace, record: str, table: str | None, wrong: str | None) -> int:
    """Write a record and a table where asked to; the exit status. ``wrong``: data, if some were."""
    if options.json == "-":
        print(record)
    elif options.json is not None:
        write_text(Path(options.json), record + "\n")
    if options.csv and table is not None:
        write_text(options.csv, table)
    if wrong:
        print(f"miniapps: wrong data: {wrong}", file=sys.stderr)
    return WRONG if wrong else VALID


def _half_width(row: dict[str, Any]) -> float | None:
    """Half the width of a row's interval relative to its value."""
    if row["low"] is None or row["high"] is None or not row["value"]:
        return None
    return float((row["high"] - row["low"]) / 2 / row["value"])


def table(record: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The results as comma-separated values, a line for each size."""
    unit = CATALOGUE[record["benchmark"]].unit
    keys = ("benchmark", "driver", "pes", "buffer", "pickle", "touch", "method")
    same = {key: record[key] for key in keys}
    made = []
    for row in results:
        row = dict(row)
        each = zip(record["percentiles"], row.pop("percentiles", ()), strict=False)
        made.append(
            same | {"unit": unit} | row | {f"p{percent:.15g}_us": us for percent, us in each}
        )
    return csv_of(made)
