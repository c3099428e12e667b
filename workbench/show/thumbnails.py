"""Thumbnails: coarse images of the state, projected along z, for the animation of a run.

A thumbnail has at most `PIXELS` pixels along x and along y. A pixel holds the mean of a field over
its cells, or the number of particles or atoms in it. Both are sums over blocks, so each PE adds up
the contributions of its own blocks, and no process gathers the state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from miniapps.contract import Piece

PIXELS = 64
CHUNK = 1 << 20  # values of a final state to read at a time
Sides = tuple[float, ...]  # lengths of the domain along x and y


def sides_of(extent: Sequence[float]) -> Sides:
    """The lengths of a domain along x and y; the length along y is 1 if x is the only axis."""
    x, y = (*extent, 1)[:2]
    return x, y


def shown_name(names: Iterable[str]) -> str:
    """The name of the part of a state that thumbnails show. Raises KeyError if there is none."""
    found = sorted(name for name in names if not name.endswith(".id"))
    if not found:
        raise KeyError("no state")
    return found[0]


def share(piece: Piece, sides: Sides) -> np.ndarray:
    """The contribution of a piece to the thumbnail of the whole array: (nx, ny) float64."""
    if piece.origin is None:
        return counts(piece.values, sides, PIXELS)
    shape, wide, low = (
        (*given, fill)[:2]
        for given, fill in ((piece.shape, 1), (piece.values.shape, 1), (piece.origin, 0))
    )
    sums = piece.values.reshape(*wide, -1).sum(axis=2, dtype=np.float64)
    sums /= math.prod(piece.shape[2:])
    where = []
    for axis, cells in enumerate(shape):
        pixel = np.arange(cells) * min(cells, PIXELS) // cells
        mine, starts = np.unique(pixel[low[axis] : low[axis] + wide[axis]], return_index=True)
        behind = np.bincount(pixel)[mine]
        sums = np.add.reduceat(sums, starts, axis=axis)
        sums /= behind[:, np.newaxis] if axis == 0 else behind
        where.append(mine)
    thumbnail = np.zeros([min(cells, PIXELS) for cells in shape])
    thumbnail[np.ix_(*where)] = sums
    return thumbnail


def counts(rows: Any, sides: Sides, most: int) -> np.ndarray:
    """The number of particles in each pixel: (nx, ny) float64.

    ``rows`` (n, 2 or more): positions, x and y first, in [0, side]. An axis has at most ``most``
    pixels, each at least 1 long.
    """
    pixels = [max(1, min(int(side), most)) for side in sides]
    x, y = (
        np.minimum((rows[:, axis] * n / side).astype(np.int64), n - 1)
        for axis, (n, side) in enumerate(zip(pixels, sides, strict=True))
    )
    counted = np.bincount(x * pixels[1] + y, minlength=pixels[0] * pixels[1])
    return counted.reshape(pixels).astype(np.float64)


def thumbnail_of(states: Any, sides: Sides) -> np.ndarray:
    """The thumbnail of a state in an HDF5 group, which is read in chunks."""
    name = shown_name(states)
    data = states[name]
    total = np.zeros(())
    chunk = max(1, CHUNK // max(1, math.prod(data.shape[1:])))
    for first in range(0, max(1, len(data)), chunk):
        values = data[first : first + chunk]
        origin = (first, *[0] * (data.ndim - 1))
        if f"{name}.id" in states:
            total = total + share(Piece(name, values, None, ()), sides)
        else:
            total = total + share(Piece(name, values, origin, data.shape), sides)
    return total


@dataclass(frozen=True)
class Thumbnails:
    """A snapshot writer (see `miniapps.snapshots`): a thumbnail every ``every`` steps."""

    name: ClassVar[str] = "thumbnails"

    every: int
    sides: Sides

    def wants(self, before: int, step: int) -> bool:
        """Whether the round from step ``before`` to ``step`` reached a multiple of ``every``."""
        return before // self.every < step // self.every

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Add a block's contribution to the sum of its PE."""
        name = shown_name(piece.name for piece in pieces)
        mine = sum(share(piece, self.sides) for piece in pieces if piece.name == name)
        if "thumbnail" in frame:
            frame["thumbnail"][...] += mine
        else:
            frame["thumbnail"] = mine

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], steps: int
    ) -> None:
        """Add up the sums of all PEs, and append a thumbnail of the final state if missing."""
        thumbnails = {
            step: sum(part["thumbnail"][...] for part in parts) for step, parts in frames.items()
        }
        if steps not in thumbnails:
            thumbnails[steps] = thumbnail_of(file["state"], self.sides)
        file["snapshots/step"] = np.array(list(thumbnails), np.int64)
        file["snapshots/thumbnail"] = np.array(list(thumbnails.values()), np.float32)
