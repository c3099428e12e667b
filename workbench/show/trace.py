"""The trace of a run in Chrome's trace-event format, for Perfetto and chrome://tracing.

Each PE is a process with one thread of complete events: *compute* and *pack* are the slices of its
blocks; *balance* begins when its last block stops for a load-balancing step and ends when its first
block continues; *wait* is the rest. Times are from each PE's own clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from miniapps.drivers.timing import KIND_NAMES
from miniapps.parameters import InputError
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.show.saved import SavedRun

US = 1e6  # microseconds, the unit of the format, in a second


class Span(NamedTuple):
    """An activity of a PE; times in s, by the PE's clock."""

    begin: float
    end: float
    name: str
    args: dict[str, Any]


def write_trace(source: Path, target: Path) -> Path:
    """Write the trace of a run's file. Raises InputError if the run was not traced."""
    run = SavedRun.read(source)
    if run.slices is None:
        raise InputError("--trace", source, "has no slices: run with --trace")
    write_text(target, json.dumps(trace(run), separators=(",", ":")))
    return target


def trace(run: SavedRun) -> dict[str, Any]:
    """The trace as plain data."""
    events: list[dict[str, Any]] = []
    end = float(run.rows["end_s"].max())
    for pe in range(run.record["pes"]):
        events += [_named("process_name", pe, f"PE {pe}"), _named("thread_name", pe, "blocks")]
        events.append(_named("process_sort_index", pe, pe))
        events += [_event(pe, span) for span in spans(run, pe, end)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"run": run.command(), **run.record["versions"]},
    }


def spans(run: SavedRun, pe: int, end: float) -> Iterator[Span]:
    """The activities of a PE from the common start to ``end``, in order and without gaps."""
    assert run.slices is not None
    mine = run.syncs[run.syncs["pe"] == pe]
    done = sorted([*_slices(run, pe), *_lb_steps(mine)], key=lambda span: span[:2])
    now = 0.0
    for span in (*done, Span(end, end, "", {})):
        if span.begin > now:
            yield Span(now, span.begin, "wait", {})
        if span.name:
            yield span
        now = max(now, span.end)


def _slices(run: SavedRun, pe: int) -> Iterator[Span]:
    assert run.slices is not None
    for row in run.slices[run.slices["pe"] == pe]:
        step = int(run.rounds[row["round"], 0])
        args = {"block": run.name_of(int(row["block"])), "step": step}
        yield Span(float(row["begin_s"]), float(row["end_s"]), KIND_NAMES[row["kind"]], args)


def _lb_steps(syncs: np.ndarray) -> Iterator[Span]:
    """A PE's load-balancing steps; without blocks before or after one, the PE only waited."""
    for row in syncs[np.isfinite(syncs["begin_s"] + syncs["end_s"])]:
        args = {"step": int(row["step"]), "came": int(row["came"])}
        yield Span(float(row["begin_s"]), float(row["end_s"]), "balance", args)


def _named(what: str, pe: int, name: Any) -> dict[str, Any]:
    key = "sort_index" if what.endswith("index") else "name"
    return {"ph": "M", "name": what, "pid": pe, "tid": 0, "args": {key: name}}


def _event(pe: int, span: Span) -> dict[str, Any]:
    begin, end = (round(US * seconds, 3) for seconds in (span.begin, span.end))
    times = {"ts": begin, "dur": round(end - begin, 3)}
    return {"ph": "X", "name": span.name, "pid": pe, "tid": 0, **times, "args": span.args}
