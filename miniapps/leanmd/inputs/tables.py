"""Tables of atoms, the input that consists of them, and how errors in them are reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from miniapps.parameters import InputError, require

OPTION = "--input"
TAKEN_AS_REDUCED = ", which names no units: taken as reduced ones"
ONLY_LAMMPS = "only LAMMPS data in other units are converted, by --units argon"
CHUNK = 8192  # rows held at a time: about 2 MB of text
SHORTEST, LONGEST = 1e-3, 1e9  # of a side: the shortest is still 1000 quanta of the longest

ROUNDED = 1e-12  # a tilt of that share of a side is a right angle: cos(90 degrees) is 6e-17

Chunk = tuple[np.ndarray, np.ndarray]  # ids (n,) int64 and vectors (n, 3) float64
Sides = tuple[float, float, float]


class Table(Protocol):
    """An id and a vector for each atom, in rows of a file."""

    @property
    def what(self) -> str:
        """What the vectors are: "position" or "velocity"."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def chunks(self) -> Iterator[Chunk]:
        """The rows, some at a time."""

    def location(self, row: int) -> str:
        """Where in the file a row is, for messages."""


@dataclass(frozen=True)
class Scale:
    """What the numbers of a file are divided by to be in reduced units."""

    length: float = 1.0
    speed: float = 1.0
    said: str = ""  # of a conversion, in summaries


@dataclass(frozen=True)
class Input:
    """A file that atoms are read from; it has been checked. It can be pickled."""

    path: Path
    box: Sides  # the lengths of its sides, sigma
    corner: Sides  # its lowest corner, in the units of the file
    step: int  # the time step of this state; 0 if the file does not contain it
    positions: Table
    velocities: Table | None
    scale: Scale = Scale()  # of the tables and the corner
    note: str = ""  # on its units, for summaries

    @property
    def atoms(self) -> int:
        """The number of atoms."""
        return self.positions.count

    @property
    def has_velocities(self) -> bool:
        """Whether the file contains velocities."""
        return self.velocities is not None


def slices(count: int) -> Iterator[slice]:
    """Slices of ``count`` rows, of which one is held at a time."""
    for first in range(0, count, CHUNK):
        yield slice(first, min(first + CHUNK, count))


def need(holds: bool | np.bool_, location: object, allowed: str) -> None:
    """Raise InputError for a location in a file unless the condition holds."""
    require(bool(holds), OPTION, location, allowed)


@contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Raise an InputError that names the file if the system cannot read it."""
    try:
        yield
    except OSError as error:
        what = error.strerror or " ".join(str(error).split())
        raise InputError(OPTION, path, f"cannot be read: {what}") from error


def box_of(sides: list[float], location: object) -> Sides:
    """The three sides of a box. Raises InputError if one is too short or too long."""
    x, y, z = sides
    for side in sides:
        allowed = f"a side of the box must be from {SHORTEST:g} to {LONGEST:g}, is {side:g}"
        need(SHORTEST <= side <= LONGEST, location, allowed)
    return x, y, z


def diagonal(matrix: np.ndarray, location: object) -> Sides:
    """The sides of a box from its edges, rows of a matrix (3, 3), which must be along the axes."""
    sides = np.diag(matrix)
    tilt = np.abs(matrix - np.diag(sides)).max()
    what = "the box must have right angles, along the axes"
    need(tilt <= ROUNDED * np.abs(sides).max(), location, what)
    return box_of(sides.tolist(), location)
