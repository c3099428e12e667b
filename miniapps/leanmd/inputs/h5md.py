"""H5MD 1.1 files: HDF5 with a group of particles. Functions import h5py when they need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.hdf5 import damage, require_own_data, require_stored
from miniapps.leanmd.inputs.tables import (
    ONLY_LAMMPS,
    OPTION,
    TAKEN_AS_REDUCED,
    Chunk,
    Input,
    Sides,
    box_of,
    diagonal,
    need,
    slices,
)
from miniapps.parameters import InputError

MAGIC = b"\x89HDF\r\n\x1a\n"  # how HDF5 files begin
LENGTHS, SPEEDS = ("", "1", "sigma"), ("", "1", "sigma tau-1")
UNITS = {"position": LENGTHS, "edges": LENGTHS, "velocity": SPEEDS}  # allowed ones
OF_AN_ATOM: dict[str, tuple[int, ...]] = {  # other elements that are read: shape per atom
    "velocity": (3,),
    "id": (),
    "species": (),
    "mass": (),
}


@dataclass(frozen=True)
class Element:
    """A dataset: constant in time, or with a row for each frame, of which the last is read."""

    name: str  # in the file
    shape: tuple[int, ...]  # of a frame
    frame: int | None  # the last one; None if there are none
    step: int | None  # of that frame

    def read(self, file: Any, rows: slice = slice(None)) -> np.ndarray:
        """Some rows of the last frame, or all."""
        return file[self.name][rows if self.frame is None else (self.frame, rows)]


@dataclass(frozen=True)
class Hdf5Table:
    """Rows of datasets of an HDF5 file."""

    path: Path
    what: str  # "position" or "velocity"
    count: int
    ids: Element | None  # None: 1, 2, and so on
    vectors: Element

    def chunks(self) -> Iterator[Chunk]:
        """The rows, some at a time."""
        with _hdf5(self.path) as file:
            for rows in slices(self.count):
                ids = np.arange(rows.start, rows.stop) + 1
                if self.ids is not None:
                    ids = self.ids.read(file, rows).astype(np.int64)
                yield ids, self.vectors.read(file, rows).astype(np.float64)

    def location(self, row: int) -> str:
        """The dataset and a row of it, for messages."""
        return f"{self.path}:{self.vectors.name}[{row}]"


def from_h5md(path: Path) -> Input:
    """Find the last frame of an H5MD file."""
    with _hdf5(path) as file:
        version = np.ravel(file["h5md"].attrs["version"]).tolist() if "h5md" in file else []
        need(version[:1] == [1], path, f"must be H5MD of version 1, not {version}")
        group = _particles(file, path)
        location = f"{path}:{group.name}"
        at = _element(path, group, "position")
        if at is None:
            raise InputError(OPTION, location, "has no position")
        good = len(at.shape) == 2 and at.shape[0] >= 1 and at.shape[1] == 3
        need(good, location, f"position must be (frames, N, 3), has frames of {at.shape}")
        count, step = at.shape[0], at.step
        others = {name: _element(path, group, name, step) for name in OF_AN_ATOM}
        for name, found in others.items():
            shape = (count, *OF_AN_ATOM[name])
            good = found is None or found.shape == shape
            need(good, location, f"{name} must be (frames, {', '.join(map(str, shape))})")
        _check_same(location, file, others["species"], "species", None)
        _check_same(location, file, others["mass"], "mass", 1)
        box = _box(path, file, group, step)
        note = "" if "unit" in file[at.name].attrs else TAKEN_AS_REDUCED
    ids, speed = others["id"], others["velocity"]
    positions = Hdf5Table(path, "position", count, ids, at)
    velocities = Hdf5Table(path, "velocity", count, ids, speed) if speed else None
    return Input(path, box, (0.0, 0.0, 0.0), step or 0, positions, velocities, note=note)


@contextmanager
def _hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file. Only code that reads it may run inside: any exception means damage."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            require_own_data(file)
            yield file
    except InputError:
        raise
    except Exception as error:  # h5py raises almost any of them for a damaged file
        what = f"is not H5MD that can be read: {damage(error)}"
        raise InputError(OPTION, path, what) from error


def _particles(file: Any, path: Path) -> Any:
    """The group of the atoms: the only group of particles, or the one called atoms."""
    import h5py

    parent = file.get("particles", {})
    groups = {name: found for name, found in parent.items() if isinstance(found, h5py.Group)}
    name = "atoms" if len(groups) > 1 else "".join(groups)
    allowed = f"must have one group, or one called atoms, has {sorted(groups)}"
    need(name in groups, f"{path}:/particles", allowed)
    return groups[name]


def _element(path: Path, group: Any, name: str, step: int | None = None) -> Element | None:
    """An element of a group, or None. Its step must be ``step``, if both are known."""
    import h5py

    found = group.get(name)
    if found is None:
        return None
    location = f"{path}:{found.name}"
    fixed = isinstance(found, h5py.Dataset)
    data = found if fixed else found.get("value")
    need(isinstance(data, h5py.Dataset), location, "has no value")
    kinds, what = ("iu", "integers") if name == "id" else ("fiu", "numbers")
    need(data.dtype.kind in kinds, location, f"must be {what}, not {data.dtype}")
    require_stored(path, data)
    unit = _text(data.attrs.get("unit", ""))
    allowed = UNITS.get(name, (unit,))
    must = f"the unit must be {allowed[-1]!r}, is {unit!r}; {ONLY_LAMMPS}"
    need(unit in allowed, location, must)
    if fixed:
        return Element(data.name, data.shape, None, None)
    need(data.ndim >= 1 and len(data) >= 1, location, "has no frames")
    frame, own = len(data) - 1, _step(location, found, len(data))
    same = step is None or own is None or own == step
    need(same, location, f"must be of step {step} as the position, the last one is of {own}")
    return Element(data.name, data.shape[1:], frame, own)


def _step(location: str, group: Any, frames: int) -> int | None:
    """The step of an element's last frame; equally spaced steps are stored as one number."""
    steps = group.get("step")
    if steps is None:
        return None
    need(steps.dtype.kind in "iu", location, f"steps must be integers, not {steps.dtype}")
    if steps.shape == ():
        return int(steps.attrs.get("offset", 0)) + int(steps[()]) * (frames - 1)
    need(steps.shape == (frames,), location, f"has {frames} frames, but steps {steps.shape}")
    return int(steps[-1])


def _check_same(
    location: str, file: Any, element: Element | None, name: str, value: float | None
) -> None:
    """Raise InputError unless all atoms have the same value; it must be ``value`` if given."""
    if element is not None:
        for rows in slices(element.shape[0]):
            found = element.read(file, rows)
            value = found[0] if value is None else value
            need((found == value).all(), location, f"{name} must be {value} for all atoms")


def _box(path: Path, file: Any, group: Any, step: int | None) -> Sides:
    """The sides of the box, which must be periodic."""
    location = f"{path}:{group.name}/box"
    box = group.get("box")
    edges = None if box is None else _element(path, box, "edges", step)
    if edges is None:
        raise InputError(OPTION, location, "has no edges")
    boundary = [_text(word) for word in np.ravel(box.attrs.get("boundary", []))]
    need(boundary == ["periodic"] * 3, location, f"the boundary must be periodic, is {boundary}")
    need(
        edges.shape in ((3,), (3, 3)), location, f"edges must be (3,) or (3, 3), are {edges.shape}"
    )
    sides = edges.read(file).astype(np.float64)
    return box_of(sides.tolist(), location) if sides.ndim == 1 else diagonal(sides, location)


def _text(value: Any) -> str:
    """The string in an attribute."""
    word = np.ravel(value)[0]
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)
