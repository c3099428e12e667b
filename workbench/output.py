"""The HDF5 file of a run: its record, its timings and its final state.

Blocks write what they own, one after the other, so nothing ever holds the whole state. The file is
written aside and renamed when it is whole: a run that fails leaves no half of one.

Layout: attribute ``record`` (the JSON record); ``state/<name>`` (a grid field, or particle rows
with their ``state/<name>.id``); ``timing/blocks`` (a row per block and round, as
`drivers.timing.ROW`), ``timing/wall_s`` (rounds,), ``timing/rounds`` (rounds, 2): first step and
number of steps.
"""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivers.outcome import Outcome
from miniapps.block import Piece


def aside(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(path.name + ".part")


@dataclass(frozen=True)
class Hdf5Store:
    """Takes the final state of all blocks; a `drivers.job.Store`."""

    path: Path

    def clear(self) -> None:
        """Remove what a run that failed has left beside the path."""
        for left in self.path.parent.glob(f"{glob.escape(aside(self.path).name)}*"):
            left.unlink(missing_ok=True)

    def keep(self, pe: int, step: int, pieces: list[Piece]) -> None:
        """No file of this kind holds frames."""
        raise NotImplementedError

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
        """Add record and timings, and let the file appear under its name."""
        import h5py

        with h5py.File(aside(self.path), "r+") as file:
            file.attrs["record"] = json.dumps(record)
            file["timing/blocks"] = outcome.blocks
            file["timing/wall_s"] = outcome.wall_s
            file["timing/rounds"] = outcome.rounds
        os.replace(aside(self.path), self.path)


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
