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

from miniapps.workbench.show import paraview

RUNS = {"pic": "pic --preset minimal", "leanmd": "leanmd --preset minimal --trajectory 2"}
# Two blocks write a checkpoint each.
SAVED = {
    "pic": f"{RUNS['pic']} --pe-grid 2x1",
    "leanmd": "leanmd --preset minimal --lattice 6x6x6 --pe-grid 2x1x1",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An output file and a checkpoint of each app, with a file for ParaView beside each."""
    folder = tmp_path_factory.mktemp("paraview")
    paths = {name: folder / f"{name}.h5" for name in (*RUNS, "saved pic", "saved leanmd")}
    lines = [f"{run} --output '{paths[app]}'" for app, run in RUNS.items()]
    lines += [
        f"{run} --checkpoint '{paths[f'saved {app}']}' --checkpoint-every 1"
        for app, run in SAVED.items()
    ]
    assert all(record["valid"] for record in support.records_of(lines))
    for path in paths.values():
        done = support.in_process("plot", path, "--paraview")
        assert done.stdout == f"{path.with_suffix('.vtkhdf')}\n", done.stderr
    return paths


COLUMNS = {"pic": ("particles", 2), "leanmd": ("atoms", 3)}  # name of the state, axes


def read(path: Path, step: int = 0) -> Any:
    """What VTK reads from the file beside a run's, at a time step."""
    reader = vtkHDFReader()
    reader.SetFileName(str(path.with_suffix(".vtkhdf")))
    reader.SetStep(step)
    reader.Update()
    return reader.GetOutputDataObject(0)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4)])
def test_a_field_has_its_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Catches x and z exchanged, cells taken for points, of another length or of another axis."""
    axes = len(shape)
    field = np.random.default_rng(1).random(shape)
    with h5py.File(tmp_path / "run.vtkhdf", "w") as made:
        group = made.create_group("VTKHDF")
        group.attrs["Version"] = np.array(paraview.VERSION, np.int64)
        paraview._write_image(group, {"u": field}, (10.0, 9.0, 2.0)[:axes])
    image = read(tmp_path / "run.vtkhdf")
    assert image.GetBounds()[: 2 * axes] == (0, 10, 0, 9, 0, 2)[: 2 * axes]
    values = vtk_to_numpy(image.GetCellData().GetArray("u"))
    assert len(values) == image.GetNumberOfCells() == field.size
    for number, value in enumerate(values):
        low = image.GetCell(number).GetBounds()[: 2 * axes : 2]
        assert value == field[tuple(np.round(np.divide(low, (5, 3, 0.5)[:axes])).astype(int))]


@pytest.mark.long
@pytest.mark.parametrize("name", ["pic", "saved pic", "saved leanmd"])
def test_particles_have_their_columns(files: dict[str, Path], name: str) -> None:
    """Catches particles in another place, a column under another name, and rows that differ.

    In a checkpoint also rows that no particle has, where an event has removed some.
    """
    points, state, axes = read(files[name]), *COLUMNS[name.split()[-1]]
    with h5py.File(files[name]) as file:
        rows, ids = file[f"state/{state}"][...], file[f"state/{state}.id"][...]
    assert (ids >= 0).all() != (name == "saved pic")
    rows, ids = rows[ids >= 0], ids[ids >= 0]
    place = vtk_to_numpy(points.GetPoints().GetData())
    found = points.GetPointData()
    assert points.GetNumberOfVerts() == len(place) == len(rows)
    assert np.array_equal(place[:, :axes], rows[:, :axes]) and not place[:, axes:].any()
    velocity = vtk_to_numpy(found.GetArray("velocity"))
    assert np.array_equal(velocity[:, :axes], rows[:, axes : 2 * axes])
    assert np.array_equal(vtk_to_numpy(found.GetArray("id")), ids)
    if state == "particles":
        assert np.array_equal(vtk_to_numpy(found.GetArray("charge")), rows[:, 4])


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


@pytest.mark.long
@pytest.mark.parametrize("words", ["", "--animation", "--trace", "--xyz", "--figure a.png"])
def test_what_else_is_drawn_of_a_checkpoint(files: dict[str, Path], words: str) -> None:
    """Catches a traceback, or a line that calls a checkpoint a damaged file."""
    said = support.refused(["plot", files["saved leanmd"], *words.split()])
    assert "is a checkpoint, which only --paraview shows" in said
