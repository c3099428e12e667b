"""``miniapps diff A.h5 B.h5``: the first step, block and field in which two runs differ.

Either file may be a checkpoint, which has a state, but no hashes of earlier steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from miniapps.decomposition import Layout, split
from miniapps.hdf5 import damage, require_stored
from miniapps.kernels.state_hash import WORDS
from miniapps.parameters import InputError, require
from miniapps.saved import NOBODY
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.run.checkpoint import fixed_parameters, is_checkpoint, read_checkpoint
from miniapps.workbench.run.hashes import grid_of
from miniapps.workbench.run.revalidation import steps_made
from miniapps.workbench.show.reading import opened, read_rows, require_survivable
from miniapps.workbench.show.saved import record_in
from miniapps.workbench.table import say

FINE = 1 << 20  # parts of an extent that is not a number of cells


class Run(NamedTuple):
    """A run's file, opened, and its record; of a checkpoint, what it says of its run.

    ``end``: the number of steps made, warm-up included.
    """

    path: Path
    file: Any
    record: dict[str, Any]
    end: int
    is_checkpoint: bool = False


def diff(first: Path, second: Path) -> int:
    """Compare two runs and print the first difference; returns the exit status.

    Raises InputError if a file was not written by --output or --checkpoint, if a checkpoint is
    damaged, or if the runs are of other problems.
    """
    for path in (first, second):
        require_survivable(path, partial(_read_all, path))
    with ExitStack() as stack:
        a, b = (_run(path, stack.enter_context(opened(path))) for path in (first, second))
        other = f"is a run of another problem than {first}"
        require(_problem(a) == _problem(b), "diff", second, other)
        try:
            found, common = _hashes(a, b) or _final(a, b) or _more(a, b), _steps(a, b)
        except InputError:
            raise
        except Exception as error:  # damaged: `opened` would name the second file in any case
            allowed = f"must be written by --output ({damage(error)})"
            raise InputError("diff", f"{first} {second}", allowed) from None
    if found is None:
        seen = f" and after {counted(len(common), 'step')} in between" if common else ""
        print(f"equal at the end{seen}:\n  {a.record['state_hash']}")
        return VALID
    say([found])
    if not common and not (a.is_checkpoint or b.is_checkpoint):
        print("make both runs with --hash-every 1 to find the first step that differs")
    return WRONG


def _run(path: Path, file: Any) -> Run:
    """A run's file with its record. Raises InputError, or another error for a damaged file."""
    if is_checkpoint(file):
        found = read_checkpoint("FILE.h5", path)
        found.verify()
        return Run(path, file, dict(found.head), found.state.step, is_checkpoint=True)
    _datasets(file, path)
    record = record_in(file, path)
    return Run(path, file, record, steps_made(record))


def _read_all(path: Path) -> None:
    """Read all that a comparison reads of a file."""
    with opened(path) as file:
        if not is_checkpoint(file):
            record_in(file, path)
        read_rows(*_datasets(file, path))


def _datasets(file: Any, path: Path) -> list[Any]:
    """The final state and the hashes. Raises Unreadable if one claims more than a file can hold."""
    found = [*file["state"].values(), *file.get("hashes", {}).values()]
    require_stored(path, *found)
    return found


def _problem(run: Run) -> tuple[str, dict[str, Any]]:
    """What two runs must have in common."""
    app = run.record["app"]
    return app, fixed_parameters(app, run.record["problem"])


def _steps(a: Run, b: Run) -> list[int]:
    """The numbers of steps after which both runs have hashes."""
    steps = [set(run.file["hashes/step"][...].tolist()) if "hashes" in run.file else set()
             for run in (a, b)]  # fmt: skip
    return sorted(steps[0] & steps[1])


def _hashes(a: Run, b: Run) -> str | None:
    """The first tile whose hashes differ, in words."""
    before = None
    for step in _steps(a, b):
        for name in sorted(set(a.file["hashes"]) - {"step"}):
            tables = [_table(run, name, step) for run in (a, b)]
            differ = np.flatnonzero((tables[0] != tables[1]).any(axis=1))
            if differ.size:
                where = _of_tile(a, b, int(differ[0]))
                more = f" and {counted(differ.size - 1, 'other part')}" if differ.size > 1 else ""
                known = "no earlier step to compare"
                equal = known if before is None else f"equal after {counted(before, 'step')}"
                return f"after {counted(step, 'step')}: {name} differs {where}{more}; {equal}"
        before = step
    return None


def _table(run: Run, name: str, step: int) -> np.ndarray:
    """The hashes of a field after a step: (tiles, 4) uint64. Raises ValueError."""
    row = run.file["hashes/step"][...].tolist().index(step)
    table = np.asarray(run.file[f"hashes/{name}"][row])
    shape = math.prod(grid_of(len(run.record["extent"]))), WORDS
    if table.shape != shape:
        raise ValueError(f"{run.path.name}: hashes of {name} have the shape {table.shape}")
    return table


def _of_tile(a: Run, b: Run, tile: int) -> str:
    """Where a tile is: its part of the domain, and the blocks of both runs there."""
    extent = a.record["extent"]
    grid = grid_of(len(extent))
    index = np.unravel_index(tile, grid)
    cuts = list(zip(extent, index, grid, strict=True))
    if all(float(side).is_integer() for side in extent):
        spans = [split(0, int(side), n, int(i)) for side, i, n in cuts]
    else:
        spans = [(side * i / n, side * (i + 1) / n) for side, i, n in cuts]
    shown = " x ".join(f"{low:g}..{high:g}" for low, high in spans)
    return f"in {shown}, {_owners(a, spans)} of {a.path.name}, {_owners(b, spans)} of {b.path.name}"


def _owners(run: Run, spans: Sequence[tuple[float, float]]) -> str:
    """The blocks that overlap a part of the domain."""
    layout, scale = _layout(run)
    box = [(low * s, high * s) for (low, high), s in zip(spans, scale, strict=True)]
    found = [index for index in layout.indices() if _overlap(layout.bounds(index), box)]
    shown = ", ".join(f"({','.join(map(str, index))})" for index in found[:4])
    return f"block{'s' if len(found) > 1 else ''} {shown}{', ...' if len(found) > 4 else ''}"


def _overlap(bounds: Any, box: list[tuple[float, float]]) -> bool:
    """Whether a block has a part of a box."""
    return all(max(a, low) < min(b, high) for (a, b), (low, high) in zip(bounds, box, strict=True))


def _layout(run: Run) -> tuple[Layout, list[float]]:
    """The decomposition of a run, and its cells per unit of length along each axis."""
    extent, blocks, parts = (run.record[key] for key in ("extent", "blocks", "pe_grid"))
    whole = all(float(side).is_integer() for side in extent)
    cells = [int(side) if whole else FINE for side in extent]
    sub = tuple(n // p for n, p in zip(blocks, parts, strict=True))
    layout = Layout(tuple(cells), (True,) * len(cells), tuple(parts), sub)
    return layout, [n / side for n, side in zip(cells, extent, strict=True)]


def _final(a: Run, b: Run) -> str | None:
    """The first difference of the final states, in words."""
    if a.end != b.end:
        return f"{a.path.name} has made {counted(a.end, 'step')}, {b.path.name} {b.end}"
    if a.record["state_hash"] == b.record["state_hash"]:
        return None
    names = [name for name in a.file["state"] if not name.endswith(".id")]
    for name in names:
        if name not in b.file["state"]:
            return f"final state: {b.path.name} has no {name}"
        x, y = (_ordered(run, name) for run in (a, b))
        if x.shape != y.shape:
            return f"final state: {name} has the shapes {x.shape} and {y.shape}"
        for place in _unequal(x, y):
            return f"final state: {name} differs at {place}: {x[place]!r} and {y[place]!r}"
    return "the state hashes differ, but the stored final states are equal"


def _more(a: Run, b: Run) -> str | None:
    """What two checkpoints with the same state have beside it, if that differs, in words."""
    if not (a.is_checkpoint and b.is_checkpoint):
        return None
    for kind in ("arrays", "totals"):
        one, other = a.record[kind], b.record[kind]
        for name in sorted({*one, *other}):
            if one.get(name) != other.get(name):
                return f"the states are equal, but {name}, which the app needs beside them, differs"
    return None


def _ordered(run: Run, name: str) -> np.ndarray:
    """A field of the final state; rows of particles or atoms in the order of their ids."""
    values = np.asarray(run.file[f"state/{name}"])
    found = run.file["state"].get(f"{name}.id")
    if found is None:
        return values
    ids = np.asarray(found)
    return values[np.argsort(ids, kind="stable")[np.count_nonzero(ids == NOBODY) :]]


def _unequal(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[int, ...]]:
    """The index of the first element whose bits differ, if any."""
    bits = [np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, -1) for array in (x, y)]
    differ = np.flatnonzero((bits[0] != bits[1]).any(axis=1)) if math.prod(x.shape) else ()
    for number in differ[:1]:
        yield tuple(int(i) for i in np.unravel_index(number, x.shape))
