"""The HDF5 file of a run: its record, its timings and its final state.

Blocks write what they own, one after the other, so nothing ever holds the whole state. The file is
written aside and renamed when it is whole: a run that fails leaves no half of one.

Layout: attribute ``record`` (the JSON record); ``state/<name>`` (a grid field, or particle rows
with their ``state/<name>.id``); ``timing/blocks`` (a row per block and round, as
`drivers.timing.ROW`), ``timing/wall_s`` (rounds,), ``timing/rounds`` (rounds, 2): first step and
number of steps; ``timing/slices`` (of runs that were traced) and ``timing/balancing``, as
`drivers.timing.SLICE` and ``SYNC``; and what keepers of frames add.
"""

from __future__ import annotations

import glob
import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from drivers.outcome import Outcome
from drivers.timing import KIND_NAMES
from miniapps.contract import Piece


def aside(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(path.name + ".part")


class Keeper(Protocol):
    """Who keeps something of the state at other times than the end; must pickle."""

    name: ClassVar[str]  # of its frames in the files of PEs

    def wants(self, before: int, step: int) -> bool:
        """As `drivers.job.Store.wants`."""

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Add a block's pieces to its PE's part of a frame, an HDF5 group."""

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], outcome: Outcome
    ) -> None:
        """Write all frames to the run's file, given each step's parts, in the order of steps."""


@dataclass(frozen=True)
class Hdf5Store:
    """Takes the final state of all blocks, and frames for its keepers; a `drivers.job.Store`.

    Each PE keeps its blocks' part of frames in a file of its own beside the path, so nobody waits.
    """

    path: Path
    keepers: tuple[Keeper, ...] = ()

    def clear(self) -> None:
        """Remove what a run that failed has left beside the path."""
        for left in self.path.parent.glob(f"{glob.escape(aside(self.path).name)}*"):
            left.unlink(missing_ok=True)

    def wants(self, before: int, step: int) -> bool:
        """Whether any keeper does."""
        return any(keeper.wants(before, step) for keeper in self.keepers)

    def keep(self, pe: int, before: int, step: int, pieces: list[Piece]) -> None:
        """Add a block's pieces to its PE's own file."""
        import h5py

        if not pieces:
            return
        with h5py.File(self._spool(pe), "a") as file:
            for keeper in self.keepers:
                if keeper.wants(before, step):
                    keeper.add(file.require_group(f"{keeper.name}/{step}"), pieces)

    def create(self, pieces: list[Piece]) -> None:
        """Start the file, with room for the global state."""
        import h5py

        with h5py.File(aside(self.path), "w") as file:
            for piece in pieces:
                name, dtype = f"state/{piece.name}", piece.values.dtype
                if piece.origin is None:
                    tail = piece.values.shape[1:]
                    file.create_dataset(name, (0, *tail), dtype, maxshape=(None, *tail))
                    file.create_dataset(f"{name}.id", (0,), "i8", maxshape=(None,))
                else:
                    file.create_dataset(name, piece.shape, dtype)

    def write(self, pieces: list[Piece]) -> None:
        """Add one block's part."""
        import h5py

        with h5py.File(aside(self.path), "r+") as file:
            for piece in pieces:
                data = file[f"state/{piece.name}"]
                if piece.origin is None:
                    append(data, piece.values)
                    append(file[f"state/{piece.name}.id"], piece.ids)
                else:
                    _fill(data, piece.origin, piece.values)

    def close(self, record: dict[str, Any], outcome: Outcome) -> None:
        """Join the frames, add record and timings, and let the file appear under its name."""
        import h5py

        spools = [spool for pe in range(outcome.pes) if (spool := self._spool(pe)).exists()]
        with h5py.File(aside(self.path), "r+") as file, ExitStack() as stack:
            parts = [stack.enter_context(h5py.File(spool)) for spool in spools]
            for keeper in self.keepers:
                kept = [part[keeper.name] for part in parts if keeper.name in part]
                steps = sorted({int(step) for part in kept for step in part})
                frames = {s: [part[str(s)] for part in kept if str(s) in part] for s in steps}
                keeper.join(file, frames, record, outcome)
            file.attrs["record"] = json.dumps(record)
            file["timing/blocks"] = outcome.blocks
            file["timing/wall_s"] = outcome.wall_s
            file["timing/rounds"] = outcome.rounds
            file["timing/balancing"] = outcome.syncs
            if record["traced"]:
                file["timing/slices"] = outcome.slices
                file["timing/slices"].attrs["kinds"] = KIND_NAMES
        for spool in spools:
            spool.unlink()
        os.replace(aside(self.path), self.path)

    def _spool(self, pe: int) -> Path:
        """The file of a PE's frames."""
        part = aside(self.path)
        return part.with_name(f"{part.name}.{pe}")


def _fill(data: Any, origin: tuple[int, ...], values: Any) -> None:
    """Write a box of cells row by row: h5py would copy a whole box that has ghosts around."""
    rest = [slice(low, low + n) for low, n in zip(origin[1:], values.shape[1:], strict=True)]
    for row in range(values.shape[0]):
        data[(origin[0] + row, *rest)] = values[row]


def append(data: Any, rows: Any) -> None:
    """Add rows at the end of a growing dataset."""
    before = data.shape[0]
    data.resize(before + len(rows), axis=0)
    data[before:] = rows


def write_text(path: Path, text: str) -> None:
    """Write a small file so that it is never seen half-written."""
    aside(path).write_text(text)
    os.replace(aside(path), path)
