"""The state in a checkpoint file, as the blocks of a resumed run read it.

Arrays lie in the file as they would in memory, so a process maps them and touches only the pages
that it needs. Rows of particles are in the order of their ids: row 0 has the id ``first``, and a
row that no particle has is marked by the id `NOBODY`. To find the rows in a box, a process reads
all positions, about `CHUNK` elements at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from miniapps.contract import Measure, Piece

NOBODY = -1  # the id of a row that no particle has
CHUNK = 1 << 20  # elements that are read at once


class Stored(NamedTuple):
    """Where an array lies in a file. ``first``: the id of row 0; None: the array has no ids."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    first: int | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    def mapped(self, path: Path, mode: Any = "r") -> np.ndarray:
        """The array in a file, mapped into memory."""
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        return np.memmap(path, self.dtype, mode, self.offset, self.shape)


@dataclass(frozen=True)
class SavedState:
    """The state in a file, for one block; a `miniapps.contract.Saved`. Small, as it is pickled.

    ``arrays``: by the names of pieces, and of their ids with ``.id`` behind; ``comes_first``:
    whether it is for the first block of the layout, which gets the sums.
    """

    path: Path
    step: int
    state_hash: str
    arrays: Mapping[str, Stored]
    totals: Mapping[str, Measure]
    comes_first: bool = False

    def for_block(self, number: int) -> Self:
        """The same for the block of that number in the layout."""
        return replace(self, comes_first=number == 0)

    def cells(self, name: str, bounds: Sequence[tuple[int, int]]) -> np.ndarray:
        """The cells within ``bounds`` of a global array: a copy."""
        whole = self.arrays[name].mapped(self.path)
        return np.array(whole[tuple(slice(low, high) for low, high in bounds)])

    def rows(
        self, name: str, low: Sequence[float], high: Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids and values of the rows whose first columns are in [low, high), by id."""
        stored, axes = self.arrays[name], len(low)
        found_ids, found = [np.empty(0, np.int64)], [np.empty((0, *stored.shape[1:]), stored.dtype)]
        for _, piece in self.pieces(name):
            at = piece.values[:, :axes]
            inside = ((at >= low) & (at < high)).all(axis=1)
            assert piece.ids is not None
            found_ids.append(piece.ids[inside])
            found.append(piece.values[inside])
        return np.concatenate(found_ids), np.concatenate(found)

    def rows_of(self, name: str, ids: np.ndarray) -> np.ndarray:
        """The rows with these ids, in their order."""
        stored = self.arrays[name]
        assert stored.first is not None
        return np.array(stored.mapped(self.path)[ids - stored.first])

    def total(self, name: str) -> Any:
        """A total; a sum is given to the first block only, to others 0 of the same shape."""
        op, value = self.totals[name]
        others = op == "sum" and not self.comes_first
        return (np.zeros_like(value) if others else np.array(value))[()]

    def pieces(self, name: str) -> Iterator[tuple[int, Piece]]:
        """An array in pieces of about `CHUNK` elements, without unused rows.

        With each, how much is wrong that no hash covers: rows with the id of another row, and bytes
        of unused rows that are not 0.
        """
        stored = self.arrays[name]
        whole = stored.mapped(self.path)
        rows = max(1, CHUNK // max(1, math.prod(stored.shape[1:])))
        for first in range(0, len(whole), rows):
            values = np.array(whole[first : first + rows])
            if stored.first is None:
                origin = (first, *(0 for _ in stored.shape[1:]))
                yield 0, Piece(name, values, origin, stored.shape)
                continue
            ids = self.arrays[f"{name}.id"].mapped(self.path)[first : first + rows]
            used = ids != NOBODY
            wrong = np.count_nonzero(
                used & (ids != stored.first + np.arange(first, first + len(ids)))
            )
            wrong += np.count_nonzero(values[~used].view(np.uint8))
            yield int(wrong), Piece(name, values[used], None, (), np.array(ids[used]))

    def names(self) -> list[str]:
        """The names of all pieces."""
        return [name for name in self.arrays if not name.endswith(".id")]
