"""Thumbnails: coarse images of the state, projected along z, for the animation of a run.

A thumbnail has at most `PIXELS` pixels along x and along y; that of a domain with one axis has at
most `LINE_PIXELS` along it. A pixel holds the mean of a field over its cells, or the number of
particles or atoms in it. Both are sums over blocks, so each PE adds up the contributions of its own
blocks, and no process gathers the state. Where a finer field lies over the one that is shown, a
pixel holds the mean of its points there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from miniapps.contract import Piece
from miniapps.quantities import AXES, Overlay, describe

PIXELS, LINE_PIXELS = 64, 1024
CHUNK = 1 << 20  # values of a final state to read at a time
SHOWN = 2  # axes
Sides = tuple[float, ...]  # lengths of the domain along x and y, or along its only axis


def sides_of(extent: Sequence[float]) -> Sides:
    """The lengths of a domain along x and y, or along its only axis."""
    return tuple(extent[:SHOWN])


def pixels_of(axes: int) -> int:
    """The largest number of pixels along each axis of the thumbnail of a domain."""
    return LINE_PIXELS if axes == 1 else PIXELS


def shown_name(names: Iterable[str]) -> str:
    """The name of the part of a state that thumbnails show. Raises KeyError if there is none."""
    found = sorted(name for name in names if not name.endswith(".id"))
    if not found:
        raise KeyError("no state")
    return found[0]


def share(piece: Piece, sides: Sides) -> np.ndarray:
    """A piece's contribution to the thumbnail of the whole array: (nx, ny) or (nx,) float64."""
    if piece.origin is None:
        return counts(piece.values, sides, pixels_of(len(sides)))
    shape, wide, low = (given[:SHOWN] for given in (piece.shape, piece.values.shape, piece.origin))
    most = pixels_of(len(shape))
    along = tuple(range(SHOWN, piece.values.ndim))
    sums = piece.values.sum(axis=along, dtype=np.float64)
    sums /= math.prod(piece.shape[SHOWN:])
    where = []
    for axis, cells in enumerate(shape):
        pixel = pixels_of_cells(cells, min(cells, most))
        mine, starts = np.unique(pixel[low[axis] : low[axis] + wide[axis]], return_index=True)
        behind = np.bincount(pixel)[mine]
        sums = np.add.reduceat(sums, starts, axis=axis)
        sums /= np.expand_dims(behind, tuple(range(1, len(shape) - axis)))
        where.append(mine)
    thumbnail = np.zeros([min(cells, most) for cells in shape])
    thumbnail[np.ix_(*where)] = sums
    return thumbnail


def overlaid(piece: Piece, overlay: Overlay, sides: Sides) -> np.ndarray:
    """A piece's contribution to the pixels over which it lies: sums and numbers of points.

    Returns (2, nx, ny), or (2, nx) if the domain has one axis. A point belongs to the nearest cell.
    """
    most, numbers = pixels_of(len(sides)), []
    pixels = [min(cells_along(side), most) for side in sides]
    places = zip(piece.origin or (), piece.values.shape, overlay.first, sides, pixels, strict=True)
    for low, points, first, side, many in places:
        at = first + np.floor((low + np.arange(points)) * overlay.spacing + 0.5).astype(np.int64)
        numbers.append(pixels_of_cells(cells_along(side), many)[at])
    found = np.zeros((2, *pixels))
    np.add.at(found[0], np.ix_(*numbers), piece.values)
    np.add.at(found[1], np.ix_(*numbers), 1.0)
    return found


def over(thumbnail: np.ndarray, parts: Iterable[np.ndarray]) -> np.ndarray:
    """A thumbnail with the means of what `overlaid` has returned, in the pixels that have points.

    The thumbnail itself is changed.
    """
    total, points = sum(parts, np.zeros((2, *thumbnail.shape)))
    thumbnail[points > 0] = total[points > 0] / points[points > 0]
    return thumbnail


def pixels_of_cells(cells: int, pixels: int) -> np.ndarray:
    """The pixel of each of so many cells along an axis: (cells,). Each pixel has whole cells."""
    return np.arange(cells) * pixels // cells


def cells_along(side: float) -> int:
    """The number of cells along a side: of length 1, or a little more if the side is no integer."""
    return max(1, int(side))


def counts(rows: Any, sides: Sides, most: int) -> np.ndarray:
    """The number of particles in each pixel: (nx, ny), or (nx,) if there is one side; float64.

    ``rows`` (n, sides or more): positions first, in [0, side]. An axis has at most ``most`` pixels,
    each of whole cells: otherwise particles in the middle of cells would make stripes.
    """
    cells = [cells_along(side) for side in sides]
    pixels = [min(n, most) for n in cells]
    number = np.zeros(len(rows), np.int64)
    for axis, (n, many, side) in enumerate(zip(pixels, cells, sides, strict=True)):
        cell = np.minimum((rows[:, axis] * many / side).astype(np.int64), many - 1)
        number = number * n + pixels_of_cells(many, n)[cell]
    counted = np.bincount(number, minlength=math.prod(pixels))
    return counted.reshape(pixels).astype(np.float64)


def density(counted: np.ndarray, sides: Sides) -> np.ndarray:
    """Particles per unit of area, or of length: `counts`, over the size of each pixel.

    ``counted`` (..., nx, ny) or (..., nx).
    """
    for axis, side in enumerate(reversed(sides), 1):
        cells = cells_along(side)
        lengths = np.bincount(pixels_of_cells(cells, counted.shape[-axis])) * (side / cells)
        counted = counted / np.expand_dims(lengths, tuple(range(1, axis)))
    return counted


def quantity_of(states: Any, in_cells: bool) -> str:
    """What a thumbnail of a state shows, with its unit: "particles per cell", "u [K]".

    ``states``: an HDF5 group. ``in_cells``: whether lengths are in cells, rather than sigma.
    """
    name = shown_name(states)
    if are_counted(states):
        return f"{name} per {'cell' if in_cells else 'sigma²'}"
    units = states[name].attrs.get("units", "1")
    return f"{name} [{units}]" if units != "1" else f"{name} (no unit)"


def are_counted(states: Any) -> bool:
    """Whether thumbnails of a state show the number of its rows, and not the values of a field."""
    return f"{shown_name(states)}.id" in states


def thumbnail_of(states: Any, sides: Sides, strict: bool = True) -> np.ndarray:
    """The thumbnail of a state in an HDF5 group, which is read in chunks.

    Raises ValueError for particles that are not within the domain, if ``strict``: in a file from
    elsewhere. A run must also write a state that is not valid.
    """
    name = shown_name(states)
    data = states[name]
    total = np.zeros(())
    chunk = max(1, CHUNK // max(1, math.prod(data.shape[1:])))
    for first in range(0, max(1, len(data)), chunk):
        values = data[first : first + chunk]
        origin = (first, *[0] * len(data.shape[1:]))
        if are_counted(states):
            positions = values[:, : len(sides)]
            if strict and not ((positions >= 0) & (positions <= sides)).all():
                raise ValueError(f"positions in state/{name} must be within the domain")
            total = total + share(Piece(name, values, None, ()), sides)
        else:
            total = total + share(Piece(name, values, origin, data.shape), sides)
    return total


@dataclass(frozen=True)
class Thumbnails:
    """A snapshot writer (see `miniapps.snapshots`): a thumbnail every ``every`` steps.

    ``shown``: the part of the state, where blocks have several; None: that of `shown_name`.
    ``overlays``: other parts by name, and where they lie over it.
    """

    name: ClassVar[str] = "thumbnails"

    every: int
    sides: Sides
    shown: str | None = None
    overlays: Mapping[str, Overlay] = field(default_factory=dict)

    @property
    def frame_bytes(self) -> float:
        """A float32 for each pixel."""
        most = pixels_of(len(self.sides))
        return 4.0 * math.prod(min(cells_along(side), most) for side in self.sides)

    def wants(self, before: int, step: int) -> bool:
        """Whether the round from step ``before`` to ``step`` reached a multiple of ``every``."""
        return before // self.every < step // self.every

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Add a block's contribution to the sum of its PE."""
        name = self.shown or shown_name(piece.name for piece in pieces)
        of_it = [share(piece, self.sides) for piece in pieces if piece.name == name]
        for kind, parts in (("thumbnail", of_it), ("overlay", self.over_it(pieces))):
            if parts and kind in frame:
                frame[kind][...] += sum(parts)
            elif parts:
                frame[kind] = sum(parts)

    def over_it(self, pieces: Iterable[Piece]) -> list[np.ndarray]:
        """What some pieces contribute to pixels over which they lie."""
        return [
            overlaid(piece, self.overlays[piece.name], self.sides)
            for piece in pieces
            if piece.name in self.overlays
        ]

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], steps: int
    ) -> None:
        """Add up the sums of all PEs, and append a thumbnail of the final state if missing."""
        thumbnails = {
            step: over(
                np.sum([part["thumbnail"][...] for part in parts if "thumbnail" in part], axis=0),
                [part["overlay"][...] for part in parts if "overlay" in part],
            )
            for step, parts in frames.items()
        }
        if steps not in thumbnails:
            state = file["state"]
            final = thumbnail_of(state, self.sides, strict=False)
            there = [name for name in self.overlays if name in state]
            origin = (0,) * len(self.sides)
            pieces = (Piece(n, state[n][...], origin, state[n].shape) for n in there)
            thumbnails[steps] = over(final, self.over_it(pieces))
        snapshots = file.require_group("snapshots")
        snapshots["step"] = np.array(list(thumbnails), np.int64)
        snapshots["thumbnail"] = np.array(list(thumbnails.values()), np.float32)
        _describe(snapshots, file["state"], self.overlays)

    def earlier(self, file: Any) -> dict[int, list[Any]]:
        """The thumbnails of a file, each as the sum of one PE."""
        snapshots = file["snapshots"]
        pairs = zip(snapshots["step"][...].tolist(), snapshots["thumbnail"][...], strict=True)
        return {step: [{"thumbnail": thumbnail}] for step, thumbnail in pairs}


def _describe(snapshots: Any, state: Any, overlays: Iterable[str]) -> None:
    """Give thumbnails their attributes."""
    name, is_rows = shown_name(state), are_counted(state)
    what = "number of rows of" if is_rows else "mean over the cells, also along z, of"
    about = (
        f"{what} state/{name} in each pixel: n pixels have whole cells, cell i pixel i n // cells"
    )
    above = ", ".join(f"state/{name}" for name in sorted(overlays))
    if above:
        about += f"; where one of these exists, the mean over its points there: {above}"
    axes = ["snapshot", *AXES[: snapshots["thumbnail"].ndim - 1]]
    units = "1" if is_rows else state[name].attrs["units"]
    describe(snapshots["thumbnail"], about, axes, units)
    describe(snapshots["step"], "steps made before each thumbnail, with warm-up", ["snapshot"])
