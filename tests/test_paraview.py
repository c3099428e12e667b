"""Files for ParaView: VTK's own reader finds the fields, particles and atoms of a run in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import support
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOHDF import vtkHDFReader

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
