"""The state in a checkpoint file, as the blocks of a resumed run read it.

Arrays lie in the file as they would in memory, so a process maps them and touches only the pages
that it needs. Rows of particles are in the order of their ids: row 0 has the id ``first``, and a
row that no particle has is marked by the id `NOBODY`. To find the rows in a box, a process reads
all positions, about `CHUNK` elements at a time; if it has several blocks, it sorts them into cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from miniapps.contract import Measure, Piece

NOBODY = -1  # the id of a row that no particle has
CHUNK = 1 << 20  # elements that are read at once
CELLS = 1 << 12  # into which the rows of a chunk are sorted, at most


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


class Sorted:
    """The numbers of some rows by the cell of a grid that each is in, so that a box finds its rows.

    ``at`` (n, axes): positions; ``rows`` (n,): numbers, which ascend. Keeps 4 bytes of each, unless
    there are more than 2^32 rows.
    """

    def __init__(self, at: np.ndarray, rows: np.ndarray) -> None:
        at, axes = at.astype(np.float64), at.shape[1]  # as are the corners of boxes
        self.low, self.high = at.min(axis=0), at.max(axis=0)
        side = int(CELLS ** (1 / axes)) if np.isfinite(at).all() else 1
        self.shape = (side,) * axes
        with np.errstate(invalid="ignore"):
            width = self.high - self.low
        self.scale = side / np.where(width > 0, width, 1.0)
        cells = np.ravel_multi_index(tuple(self._cells(at).T), self.shape).astype(np.uint16)
        self.rows = rows[np.argsort(cells, kind="stable")].astype(np.min_scalar_type(rows[-1]))
        self.ends = np.cumsum(np.bincount(cells, minlength=side**axes))

    def _cells(self, at: np.ndarray) -> np.ndarray:
        """The cell of each position, by axis; it never decreases where a coordinate increases."""
        if self.shape[0] == 1:
            return np.zeros(at.shape, np.int64)
        return np.clip((at - self.low) * self.scale, 0, self.shape[0] - 1).astype(np.int64)

    def around(self, low: np.ndarray, high: np.ndarray) -> Iterator[np.ndarray]:
        """The numbers of all rows in the box [low, high), and of some near it."""
        if (high <= self.low).any() or (low > self.high).any():
            return
        first, last = self._cells(np.array([low, high]))
        ranges = [range(a, b + 1) for a, b in zip(first[:-1], last[:-1], strict=True)]
        for index in product(*ranges):
            begin, end = (
                np.ravel_multi_index((*index, one[-1]), self.shape) for one in (first, last)
            )
            yield self.rows[self.ends[begin - 1] if begin else 0 : self.ends[end]]


@dataclass(frozen=True)
class SavedState:
    """The state in a file, for one block; a `miniapps.contract.Saved`. Small, as it is pickled.

    ``arrays``: by the names of pieces, and of their ids with ``.id`` behind; ``comes_first``:
    whether it is for the first block of the layout, which gets the sums. ``blocks``: those of this
    process that read it; ``found``: the rows that they have sorted, by name and number of axes.
    """

    path: Path
    step: int
    state_hash: str
    arrays: Mapping[str, Stored]
    totals: Mapping[str, Measure]
    comes_first: bool = False
    blocks: set[int] = field(default_factory=set, compare=False)
    found: dict[tuple[str, int], list[Sorted]] = field(default_factory=dict, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but what a process has found, which another one finds by itself."""
        return vars(self) | {"blocks": set(), "found": {}}

    def for_block(self, number: int) -> Self:
        """The same for the block of that number in the layout."""
        self.blocks.add(number)
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
        for ids, values in self._near(name, np.array(low), np.array(high)):
            at = values[:, :axes]
            inside = ((at >= low) & (at < high)).all(axis=1)
            found_ids.append(ids[inside])
            found.append(values[inside])
        return np.concatenate(found_ids), np.concatenate(found)

    def _near(
        self, name: str, low: np.ndarray, high: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Ids and values of rows, among which are those in a box, by id.

        For the only block of a process these are all rows, of which nothing is kept.
        """
        if len(self.blocks) < 2:
            for _, piece in self.pieces(name):
                assert piece.ids is not None
                yield piece.ids, piece.values
            return
        stored = self.arrays[name]
        assert stored.first is not None
        whole = stored.mapped(self.path)
        for some in self._sorted(name, len(low)):
            rows = np.sort(np.concatenate([some.rows[:0], *some.around(low, high)])).astype(
                np.int64
            )
            yield stored.first + rows, whole[rows]

    def _sorted(self, name: str, axes: int) -> list[Sorted]:
        """The rows of an array, sorted once per process."""
        first = self.arrays[name].first
        if (name, axes) not in self.found:
            self.found[name, axes] = [
                Sorted(piece.values[:, :axes], piece.ids - first)
                for _, piece in self.pieces(name)
                if piece.ids is not None and len(piece.ids)
            ]
        return self.found[name, axes]

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
