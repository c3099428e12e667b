"""Hashes of parts of the state after some rounds, for comparing two runs step by step.

The domain is cut into *tiles*, the same on every decomposition. The state hash of a tile is the sum
over the cells, particles or atoms in it, so blocks on any PE add their shares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from miniapps.contract import Piece
from miniapps.decomposition import split
from miniapps.kernels.state_hash import WORDS, hash_cells, hash_rows
from miniapps.quantities import describe

TILES = {1: 256, 2: 16, 3: 6}  # along each axis, by the number of axes


def grid_of(axes: int) -> tuple[int, ...]:
    """The number of tiles along each axis of a domain."""
    return (TILES[axes],) * axes


def share(piece: Piece, extent: tuple[float, ...]) -> np.ndarray:
    """A piece's share in the hashes of all tiles: (tiles, 4) uint64, tiles in C order."""
    grid = grid_of(len(extent))
    words = np.zeros((*grid, WORDS), np.uint64)
    if piece.origin is not None:
        for tile, part, origin in _cuts(piece, grid):
            words[tile] += hash_cells(piece.name, part, origin, piece.shape)
        return words.reshape(-1, WORDS)
    assert piece.ids is not None
    words = words.reshape(-1, WORDS)
    numbers = _tiles_of_rows(piece.values, extent, grid)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for tile, rows in zip(found, np.split(order, starts[1:]), strict=False):
        words[tile] += hash_rows(piece.name, piece.values[rows], piece.ids[rows])
    return words


def _cuts(piece: Piece, grid: tuple[int, ...]) -> Iterator[tuple[Any, np.ndarray, tuple[int, ...]]]:
    """The parts of a piece in each tile: tile, values, and the global index of the first cell."""
    assert piece.origin is not None
    spans = []
    for axis, low in enumerate(piece.origin):
        cells, high = piece.shape[axis], low + piece.values.shape[axis]
        edges = (split(0, cells, grid[axis], tile) for tile in range(grid[axis]))
        cut = [(tile, max(a, low), min(b, high)) for tile, (a, b) in enumerate(edges)]
        spans.append([(tile, a, b) for tile, a, b in cut if a < b])
    for parts in itertools.product(*spans):
        tile, first, last = zip(*parts, strict=True)
        where = zip(first, last, piece.origin, strict=True)
        yield tile, piece.values[tuple(slice(a - o, b - o) for a, b, o in where)], first


def _tiles_of_rows(
    rows: np.ndarray, extent: tuple[float, ...], grid: tuple[int, ...]
) -> np.ndarray:
    """The number of the tile of each row, whose first columns are a position; (rows,) int64.

    A position that is not finite is in the first tile.
    """
    number = np.zeros(len(rows), np.int64)
    for axis, (side, tiles) in enumerate(zip(extent, grid, strict=True)):
        at = np.nan_to_num(rows[:, axis] / side * tiles, nan=0.0, posinf=0.0, neginf=0.0)
        number = number * tiles + np.clip(at, 0, tiles - 1).astype(np.int64)
    return number


@dataclass(frozen=True)
class StepHashes:
    """A snapshot writer (see `miniapps.snapshots`): hashes of all tiles every ``every`` steps."""

    name: ClassVar[str] = "hashes"

    every: int
    extent: tuple[float, ...]

    @property
    def frame_bytes(self) -> float:
        """The words of all tiles."""
        return 8.0 * WORDS * math.prod(grid_of(len(self.extent)))

    def wants(self, before: int, step: int) -> bool:
        """Whether the round from step ``before`` to ``step`` reached a multiple of ``every``."""
        return before // self.every < step // self.every

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Add a block's share to the sums of its PE."""
        for piece in pieces:
            mine = share(piece, self.extent)
            if piece.name in frame:
                frame[piece.name][...] += mine
            else:
                frame[piece.name] = mine

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], steps: int
    ) -> None:
        """Add up the sums of all PEs: ``hashes/step`` and ``hashes/<name>`` (n, tiles, 4)."""
        file["hashes/step"] = np.array(list(frames), np.int64)
        describe(file["hashes/step"], "steps made before each row of hashes", ["snapshot"])
        grid = "x".join(map(str, grid_of(len(self.extent))))
        columns = {f"word {n}": "1" for n in range(WORDS)}
        names = sorted({name for parts in frames.values() for part in parts for name in part})
        for name in names:
            table = [_total(parts, name) for parts in frames.values()]
            file[f"hashes/{name}"] = np.array(table, np.uint64)
            about = f"hash of state/{name} in each of {grid} equal parts of the domain, in C order"
            axes = ["snapshot", "part", "column"]
            describe(file[f"hashes/{name}"], about, axes, columns=columns)

    def earlier(self, file: Any) -> dict[int, list[Any]]:
        """The hashes of a file, each as the sum of one PE."""
        tables = {name: data[...] for name, data in file["hashes"].items() if name != "step"}
        steps = file["hashes/step"][...].tolist()
        return {
            step: [{name: table[row] for name, table in tables.items()}]
            for row, step in enumerate(steps)
        }


def _total(parts: list[Any], name: str) -> np.ndarray:
    """The sum over all PEs of the hashes of one name."""
    found = [part[name][...] for part in parts if name in part]
    return np.asarray(np.sum(found, axis=0, dtype=np.uint64))
