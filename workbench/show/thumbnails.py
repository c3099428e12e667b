"""Coarse pictures of the state, seen along z: what lies beneath a film of a run.

A picture has at most `PIXELS` pixels along x and y. Of a field it holds the mean over the cells
behind each pixel, of particles and atoms how many are behind it. Both are sums over the pieces of
the state, so each PE adds up the shares of its own blocks and nothing gathers the state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from drivers.outcome import Outcome
from miniapps.contract import Piece

PIXELS = 64
AT_ONCE = 1 << 20  # values of a final state that are read at a time
Sides = tuple[float, ...]  # two


def sides_of(box: Any, parameters: dict[str, Any]) -> Sides:
    """Lengths along x and y of the space of a problem: of its box, else in cells of its size."""
    if box is not None:
        return float(box[0]), float(box[1])
    size = parameters.get("size", 1)
    return tuple((*size, 1)[:2]) if isinstance(size, list | tuple) else (size, size)


def shown_name(names: Iterable[str]) -> str:
    """Which part of a state pictures show. Raises KeyError where there is none."""
    found = sorted(name for name in names if not name.endswith(".id"))
    if not found:
        raise KeyError("no state")
    return found[0]


def share(piece: Piece, sides: Sides) -> np.ndarray:
    """A piece's share of the picture of its whole array: (nx, ny) float64."""
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
    picture = np.zeros([min(cells, PIXELS) for cells in shape])
    picture[np.ix_(*where)] = sums
    return picture


def counts(rows: Any, sides: Sides, most: int) -> np.ndarray:
    """How many rows lie behind each pixel: (nx, ny), at most ``most`` and one per unit of length.

    ``rows`` (n, 2 or more): x and y first, in [0, side].
    """
    pixels = [max(1, min(int(side), most)) for side in sides]
    x, y = (
        np.minimum((rows[:, axis] * n / side).astype(np.int64), n - 1)
        for axis, (n, side) in enumerate(zip(pixels, sides, strict=True))
    )
    counted = np.bincount(x * pixels[1] + y, minlength=pixels[0] * pixels[1])
    return counted.reshape(pixels).astype(np.float64)


def picture_of(states: Any, sides: Sides) -> np.ndarray:
    """The picture of a state in an HDF5 group, read some of it at a time."""
    name = shown_name(states)
    data = states[name]
    total = np.zeros(())
    at_once = max(1, AT_ONCE // max(1, math.prod(data.shape[1:])))
    for first in range(0, max(1, len(data)), at_once):
        values = data[first : first + at_once]
        origin = (first, *[0] * (data.ndim - 1))
        if f"{name}.id" in states:
            total = total + share(Piece(name, values, None, ()), sides)
        else:
            total = total + share(Piece(name, values, origin, data.shape), sides)
    return total


@dataclass(frozen=True)
class Pictures:
    """Keeps a picture every so many steps and one of the end; a `workbench.run.output.Keeper`."""

    name: ClassVar[str] = "pictures"

    every: int
    sides: Sides

    def wants(self, before: int, step: int) -> bool:
        """At the end of a round in which a multiple of the steps was reached."""
        return before // self.every < step // self.every

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Add a block's share to the sum of its PE."""
        name = shown_name(piece.name for piece in pieces)
        mine = sum(share(piece, self.sides) for piece in pieces if piece.name == name)
        if "picture" in frame:
            frame["picture"][...] += mine
        else:
            frame["picture"] = mine

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], outcome: Outcome
    ) -> None:
        """Add up what the PEs have, and finish with a picture of the final state."""
        pictures = {
            step: sum(part["picture"][...] for part in parts) for step, parts in frames.items()
        }
        if outcome.steps_done not in pictures:
            pictures[outcome.steps_done] = picture_of(file["state"], self.sides)
        file["frames/step"] = np.array(list(pictures), np.int64)
        file["frames/picture"] = np.array(list(pictures.values()), np.float32)
