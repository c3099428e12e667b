"""What must hold between the tables of a run's HDF5 file, which others may have edited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from miniapps.drivers.timing import KIND_NAMES, LOAD, ROW, SENT, SIZE, SLICE, SYNC
from miniapps.workbench.run.revalidation import near
from miniapps.workbench.show.thumbnails import Sides, cells_along

LARGEST = 1 << 53  # of steps
BLOCKS = 1 << 31  # that a table of int32 can number
MISSING = 100  # rows that a run may lack for each that it has, if not valid or with such blocks

Claims = Iterator[tuple[str, bool]]


def broken_claim(run: Any) -> str | None:
    """The first claim on a `SavedRun` that does not hold; None if all hold."""
    return next((claim for claim, holds in _claims(run) if not holds), None)


def _claims(run: Any) -> Claims:
    """All claims, in words, and whether they hold; each relies on those before."""
    yield from _claims_of_rounds(run.rounds, run.wall_s)
    if run.record["valid"]:
        steps, wall = run.record["steps"], run.record["wall_s"]
        yield "the steps of all rounds must be the record's", run.rounds[:, 1].sum() == steps
        yield "the times of all rounds must add up to wall_s", near(run.wall_s.sum(), wall)
    yield from _claims_of_table("blocks", run.rows, ROW, run)
    rounds, rows, pes = len(run.rounds), len(run.rows), run.record["pes"]
    yield "timing/blocks must have a row for each PE at least", rows >= pes
    blocks = int(run.rows["block"].max()) + 1
    least = rows if run.record["valid"] and not _for_a_time(run) else MISSING * rows
    yield "timing/blocks must have a row for each block and round", blocks * rounds <= least
    yield "compute times must be 0 s or more", _are_times(run.rows["compute_s"])
    if run.slices is not None:
        yield from _claims_of_table("slices", run.slices, SLICE, run)
        yield "slices must be of a known kind", bool((run.slices["kind"] < len(KIND_NAMES)).all())
    yield from _claims_of_table("balancing", run.syncs, SYNC, run)
    yield from _claims_of_more(run, blocks)
    yield from _claims_of_thumbnails(run.thumbnail_steps, run.thumbnails, run.sides)


def _claims_of_rounds(rounds: np.ndarray, wall_s: np.ndarray) -> Claims:
    """Claims on the rounds and their times."""
    alike = rounds.ndim == 2 and rounds.shape[1:] == (2,) and wall_s.shape == rounds.shape[:1]
    yield "timing/rounds must be (rounds, 2), timing/wall_s (rounds,)", alike and len(rounds) > 0
    types = rounds.dtype.kind == "i" and wall_s.dtype.kind == "f"
    yield "timing/rounds must hold integers, timing/wall_s floats", types
    first, counts = rounds.T
    small = first[0] >= 0 and counts.min() >= 1 and max(first.max(), counts.max()) <= LARGEST
    yield "rounds must begin at 0 or later and have 1 step or more", bool(small)
    yield "rounds must follow one another", np.array_equal(first[1:], (first + counts)[:-1])
    yield "times of rounds must be 0 s or more", _are_times(wall_s)


def _claims_of_table(name: str, table: np.ndarray, dtype: np.dtype, run: Any) -> Claims:
    """Claims on a table of the group timing."""
    yield f"timing/{name} must be a table of {dtype.names}", table.dtype == dtype
    yield f"timing/{name} must have one axis", table.ndim == 1
    if name != "balancing":
        yield f"timing/{name} must not be empty", name == "slices" or len(table) > 0
        for field, limit in (("block", BLOCKS), ("round", len(run.rounds))):
            yield f"{field} in timing/{name} must be below {limit}", _within(table[field], limit)
        for field in ("begin_s", "end_s"):
            yield f"{field} in timing/{name} must be finite", bool(np.isfinite(table[field]).all())
    pes = run.record["pes"]
    yield f"pe in timing/{name} must be below {pes}", _within(table["pe"], pes)


def _claims_of_more(run: Any, blocks: int) -> Claims:
    """Claims on the tables of messages, sizes and the runtime's loads, which a run may lack."""
    tables = {"messages": (run.sent, SENT), "sizes": (run.sizes, SIZE), "loads": (run.loads, LOAD)}
    limits = {"block": blocks, "to": blocks, "round": len(run.rounds), "pe": run.record["pes"]}
    for name, (table, dtype) in tables.items():
        if table is None:
            continue
        alike = table.dtype == dtype and table.ndim == 1
        yield f"timing/{name} must be a table of {dtype.names}", alike
        for field in dtype.names or ():
            most = limits.get(field, LARGEST)
            if field.endswith("_s"):
                yield f"{field} in timing/{name} must be 0 s or more", _are_times(table[field])
            else:
                yield f"{field} in timing/{name} must be below {most}", _within(table[field], most)
    if run.sizes is not None and len(run.sizes):
        numbers, times = np.unique(run.sizes["block"], return_counts=True)
        every = len(numbers) == blocks or _for_a_time(run)  # the others are below `blocks`
        yield "timing/sizes must have a row for each block", bool(every and (times == 1).all())


def _for_a_time(run: Any) -> bool:
    """Whether blocks of the run existed for a time, so that rounds lack some."""
    return bool(run.record.get("for_a_time"))


def _claims_of_thumbnails(steps: np.ndarray, thumbnails: np.ndarray, sides: Sides) -> Claims:
    """Claims on the thumbnails of a domain."""
    axes = len(sides)
    alike = steps.ndim == 1 and len(steps) == len(thumbnails)
    alike = alike and thumbnails.ndim == 1 + axes and thumbnails.size > 0
    yield f"there must be a thumbnail of {axes} axes for each of its steps", alike
    few = all(n <= cells_along(side) for n, side in zip(thumbnails.shape[1:], sides, strict=True))
    yield "thumbnails must have no more pixels than cells", few
    types = steps.dtype.kind == "i" and thumbnails.dtype.kind == "f"
    yield "thumbnails must hold floats, their steps integers", types


def _within(values: np.ndarray, limit: int) -> bool:
    """Whether all integers are from 0 to below a limit."""
    return bool(((values >= 0) & (values < limit)).all())


def _are_times(seconds: np.ndarray) -> bool:
    """Whether all times are finite and 0 or more."""
    return bool((np.isfinite(seconds) & (seconds >= 0)).all())
