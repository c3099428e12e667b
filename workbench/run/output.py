"""The HDF5 file of a run: its record, its timings and its final state.

Blocks write their own cells or particles, one block after another, so no process holds the whole
state. The file has a temporary name until it is complete, so a failed run leaves no partial file.

Layout: attribute ``record`` (the JSON record); ``state/<name>`` (a grid field, or particle rows
with their ``state/<name>.id``); ``timing/blocks`` (a row per block and round, as
`drivers.timing.ROW`), ``timing/wall_s`` (rounds,), ``timing/rounds`` (rounds, 2): first step and
number of steps; ``timing/balancing``, as `drivers.timing.SYNC`; ``timing/loads`` as ``LOAD``, if a
runtime balanced them; of traced runs only ``timing/slices``, ``timing/messages`` and
``timing/sizes``, as ``SLICE``, ``SENT`` and ``SIZE``; and the groups of snapshot writers. Every
dataset has the attributes of `miniapps.quantities`.
"""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.contract import Piece
from miniapps.drivers.job import RunError
from miniapps.drivers.outcome import Outcome
from miniapps.drivers.timing import BALANCING, BLOCKS, KIND_NAMES, LOADS, MESSAGES, SIZES, SLICES
from miniapps.kernels.state_hash import WORDS, digest, hash_cells, hash_rows
from miniapps.quantities import Quantity, describe, describe_state
from miniapps.snapshots import SnapshotWriter, append
from miniapps.workbench.run.disk import hdf5_file, told
from miniapps.workbench.run.earlier import earlier_part
from miniapps.workbench.run.replaced import aside

DESCRIPTION = (
    "Result of a run of one of the parallel mini-apps. The attribute `record` of this group is "
    "JSON text: configuration, checks and measurements. Every dataset has the attributes "
    "`description`, `units` and labels of its axes; tables also have `columns`, with one entry of "
    "`units` for each."
)

CHUNK = 1 << 22  # elements that are read at once, 32 MiB


def temporary(path: Path, pes: int) -> list[Path]:
    """All temporary files that a run on a number of PEs may make beside its output."""
    part = aside(path.resolve())
    return [part, *(part.with_name(f"{part.name}.{pe}") for pe in range(pes))]


@dataclass(frozen=True)
class Hdf5Store:
    """Stores the final state of all blocks, and snapshots; a `drivers.job.Store`.

    Each PE writes its part of the snapshots to a file of its own, so PEs do not wait for others.
    """

    path: Path  # as --output, absolute
    writers: tuple[SnapshotWriter, ...] = ()
    quantities: Mapping[str, Quantity] = field(default_factory=dict)  # of the app's problem
    # The round, from a step to the next, after which a checkpoint was written that the run goes on
    # from: snapshots up to there are kept if the path is the output of an earlier part of the run.
    resumed: tuple[int, int] | None = None

    def clear(self) -> None:
        """Remove the temporary files of a failed run."""
        part = aside(self.path)
        for left in part.parent.glob(f"{glob.escape(part.name)}*"):
            of_pe = left.name.removeprefix(part.name)
            if not of_pe or of_pe[1:].isdecimal():
                left.unlink(missing_ok=True)

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The steps between two snapshots, of each writer that takes any during the run."""
        return tuple(writer.every for writer in self.writers if writer.every)

    def wants(self, before: int, step: int) -> bool:
        """Whether any snapshot writer wants the state after this round."""
        return any(writer.wants(before, step) for writer in self.writers)

    def keep(self, pe: int, before: int, step: int, pieces: list[Piece]) -> None:
        """Add a block's pieces to the snapshot file of its PE."""
        if not pieces:
            return
        spool = temporary(self.path, pe + 1)[-1]
        with self._opened(spool, "r+" if spool.exists() else "w") as file:
            for writer in self.writers:
                if writer.wants(before, step):
                    writer.add(file.require_group(f"{writer.name}/{step}"), pieces)

    def create(self, pieces: list[Piece]) -> None:
        """Create the file, with datasets for the global state."""
        with self._opened(aside(self.path), "w") as file:
            for piece in pieces:
                self._add(file, piece)

    def _add(self, file: Any, piece: Piece) -> None:
        """Add the datasets of an array of which a block has a piece."""
        name, dtype = f"state/{piece.name}", piece.values.dtype
        if piece.origin is None:
            tail = piece.values.shape[1:]
            file.create_dataset(name, (0, *tail), dtype, maxshape=(None, *tail))
            file.create_dataset(f"{name}.id", (0,), "i8", maxshape=(None,))
        else:
            file.create_dataset(name, piece.shape, dtype)
        describe_state(file["state"], piece, self.quantities.get(piece.name))

    def write(self, pieces: list[Piece]) -> None:
        """Add one block's part."""
        with self._opened(aside(self.path), "r+") as file:
            for piece in pieces:
                if f"state/{piece.name}" not in file:  # of another kind of blocks
                    self._add(file, piece)
                data = file[f"state/{piece.name}"]
                if piece.origin is None:
                    append(data, piece.values)
                    append(file[f"state/{piece.name}.id"], piece.ids)
                else:
                    _fill(data, piece.origin, piece.values)

    def close(self, record: dict[str, Any], outcome: Outcome) -> None:
        """Join the snapshots, add record and timings, and rename the file."""
        import h5py

        spools = [spool for spool in temporary(self.path, outcome.pes)[1:] if spool.exists()]
        with self._opened(aside(self.path), "r+") as file, ExitStack() as stack:
            parts = [stack.enter_context(h5py.File(spool)) for spool in spools]
            earlier = earlier_part(self.path, record) is not None
            old = stack.enter_context(h5py.File(self.path)) if earlier else None
            for writer in self.writers:
                kept = [part[writer.name] for part in parts if writer.name in part]
                steps = sorted({int(step) for part in kept for step in part})
                frames = {s: [part[str(s)] for part in kept if str(s) in part] for s in steps}
                frames = self._earlier(old, writer) | frames
                writer.join(file, frames, record, outcome.steps_done)
            file.attrs["record"] = json.dumps(record)
            file.attrs["description"] = DESCRIPTION
            _write_timing(file.create_group("timing"), outcome, record["traced"])
            if state_hash(file["state"]) != record["state_hash"]:
                raise RunError(f"--output {self.path}: the file has another state than the run")
        for spool in spools:
            spool.unlink()
        os.replace(aside(self.path), self.path)

    def _earlier(self, old: Any, writer: SnapshotWriter) -> dict[int, list[Any]]:
        """The snapshots up to the checkpoint in the output of an earlier part of the run, if any.

        The last one in a file is of its final state, which may be one more than was asked for.
        """
        if old is None or not writer.every or self.resumed is None:
            return {}
        before, end = self.resumed
        rounds = old["timing/rounds"][...]
        before = next(iter(rounds[rounds.sum(axis=1) == end, 0].tolist()), before)
        frames = writer.earlier(old)
        return {
            s: f for s, f in frames.items() if s < end or (s == end and writer.wants(before, s))
        }

    @contextmanager
    def _opened(self, path: Path, mode: str) -> Iterator[Any]:
        """An open HDF5 file. Raises RunError with the system's reason if it cannot be written."""
        with told("--output", self.path), hdf5_file(path, mode) as file:
            yield file


def _write_timing(timing: Any, outcome: Outcome, traced: bool) -> None:
    """Write the tables of times."""
    timing["wall_s"] = outcome.wall_s
    timing["rounds"] = np.array(outcome.rounds, np.int64).reshape(-1, 2)
    describe(timing["wall_s"], "wall-clock time of each timed round", ["round"], "s")
    steps = "first step and number of steps of each timed round; steps count from 0"
    columns = {"first": "1", "count": "1"}
    describe(timing["rounds"], steps, ["round", "column"], columns=columns)
    tables = {"blocks": (outcome.blocks, BLOCKS), "balancing": (outcome.syncs, BALANCING)}
    if traced:
        tables["slices"] = outcome.slices, SLICES
        tables["messages"] = outcome.sent, MESSAGES
        tables["sizes"] = outcome.sizes, SIZES
    if len(outcome.loads):
        tables["loads"] = outcome.loads, LOADS
    for name, (rows, description) in tables.items():
        timing[name] = rows
        columns = {of: _unit_of(of) for of in rows.dtype.names or ()}
        describe(timing[name], description, ["row"], columns=columns)
    if traced:
        timing["slices"].attrs["kinds"] = KIND_NAMES


def _unit_of(column: str) -> str:
    """The unit of a column of a table of times."""
    return "s" if column.endswith("_s") else "B" if column == "bytes" else "1"


def _fill(data: Any, origin: tuple[int, ...], values: Any) -> None:
    """Write a box of cells row by row, because h5py copies non-contiguous arrays as a whole."""
    rest = [slice(low, low + n) for low, n in zip(origin[1:], values.shape[1:], strict=True)]
    for row in range(values.shape[0]):
        data[(origin[0] + row, *rest)] = values[row]


def state_hash(state: Any) -> str:
    """The hash of the group ``state`` of an HDF5 file, to compare with that of the run."""
    words = np.zeros(WORDS, np.uint64)
    for name in (name for name in state if not name.endswith(".id")):
        data, ids = state[name], state.get(f"{name}.id")
        rows = max(1, CHUNK // max(1, math.prod(data.shape[1:])))
        for first in range(0, len(data), rows):
            values = data[first : first + rows]
            if ids is None:
                origin = (first, *(0 for _ in data.shape[1:]))
                words += hash_cells(name, values, origin, data.shape)
            else:
                words += hash_rows(name, values, ids[first : first + rows])
    return digest(words)


def append_line(path: Path, file: int, line: bytes) -> None:
    """Append a line to the file at a path, open as ``file``; it is on the disk when this returns.

    Raises OSError that names the file, and leaves no part of the line.
    """
    before = os.fstat(file).st_size
    try:
        while line:
            line = line[os.write(file, line) :]
        os.fsync(file)
    except OSError as error:
        os.ftruncate(file, before)
        raise OSError(error.errno, error.strerror, str(path)) from None
