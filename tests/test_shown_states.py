"""States as thumbnails and as files for ParaView in detail, from small states by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from test_saved import atoms, file_of

from miniapps.contract import Piece
from miniapps.hdf5 import Unreadable
from miniapps.parameters import InputError
from miniapps.quantities import describe
from miniapps.saved import NOBODY
from miniapps.workbench.show import paraview, thumbnails
from miniapps.workbench.show.paraview import Column
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.show.thumbnails import Thumbnails, cells_along, quantity_of, thumbnail_of

POINTS = np.array([[0.0, 0.0], [4.0, 3.0], [3.5, 0.5]])
IDS = np.array([7, 8, 9])


@pytest.fixture
def made() -> Iterator[Any]:
    """An HDF5 file in memory."""
    with h5py.File("made.h5", "w", driver="core", backing_store=False) as file:
        yield file


# Thumbnails ---------------------------------------------------------------------------------------


def test_names_of_states() -> None:
    """Catches ids that are shown, and a state of nothing."""
    assert thumbnails.shown_name(["v", "u", "a.id"]) == "u"
    with pytest.raises(KeyError, match="no state"):
        thumbnails.shown_name(["a.id"])


def test_cells_of_a_side() -> None:
    """Catches a domain without cells, and cells that are shorter than 1."""
    assert [cells_along(side) for side in (0.5, 1, 1.5, 2, 3.9)] == [1, 1, 1, 2, 3]


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 3, 2)])
def test_fields_that_are_read_in_parts(chunk, shape, monkeypatch):
    """Catches a part that is left out, or put elsewhere."""
    monkeypatch.setattr(thumbnails, "CHUNK", chunk)
    field = np.arange(np.prod(shape) * 1.0).reshape(shape)
    found = thumbnail_of({"u": field}, (5.0, 3.0)[: len(shape)])
    np.testing.assert_allclose(found, field if len(shape) < 3 else field.mean(axis=2))


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_particles_that_are_read_in_parts(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches particles that are lost, or that are refused at the edges of the domain."""
    monkeypatch.setattr(thumbnails, "CHUNK", chunk)
    found = thumbnail_of({"a": POINTS, "a.id": IDS}, (4.0, 3.0))
    assert found.shape == (4, 3) and found.sum() == 3
    assert (found[0, 0], found[3, 2], found[3, 0]) == (1, 1, 1)
    none = thumbnail_of({"a": POINTS[:0], "a.id": IDS[:0]}, (4.0, 3.0))
    assert none.tolist() == np.zeros((4, 3)).tolist()


def test_thumbnails_that_are_wanted() -> None:
    """Catches a snapshot too many or too few, and another size than is planned for."""
    every = Thumbnails(4, (100.0, 7.5))
    assert [every.wants(before, before + 2) for before in range(0, 10, 2)] == [
        False, True, False, True, False]  # fmt: skip
    assert every.wants(3, 4) and not every.wants(4, 5) and every.wants(0, 9)
    assert every.frame_bytes == 4 * 64 * 7
    assert Thumbnails(4, (2000.0,)).frame_bytes == 4 * 1024


def test_shares_of_blocks_are_joined(made: Any) -> None:
    """Catches a block that counts twice or not, other steps, a final state that is left out."""
    field = np.arange(12.0).reshape(4, 3)
    made["state/u"] = field
    describe(made["state/u"], "a field", ["x", "y"], "K")
    every = Thumbnails(4, (4.0, 3.0))
    frame = made.create_group("frame")
    for first in (0, 2):
        part = Piece("u", field[first : first + 2], (first, 0), (4, 3))
        every.add(frame, [part, Piece("w", 100 + part.values, part.origin, part.shape)])
    every.join(made, {4: [frame, {"thumbnail": np.ones((4, 3))}]}, {}, 7)
    shots = made["snapshots"]
    assert shots["step"][...].tolist() == [4, 7] and shots["step"].dtype == np.int64
    np.testing.assert_array_equal(shots["thumbnail"], [field + 1, field])
    assert shots["thumbnail"].dtype == np.float32
    about = shots["thumbnail"].attrs
    assert about["units"] == "K" and about["description"].startswith(
        "mean over the cells, also along z, of state/u in each pixel"
    )
    assert [axis.label for axis in shots["thumbnail"].dims] == ["snapshot", "x", "y"]
    assert shots["step"].attrs["description"].startswith("steps made before each thumbnail")
    assert [axis.label for axis in shots["step"].dims] == ["snapshot"]


def test_blocks_of_several_kinds_share_a_thumbnail(made: Any) -> None:
    """Catches a block whose own field is added to that of others, and a PE that has only such."""
    field = np.arange(12.0).reshape(4, 3)
    made["state/u"] = field
    describe(made["state/u"], "a field", ["x", "y"], "K")
    every, frames = Thumbnails(4, (4.0, 3.0), "u"), [made.create_group(n) for n in ("one", "other")]
    every.add(frames[0], [Piece("fine u", np.ones((2, 2)), (0, 0), (8, 6))])
    for frame in frames[1:]:
        every.add(frame, [Piece("u", field, (0, 0), (4, 3))])
        every.add(frame, [Piece("fine u", np.ones((2, 2)), (0, 0), (8, 6))])
    every.join(made, {4: frames}, {}, 4)
    np.testing.assert_array_equal(made["snapshots/thumbnail"], [field])


def test_counts_of_a_state_that_is_not_valid_are_joined(made: Any) -> None:
    """Catches particles outside that end a run, a final state that is added twice, other words."""
    made["state/a"], made["state/a.id"] = np.array([[9.0, 0.5], [0.5, 0.5]]), IDS[:2]
    Thumbnails(4, (4.0, 3.0)).join(made, {4: [{"thumbnail": np.ones((4, 3))}]}, {}, 7)
    assert made["snapshots/thumbnail"][1].sum() == 2
    about = made["snapshots/thumbnail"].attrs
    assert about["units"] == "1" and about["description"].startswith("number of rows of state/a in")
    del made["snapshots"]
    Thumbnails(4, (4.0, 3.0)).join(made, {4: [{"thumbnail": np.ones((4, 3))}]}, {}, 4)
    assert made["snapshots/step"][...].tolist() == [4]
    assert made["snapshots/thumbnail"][...].tolist() == np.ones((1, 4, 3)).tolist()


def test_what_thumbnails_show(made: Any) -> None:
    """Catches particles per cell in a box, and a unit that is lost or made up."""
    for name, units in (("u", "K"), ("v", "1"), ("w", None)):
        group = made.create_group(name)
        group[name] = np.zeros(3)
        group[name].attrs.update({} if units is None else {"units": units})
    found = [quantity_of(made[name], True) for name in "uvw"]
    assert found == ["u [K]", "v (no unit)", "w (no unit)"]
    state = {"atoms": POINTS, "atoms.id": IDS}
    assert quantity_of(state, True) == "atoms per cell"
    assert quantity_of(state, False) == "atoms per sigma²"


# ParaView -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "ends", "spacing"),
    [
        ((4,), [0, 4, 0, 0, 0, 0], [2, 1, 1]),
        ((4, 3), [0, 4, 0, 3, 0, 0], [2, 3, 1]),
        ((4, 3, 2), [0, 4, 0, 3, 0, 2], [2, 3, 0.25]),
    ],
)
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_image_of_a_field(shape, ends, spacing, chunk, made, monkeypatch):
    """Catches axes that are exchanged, cells of another size, planes that are left out."""
    monkeypatch.setattr(paraview, "CHUNK", chunk)
    fields = {name: np.random.default_rng(1).random(shape) for name in ("u", "w")}
    state = {**fields, "z": np.zeros(9)}
    paraview._write_image(made, state, (8.0, 9.0, 0.5)[: len(shape)])
    assert {name: made["CellData"][name].shape for name in made["CellData"]} == dict.fromkeys(
        fields, shape[::-1]
    )
    for name, field in fields.items():
        np.testing.assert_array_equal(made["CellData"][name], field.T)
    assert made.attrs["Type"] == b"ImageData"
    assert made.attrs["WholeExtent"].tolist() == ends
    assert made.attrs["Spacing"].tolist() == spacing
    assert made.attrs["Origin"].tolist() == [0, 0, 0]
    assert made.attrs["Direction"].reshape(3, 3).tolist() == np.eye(3).tolist()


def test_parts_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches points that are left out or read twice, and a vector in the plane without a z."""
    monkeypatch.setattr(paraview, "CHUNK", 2)
    table = np.arange(20.0).reshape(5, 4)
    parts = [slice(0, 2), slice(2, 4), slice(4, 5)]
    for column, tail, right in (
        (Column(table, (), 2), (), table[:, 2]),
        (Column(table, (), [3, 1]), (3,), np.column_stack([table[:, [3, 1]], np.zeros(5)])),
        (Column(table[:, 1]), (), table[:, 1]),
        (Column(table[:, :3]), (3,), table[:, :3]),
        (Column(np.stack([table, -table])[..., :3], (1,)), (3,), -table[:, :3]),
        (Column(np.stack([table[:, 0], IDS.sum() + table[:, 0]]), (1,)), (), 24 + table[:, 0]),
    ):
        assert column.tail == tail
        found = [*column.parts(5)]
        assert [rows for rows, _ in found] == parts
        np.testing.assert_array_equal(np.concatenate([values for _, values in found]), right)


class Rows(np.ndarray):
    """A table with attributes, as HDF5 has."""

    attrs: dict[str, Any]


def rows(*columns: str) -> Rows:
    """A table with these columns, of which each row has its number and a half."""
    table = (np.arange(3.0)[:, None] + np.arange(len(columns)) / 2).view(Rows)
    table.attrs = {"columns": list(columns)} if columns[0] else {}
    return table


def test_points_of_a_final_state(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches columns that are exchanged, a velocity that is none, time steps of one state."""
    monkeypatch.setattr(paraview, "CHUNK", 2)
    state = {"a": rows("x", "y", "vy", "charge", "vx"), "a.id": IDS}
    frame = paraview._final_rows(state, "a", Path("run.h5"))
    paraview._write_points(made, [frame])
    table = np.asarray(state["a"])
    zeros = np.zeros(3)
    np.testing.assert_array_equal(made["Points"], np.column_stack([table[:, :2], zeros]))
    found = made["PointData"]
    assert {*found} == {"velocity", "charge", "id"} and "Steps" not in made
    velocity = np.column_stack([table[:, 4], table[:, 2], zeros])
    np.testing.assert_array_equal(found["velocity"], velocity)
    np.testing.assert_array_equal(found["charge"], table[:, 3])
    np.testing.assert_array_equal(found["id"], IDS)
    assert made.attrs["Type"] == b"PolyData" and made["NumberOfPoints"][...].tolist() == [3]
    for name, cells in (("Vertices", 3), ("Lines", 0), ("Polygons", 0), ("Strips", 0)):
        group = made[name]
        assert group["NumberOfCells"][...].tolist() == [cells]
        assert group["NumberOfConnectivityIds"][...].tolist() == [cells]
        assert group["Offsets"][...].tolist() == [*range(cells + 1)]
        assert group["Connectivity"][...].tolist() == [*range(cells)]
    plain = paraview._final_rows({"a": rows("z", "x"), "a.id": IDS}, "a", Path("run.h5"))
    assert {*plain.values} == {"id"} and plain.points.columns == [1, 0]
    with pytest.raises(InputError, match="--paraview run.h5: has no names of columns"):
        paraview._final_rows({"a": rows(""), "a.id": IDS}, "a", Path("run.h5"))


@pytest.mark.parametrize("chunk", [2, 3, 9])
def test_rows_that_no_particle_has(made: Any, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches unused rows of a checkpoint as points, and used ones that are left out."""
    monkeypatch.setattr(paraview, "CHUNK", chunk)
    table, ids = np.arange(10.0).reshape(5, 2).view(Rows), np.array([NOBODY, 7, NOBODY, 9, 10])
    table.attrs = {"columns": ["x", "y"]}
    saved: Any = SimpleNamespace(path=Path("c.h5"), head={})
    paraview._write_saved(made, {"a": table, "a.id": ids}, saved)
    assert made["NumberOfPoints"][...].tolist() == [3]
    assert made["Points"][...].tolist() == [[2, 3, 0], [6, 7, 0], [8, 9, 0]]
    assert made["PointData/id"][...].tolist() == [7, 9, 10]


def test_a_field_in_a_checkpoint(made: Any) -> None:
    """Catches cells of another size than the domain gives them, and a length that is none."""
    field = {"u": np.arange(6.0).reshape(2, 3)}
    saved: Any = SimpleNamespace(path=Path("c.h5"), head={"extent": [8.0, 3.0]})
    paraview._write_saved(made, field, saved)
    assert made.attrs["Spacing"].tolist() == [4.0, 1.0, 1.0] and "Points" not in made
    older: Any = SimpleNamespace(path=Path("c.h5"), head={})
    paraview._write_saved(made.create_group("older"), field, older)
    assert made["older"].attrs["Spacing"].tolist() == [1.0, 1.0, 1.0]
    wrong: Any = SimpleNamespace(path=Path("c.h5"), head={"extent": [8.0, -3.0]})
    with pytest.raises(Unreadable, match="extent"):
        paraview._write_saved(made.create_group("wrong"), field, wrong)


def test_a_checkpoint_is_read_elsewhere_first_and_verified(tmp_path, monkeypatch):
    """Catches a file that is shown whatever its hashes say, or that this process reads first."""
    path, seen = tmp_path / "c.h5", list[Any]()
    with h5py.File(path, "w") as file:
        file.attrs["checkpoint"] = "{}"
        file["state/u"] = np.zeros((2, 3))
    saved: Any = SimpleNamespace(path=path, head={}, verify=lambda: seen.append("verified"))
    monkeypatch.setattr(paraview, "read_checkpoint", lambda *_: seen.append("head") or saved)
    monkeypatch.setattr(paraview, "read_rows", lambda *data: seen.append(len(data)))
    monkeypatch.setattr(paraview, "require_survivable", lambda _, read: seen.append(read()))
    target = paraview.write_paraview(path, path.with_suffix(".vtkhdf"))
    assert seen == ["head", 1, None, "head", "verified"]
    with h5py.File(target) as file:
        assert file["VTKHDF/CellData/u"].shape == (3, 2)


def test_points_of_a_trajectory(made: Any) -> None:
    """Catches a frame's points at the time of another, and offsets into another one's."""
    found = atoms()
    paraview._write_points(made, [*paraview._frames(found)])
    np.testing.assert_array_equal(made["Points"], np.concatenate(found.positions))
    np.testing.assert_array_equal(made["PointData/velocity"], np.concatenate(found.velocities))
    np.testing.assert_array_equal(made["PointData/id"], np.concatenate(found.ids))
    steps = made["Steps"]
    assert steps.attrs["NSteps"] == 2 and steps["Values"][...].tolist() == [0, 0.005]
    assert steps["PointOffsets"][...].tolist() == [0, 2]
    assert {name: data[...].tolist() for name, data in steps["PointDataOffsets"].items()} == {
        "velocity": [0, 2],
        "id": [0, 2],
    }
    assert steps["PartOffsets"][...].tolist() == [0, 0]
    assert steps["NumberOfParts"][...].tolist() == [1, 1]
    for name in ("CellOffsets", "ConnectivityIdOffsets"):
        assert steps[name][...].tolist() == [[0] * 4] * 2


@pytest.mark.long
def test_what_is_written_for_paraview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a field that is written as points, and the reverse, and a file without a version."""
    field = file_of(tmp_path / "field.h5")
    points = file_of(tmp_path / "points.h5", **{"a": POINTS, "a.id": IDS})
    with h5py.File(points, "a") as file:
        file["state/a"].attrs["columns"] = ["x", "y"]
    for path, kind, cells in ((field, b"ImageData", "CellData"), (points, b"PolyData", "Points")):
        target = paraview.write_paraview(path, path.with_suffix(".vtkhdf"))
        with h5py.File(target) as file:
            group = file["VTKHDF"]
            assert group.attrs["Type"] == kind and cells in group
            assert group.attrs["Version"].tolist() == [2, 0]
    run = replace(SavedRun.read(field), has_trajectory=True)
    monkeypatch.setattr(SavedRun, "read", lambda source: run)
    monkeypatch.setattr(paraview, "trajectory_in", lambda file, source: atoms())
    with h5py.File(paraview.write_paraview(field, tmp_path / "atoms.vtkhdf")) as file:
        assert len(file["VTKHDF/Points"]) == 4
    with pytest.raises(InputError, match="--paraview .*there is no directory"):
        paraview.write_paraview(field, tmp_path / "no" / "a.vtkhdf")
