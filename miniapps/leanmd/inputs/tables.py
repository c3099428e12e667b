"""Tables of atoms, the input that they make up, and how errors in them are reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from miniapps.parameters import InputError, require

OPTION = "--input"
CHUNK = 8192  # rows held at a time: about 2 MB of text
SHORTEST, LONGEST = 1e-3, 1e9  # of sides: the shortest still has a thousand quanta of the longest

Chunk = tuple[np.ndarray, np.ndarray]  # ids (n,) int64 and vectors (n, 3) float64
Sides = tuple[float, float, float]


class Table(Protocol):
    """An id and a vector for each atom, in rows of a file."""

    @property
    def what(self) -> str:
        """What the vectors are: "position" or "velocity"."""

    @property
    def count(self) -> int:
        """How many rows there are."""

    def chunks(self) -> Iterator[Chunk]:
        """The rows, some at a time."""

    def location(self, row: int) -> str:
        """Where in the file a row is, for people."""


@dataclass(frozen=True)
class Input:
    """A file that atoms are read from, found to be in order. It can be pickled."""

    path: Path
    box: Sides  # the lengths of its sides
    corner: Sides  # its lowest corner
    step: int  # at which the atoms were like this; 0 where the file does not say
    positions: Table
    velocities: Table | None

    @property
    def atoms(self) -> int:
        """How many atoms there are."""
        return self.positions.count

    @property
    def has_velocities(self) -> bool:
        """Whether the file says how fast atoms are."""
        return self.velocities is not None


def slices(count: int) -> Iterator[slice]:
    """The slices of ``count`` rows that are held one at a time."""
    for first in range(0, count, CHUNK):
        yield slice(first, min(first + CHUNK, count))


def need(holds: bool | np.bool_, location: object, allowed: str) -> None:
    """Raise InputError for a location in a file unless the condition holds."""
    require(bool(holds), OPTION, location, allowed)


@contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Say of which file it is when the system cannot read it."""
    try:
        yield
    except OSError as error:
        what = error.strerror or " ".join(str(error).split())
        raise InputError(OPTION, path, f"cannot be read: {what}") from error


def box_of(sides: list[float], location: object) -> Sides:
    """Three sides of a box, none of them absurd."""
    x, y, z = sides
    for side in sides:
        allowed = f"a side of the box must be from {SHORTEST:g} to {LONGEST:g}, is {side:g}"
        need(SHORTEST <= side <= LONGEST, location, allowed)
    return x, y, z


def diagonal(matrix: np.ndarray, location: object) -> Sides:
    """The sides of a box whose edges, the rows of a matrix (3, 3), must be along the axes."""
    sides = np.diag(matrix)
    need(
        (matrix == np.diag(sides)).all(), location, "the box must have right angles, along the axes"
    )
    return box_of(sides.tolist(), location)
