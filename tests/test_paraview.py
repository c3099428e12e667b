"""Files for ParaView: VTK's own reader finds the fields, particles and atoms of a run in them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import support
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOHDF import vtkHDFReader

from miniapps.workbench.show import paraview

RUNS = {
    "jacobi2d": "jacobi2d --size 7x5 --initial noise --steps 3",
    "stencil3d": "stencil3d --size 6x5x4 --initial noise --steps 3",
    "pic": "pic --preset minimal",
    "leanmd": "leanmd --preset minimal --trajectory 2",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An output file of each app, with a file for ParaView beside it."""
    folder = tmp_path_factory.mktemp("paraview")
    paths = {app: folder / f"{app}.h5" for app in RUNS}
    records = support.records_of(f"{run} --output {paths[app]}" for app, run in RUNS.items())
    assert all(record["valid"] for record in records)
    for path in paths.values():
        done = support.in_process("plot", path, "--paraview")
        assert done.stdout.split() == [str(path.with_suffix(".vtkhdf"))], done.stderr
    return paths


def read(path: Path, step: int = 0) -> Any:
    """What VTK reads from the file beside a run's, at a time step."""
    reader = vtkHDFReader()
    reader.SetFileName(str(path.with_suffix(".vtkhdf")))
    reader.SetStep(step)
    reader.Update()
    return reader.GetOutputDataObject(0)


@pytest.mark.slow
@pytest.mark.parametrize("app", ["jacobi2d", "stencil3d"])
def test_a_field_has_its_axes(files: dict[str, Path], app: str) -> None:
    """Catches x and z exchanged, cells taken for points, and a wrong spacing."""
    image = read(files[app])
    with h5py.File(files[app]) as file:
        field = file["state/u"][...]
    values = vtk_to_numpy(image.GetCellData().GetArray("u"))
    assert image.GetNumberOfCells() == field.size
    for number, value in enumerate(values):
        low = image.GetCell(number).GetBounds()[: 2 * field.ndim : 2]
        assert value == field[tuple(map(int, low))]
    assert image.GetBounds()[: 2 * field.ndim : 2] == (0.0,) * field.ndim
    assert image.GetBounds()[1 : 2 * field.ndim : 2] == field.shape


@pytest.mark.long
def test_particles_have_their_columns(files: dict[str, Path]) -> None:
    """Catches particles in another place, a column under another name, and rows that differ."""
    points = read(files["pic"])
    with h5py.File(files["pic"]) as file:
        rows, ids = file["state/particles"][...], file["state/particles.id"][...]
    place = vtk_to_numpy(points.GetPoints().GetData())
    found = {
        name: vtk_to_numpy(points.GetPointData().GetArray(name))
        for name in ("velocity", "charge", "id")
    }
    assert points.GetNumberOfVerts() == len(rows)
    assert np.array_equal(place[:, :2], rows[:, :2]) and not place[:, 2].any()
    assert np.array_equal(found["velocity"][:, :2], rows[:, 2:4])
    assert np.array_equal(found["charge"], rows[:, 4]) and np.array_equal(found["id"], ids)


@pytest.mark.long
def test_frames_of_a_trajectory_are_time_steps(files: dict[str, Path]) -> None:
    """Catches atoms of another frame, and times that are numbers of frames."""
    with h5py.File(files["leanmd"]) as file:
        position, velocity = (
            file[f"particles/atoms/{n}/value"][...] for n in ("position", "velocity")
        )
        times = file["particles/atoms/position/time"][...]
    reader = vtkHDFReader()
    reader.SetFileName(str(files["leanmd"].with_suffix(".vtkhdf")))
    reader.UpdateInformation()
    key = reader.GetExecutive().TIME_STEPS()
    assert reader.GetOutputInformation(0).Get(key) == tuple(times) and len(times) == 3
    for number in range(len(times)):
        points = read(files["leanmd"], number)
        assert np.array_equal(vtk_to_numpy(points.GetPoints().GetData()), position[number])
        found = vtk_to_numpy(points.GetPointData().GetArray("velocity"))
        assert np.array_equal(found, velocity[number])


def test_a_file_without_names(tmp_path: Path, files: dict[str, Path]) -> None:
    """Catches a traceback for particles of a file from an older version."""
    with h5py.File(files["pic"], "r+") as file:
        columns = file["state/particles"].attrs["columns"]
        del file["state/particles"].attrs["columns"]
    try:
        done = support.in_process("plot", files["pic"], "--paraview")
    finally:
        with h5py.File(files["pic"], "r+") as file:
            file["state/particles"].attrs["columns"] = columns
    assert done.returncode == 2 and "names of columns" in done.stderr
    assert not list(files["pic"].parent.glob("*.part"))


# Checkpoints --------------------------------------------------------------------------------------

TWO_BLOCKS = {"jacobi2d": "2x1", "stencil3d": "1x2x1", "pic": "2x1", "leanmd": "2x1x1"}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each app, which two blocks have written."""
    folder = tmp_path_factory.mktemp("checkpoints")
    paths = {app: folder / f"{app}.h5" for app in RUNS}
    runs = {"leanmd": "leanmd --preset minimal --lattice 6x6x6"}
    records = support.records_of(
        f"{(RUNS | runs)[app]} --pe-grid {grid} --checkpoint {paths[app]} --checkpoint-every 1"
        for app, grid in TWO_BLOCKS.items()
    )
    assert all(record["valid"] for record in records), records
    return paths


def converted(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of a checkpoint, with a file for ParaView beside it."""
    path = tmp_path / "c.h5"
    path.write_bytes(checkpoint.read_bytes())
    done = support.in_process("plot", path, "--paraview")
    assert done.stdout.split() == [str(path.with_suffix(".vtkhdf"))], done.stderr
    return path


@pytest.mark.long
@pytest.mark.parametrize("app", ["jacobi2d", "stencil3d"])
@pytest.mark.parametrize("version", ["this", "without extent"])
def test_a_field_of_a_checkpoint(
    checkpoints: dict[str, Path], app: str, version: str, tmp_path: Path
) -> None:
    """Catches x and z exchanged, blocks in each other's place, and cells of another length."""
    path = tmp_path / "before.h5"
    path.write_bytes(checkpoints[app].read_bytes())
    with h5py.File(path, "r+") as file:
        head, field = json.loads(file.attrs["checkpoint"]), file["state/u"][...]
        if version == "this":
            head["extent"] = [2 * side for side in head["extent"]]  # cells of 2
        else:
            del head["extent"]
        text = json.dumps(head)
        file.attrs["checkpoint"] = text
        file.attrs["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    image = read(converted(path, tmp_path))
    side = 2 if version == "this" else 1
    ends = [edge for cells in field.shape for edge in (0, side * cells)]
    assert image.GetBounds()[: 2 * field.ndim] == tuple(ends)
    values = vtk_to_numpy(image.GetCellData().GetArray("u"))
    assert image.GetNumberOfCells() == field.size
    for number, value in enumerate(values):
        low = image.GetCell(number).GetBounds()[: 2 * field.ndim : 2]
        assert value == field[tuple(int(at) // side for at in low)]


@pytest.mark.long
@pytest.mark.parametrize("chunk", [7, 1 << 20])
@pytest.mark.parametrize("app", ["pic", "leanmd"])
def test_particles_of_a_checkpoint(
    checkpoints: dict[str, Path],
    app: str,
    chunk: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches rows that no particle has, rows left out, and ids of other rows."""
    monkeypatch.setattr(paraview, "CHUNK", chunk)
    path = converted(checkpoints[app], tmp_path)
    points, name, axes = read(path), *{"pic": ("particles", 2), "leanmd": ("atoms", 3)}[app]
    with h5py.File(path) as file:
        rows, ids = file[f"state/{name}"][...], file[f"state/{name}.id"][...]
    used = ids >= 0
    assert used.all() != (app == "pic")  # where an event has removed some
    place = vtk_to_numpy(points.GetPoints().GetData())
    found = {key: vtk_to_numpy(points.GetPointData().GetArray(key)) for key in ("velocity", "id")}
    assert points.GetNumberOfVerts() == len(place) == used.sum()
    assert np.array_equal(place[:, :axes], rows[used, :axes]) and not place[:, axes:].any()
    assert np.array_equal(found["velocity"][:, :axes], rows[used, axes : 2 * axes])
    assert np.array_equal(found["id"], ids[used])


def test_a_bit_of_a_checkpoint_has_changed(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """Catches values that no run has computed, and a file that is left of them."""
    path = tmp_path / "c.h5"
    path.write_bytes(checkpoints["pic"].read_bytes())
    with h5py.File(path) as file:
        offset = file["state/particles"].id.get_offset()
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    assert "particles has another hash" in support.refused(["plot", path, "--paraview"])
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("words", ["", "--animation", "--trace", "--xyz", "--figure a.png"])
def test_what_else_is_drawn_of_a_checkpoint(checkpoints: dict[str, Path], words: str) -> None:
    """Catches a traceback, or a line that calls a checkpoint a damaged file."""
    said = support.refused(["plot", checkpoints["leanmd"], *words.split()])
    assert "is a checkpoint, which only --paraview shows" in said


def test_a_checkpoint_that_ends_the_library(
    checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a checkpoint that the command itself reads first, and dies of."""
    monkeypatch.setattr(paraview, "read_rows", lambda *_: os.kill(os.getpid(), signal.SIGSEGV))
    said = support.refused(["plot", checkpoints["jacobi2d"], "--paraview"])
    assert "ends the HDF5 library by SIGSEGV" in said
