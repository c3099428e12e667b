"""VTKHDF files, which ParaView opens: fields as image data, particles and atoms as points.

Format: https://docs.vtk.org/en/latest/vtk_file_formats/vtkhdf_file_format. A field has the values
of its cells, in an image whose axes are those of the domain. Points have a vertex each, because
some filters need cells, and the other columns of the table. The frames of a trajectory are time
steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.hdf5 import Unreadable
from miniapps.parameters import require
from miniapps.quantities import AXES
from miniapps.saved import NOBODY
from miniapps.workbench.quoting import word
from miniapps.workbench.run.checkpoint import Resumed, is_checkpoint, read_checkpoint
from miniapps.workbench.run.disk import hdf5_file
from miniapps.workbench.run.replaced import replacing
from miniapps.workbench.run.schema import extent_of
from miniapps.workbench.run.shapes import POSITIVE, misfit
from miniapps.workbench.run.writable import check_writable
from miniapps.workbench.show.reading import opened, read_rows, require_survivable
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.show.thumbnails import shown_name
from miniapps.workbench.show.trajectory import Trajectory, trajectory_in

VERSION = (2, 0)
CHUNK = 1 << 20  # values copied at a time
TOPOLOGIES = ("Vertices", "Lines", "Polygons", "Strips")  # of VTK's polygonal data
VELOCITY = tuple(f"v{axis}" for axis in AXES)  # columns


def write_paraview(source: Path, target: Path) -> Path:
    """Write the final state of a run, all frames of its trajectory, or the state in a checkpoint.

    Raises InputError.
    """
    require_survivable(source, partial(_read_checkpoint, source))
    checkpoint = _verified(source)
    run = SavedRun.read(source) if checkpoint is None else None
    check_writable("--paraview", target)
    with replacing(target) as part, hdf5_file(part, "w") as made, opened(source) as file:
        group = made.create_group("VTKHDF")
        group.attrs["Version"] = np.array(VERSION, np.int64)
        if checkpoint is not None:
            _write_saved(group, file["state"], checkpoint)
        elif run is not None:
            _write_run(group, file, source, run)
    return target


def _write_run(group: Any, file: Any, source: Path, run: SavedRun) -> None:
    """Write what a run's output shows."""
    name = shown_name(file["state"])
    if run.has_trajectory:
        _write_points(group, list(_frames(trajectory_in(file, source))))
    elif f"{name}.id" in file["state"]:
        _write_points(group, [_final_rows(file["state"], name, source)])
    else:
        _write_image(group, file["state"], extent_of(run.record))


# Checkpoints --------------------------------------------------------------------------------------


def _read_checkpoint(source: Path) -> None:
    """Read all that is read of a checkpoint, and no other file, which `SavedRun` reads."""
    with opened(source) as file:
        if is_checkpoint(file):
            read_checkpoint("FILE.h5", source)
            read_rows(*file["state"].values())


def _verified(source: Path) -> Resumed | None:
    """A checkpoint whose hashes hold; None for a file that is none. Raises InputError."""
    with opened(source) as file:
        if not is_checkpoint(file):
            return None
    found = read_checkpoint("FILE.h5", source)
    found.verify()
    return found


def _write_saved(group: Any, state: Any, checkpoint: Resumed) -> None:
    """Write the state in a checkpoint."""
    name = shown_name(state)
    if f"{name}.id" in state:
        frame = _final_rows(state, name, checkpoint.path)
        _write_points(group, [frame.without_unused_rows(state[f"{name}.id"])])
        return
    # Checkpoints of earlier versions do not say how long the domain is: then cells have length 1.
    extent = checkpoint.head.get("extent", list(state[name].shape))
    wrong = misfit(extent, [POSITIVE], "extent")
    if wrong is not None:
        raise Unreadable(wrong)
    _write_image(group, state, extent)


# Fields -------------------------------------------------------------------------------------------


def _write_image(group: Any, state: Any, extent: Sequence[float]) -> None:
    """Write all fields of the shape of the first one, with x as VTK's fastest axis."""
    shape = state[shown_name(state)].shape
    ends = [0] * 6
    ends[1 : 2 * len(shape) : 2] = shape
    spacing = [side / cells for side, cells in zip(extent, shape, strict=True)]
    group.attrs["Type"] = np.bytes_("ImageData")
    group.attrs["WholeExtent"] = np.array(ends, np.int64)
    group.attrs["Origin"] = np.zeros(3)
    group.attrs["Spacing"] = np.array([*spacing, 1.0, 1.0][:3])
    group.attrs["Direction"] = np.eye(3).ravel()
    cells = group.create_group("CellData")
    for name, data in state.items():
        if data.shape == shape:
            _copy_transposed(data, cells.create_dataset(name, shape[::-1], data.dtype))


def _copy_transposed(data: Any, target: Any) -> None:
    """Copy a field with its axes in reverse order, some planes along x at a time."""
    planes = max(1, CHUNK // max(1, data.size // len(data)))
    for first in range(0, len(data), planes):
        part = slice(first, first + planes)
        target[..., part] = data[part].T


# Particles and atoms ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Values of points in an HDF5 dataset: one for each, or a vector for each."""

    data: Any
    where: Any = ()  # index of the frame, if the dataset has several
    columns: Any = None  # those of a vector; an integer: of a scalar; None: all
    used: np.ndarray | None = None  # whether each row has a point; None: all have

    def parts(self, count: int) -> Iterator[tuple[slice, np.ndarray]]:
        """The values of some points at a time; vectors have three components."""
        done, end = 0, count if self.used is None else len(self.used)
        for first in range(0, end, CHUNK):
            rows = slice(first, min(first + CHUNK, end))
            values = self.data[(*self.where, rows)]
            if self.used is not None:
                values = values[self.used[rows]]
            if self.columns is not None:
                values = values[:, self.columns]
            missing = 3 - values.shape[1] if values.ndim == 2 else 0
            points = slice(done, done + len(values))
            yield points, np.pad(values, [(0, 0), (0, missing)]) if missing else values
            done = points.stop

    @property
    def tail(self) -> tuple[int, ...]:
        """The shape of a point's value."""
        scalar = isinstance(self.columns, int) or self.data.ndim == 1 + len(self.where)
        return () if scalar else (3,)


@dataclass(frozen=True)
class Frame:
    """Points at a time, which is of no account if there is only one frame."""

    count: int
    points: Column
    values: dict[str, Column]
    time: float = 0.0

    def without_unused_rows(self, ids: Any) -> Frame:
        """The same points without the rows of a checkpoint that no particle has; ``ids``: of rows.

        Keeps a byte for each row.
        """
        starts = range(0, len(ids), CHUNK)
        parts = [np.empty(0, bool), *(ids[first : first + CHUNK] != NOBODY for first in starts)]
        used = np.concatenate(parts)
        values = {name: replace(column, used=used) for name, column in self.values.items()}
        return Frame(int(used.sum()), replace(self.points, used=used), values)


def _final_rows(state: Any, name: str, source: Path) -> Frame:
    """The points of the final state, with all columns that are not positions."""
    data = state[name]
    known = "columns" in data.attrs
    require(known, "--paraview", source, "has no names of columns: run it again with --output")
    names = [word(str(column), "--paraview: column") for column in data.attrs["columns"]]
    columns = {column: number for number, column in enumerate(names)}
    vector = [columns[axis] for axis in AXES if axis in columns]
    speeds = [columns[column] for column in VELOCITY if column in columns]
    values = {
        column: Column(data, (), number)
        for column, number in columns.items()
        if column not in AXES + VELOCITY
    }
    if speeds:
        values["velocity"] = Column(data, (), speeds)
    values["id"] = Column(state[f"{name}.id"])
    return Frame(len(data), Column(data, (), vector), values)


def _frames(found: Trajectory) -> Iterator[Frame]:
    """The frames of a trajectory."""
    for number, time in enumerate(found.times[...]):
        where = (number,)
        others = {"velocity": Column(found.velocities, where), "id": Column(found.ids, where)}
        yield Frame(found.atoms, Column(found.positions, where), others, float(time))


def _write_points(group: Any, frames: list[Frame]) -> None:
    """Write points with their values, and a vertex for each; frames have equally many points."""
    count = frames[0].count
    group.attrs["Type"] = np.bytes_("PolyData")
    group["NumberOfPoints"] = np.array([count])
    for topology in TOPOLOGIES:
        cells = count if topology == "Vertices" else 0
        made = group.create_group(topology)
        made["NumberOfCells"] = made["NumberOfConnectivityIds"] = np.array([cells])
        made["Offsets"], made["Connectivity"] = np.arange(cells + 1), np.arange(cells)
    _write_column(group, "Points", [frame.points for frame in frames], count)
    values = group.create_group("PointData")
    for name in frames[0].values:
        _write_column(values, name, [frame.values[name] for frame in frames], count)
    if len(frames) > 1:
        _write_steps(group, count, [frame.time for frame in frames], list(values))


def _write_column(group: Any, name: str, columns: list[Column], count: int) -> None:
    """Write the values of all frames one after another."""
    first = columns[0]
    shape = (count * len(columns), *first.tail)
    target = group.create_dataset(name, shape, first.data.dtype)
    for number, column in enumerate(columns):
        for rows, values in column.parts(count):
            target[number * count + rows.start : number * count + rows.stop] = values


def _write_steps(group: Any, count: int, times: list[float], names: list[str]) -> None:
    """Write the times of frames, and where their ``count`` points begin; they share vertices."""
    steps = group.create_group("Steps")
    steps.attrs["NSteps"] = len(times)
    steps["Values"] = times
    starts = np.arange(len(times)) * count
    steps["PointOffsets"] = starts
    steps["PartOffsets"] = np.zeros(len(times), np.int64)
    steps["NumberOfParts"] = np.ones(len(times), np.int64)
    for name in ("CellOffsets", "ConnectivityIdOffsets"):
        steps[name] = np.zeros((len(times), len(TOPOLOGIES)), np.int64)
    for name in names:
        steps[f"PointDataOffsets/{name}"] = starts
