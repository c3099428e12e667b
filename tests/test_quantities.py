"""Output files explain themselves: a reader that knows only conventions finds what it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import support

from miniapps import apps
from miniapps.contract import Piece
from miniapps.quantities import Quantity, describe_state

UNIT = re.compile(r"1|[A-Za-z]+(-?[1-9])?( [A-Za-z]+(-?[1-9])?)*")  # as UDUNITS and H5MD write it
ALL = "--trace --snapshot-every 1"
USUAL = "--hash-every 1"
MORE = {"leanmd": f"{USUAL} --trajectory 2 --units argon", "amr": ""}


def lacks(data: h5py.Dataset) -> list[str]:
    """What a stranger misses at a dataset."""
    found = []
    if len(str(data.attrs.get("description", "")).split()) < 2:
        found.append("description")
    labels = [axis.label for axis in data.dims]
    if not all(labels):
        found.append("names of axes")
    units = np.ravel(data.attrs.get("units", ""))
    if not all(UNIT.fullmatch(unit) and unit != "unknown" for unit in units):
        found.append("units")
    columns = list(data.attrs.get("columns", []))
    due = len(data.dtype.names or ()) or (data.shape[-1] if "column" in labels else 0)
    if len(columns) != due or (due and len(units) != due) or len(set(columns)) != due:
        found.append("columns")
    if data.dtype.names and columns != list(data.dtype.names):
        found.append("names of fields")
    return found


def datasets_of(file: h5py.File) -> dict[str, h5py.Dataset]:
    """All datasets of a file, by name."""
    found: dict[str, h5py.Dataset] = {}

    def see(name: str, data: Any) -> None:
        if isinstance(data, h5py.Dataset):
            found[name] = data

    file.visititems(see)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An output file of every app, with all that a file can contain."""
    folder = tmp_path_factory.mktemp("files")
    paths = {app: folder / f"{app}.h5" for app in apps.names()}
    records = support.records_of(
        f"{app} --preset minimal {ALL} {MORE.get(app, USUAL)} --output {path}"
        for app, path in paths.items()
    )
    assert all(record["valid"] for record in records)
    return paths


@pytest.mark.slow
def test_every_dataset_explains_itself(files: dict[str, Path]) -> None:
    """Catches a dataset of nameless columns, or one whose unit is only in the documentation."""
    for app, path in files.items():
        with h5py.File(path) as file:
            found = datasets_of(file)
            wrong = {name: lacks(data) for name, data in found.items() if lacks(data)}
            assert not wrong, app
            assert {"timing/blocks", "timing/slices", "snapshots/thumbnail"} <= set(found)
            assert ("hashes/step" in found) == (USUAL in MORE.get(app, USUAL))
            assert "record" in file.attrs["description"]


LENGTHS = {  # of axes of the preset "minimal"
    "jacobi2d": {"state/u": {"x": 9, "y": 6}, "snapshots/thumbnail": {"x": 9, "y": 6}},
    "stencil3d": {"state/u": {"x": 6, "y": 5, "z": 4}, "snapshots/thumbnail": {"x": 6, "y": 5}},
    "leanmd": {"snapshots/thumbnail": {"x": 13, "y": 8}, "particles/atoms/id/value": {"atom": 192}},
}


@pytest.mark.long
def test_axes_are_what_they_are_called(files: dict[str, Path]) -> None:
    """Catches names of axes in another order."""
    for app, lengths in LENGTHS.items():
        with h5py.File(files[app]) as file:
            for name, right in lengths.items():
                data = file[name]
                labels = [axis.label for axis in data.dims]
                found = dict(zip(labels, data.shape, strict=True))
                assert {label: found[label] for label in right} == right, name


SPEED = "sigma tau-1"
UNITS = {  # of columns, or of all values; those of trajectories are in test_leanmd_tables.py
    "jacobi2d": {
        "state/u": "1",
        "timing/wall_s": "s",
        "timing/rounds": {"first": "1", "count": "1"},
        "timing/blocks": {
            "block": "1", "pe": "1", "round": "1", "begin_s": "s", "end_s": "s", "compute_s": "s"
        },
        "timing/slices": {
            "pe": "1", "block": "1", "round": "1", "kind": "1", "begin_s": "s", "end_s": "s"
        },
        "timing/balancing": {
            "pe": "1", "step": "1", "begin_s": "s", "end_s": "s", "came": "1"
        },
    },
    "pic": {
        "state/particles": {
            "x": "cell", "y": "cell", "vx": "cell step-1", "vy": "cell step-1", "charge": "1"
        },
    },
    "leanmd": {
        "state/atoms": {
            "x": "sigma", "y": "sigma", "z": "sigma", "vx": SPEED, "vy": SPEED, "vz": SPEED
        },
    },
}  # fmt: skip


@pytest.mark.long
def test_units_are_those_of_their_values(files: dict[str, Path]) -> None:
    """Catches units that are exchanged, or milliseconds, and a number of a block with a unit."""
    for app, units in UNITS.items():
        with h5py.File(files[app]) as file:
            for name, right in units.items():
                found = file[name].attrs["units"]
                if isinstance(right, dict):
                    found = dict(zip(file[name].attrs["columns"], found, strict=True))
                assert found == right, name


def by_name(data: h5py.Dataset) -> dict[str, np.ndarray]:
    """The columns of a table of particles."""
    return dict(zip(data.attrs["columns"], data[...].T, strict=True))


def test_columns_are_what_they_are_called(files: dict[str, Path]) -> None:
    """Catches names in another order than the columns."""
    with h5py.File(files["pic"]) as file:
        columns = by_name(file["state/particles"])
        assert set(columns) == {"x", "y", "vx", "vy", "charge"}
        assert set(np.rint(columns["vy"])) == {
            -2.0,
            3.0,
        }  # m of the particles and of those injected
        assert columns["x"].min() >= 0 and columns["x"].max() < 12
    with h5py.File(files["leanmd"]) as file:
        columns = by_name(file["state/atoms"])
        speeds = sum((columns[f"v{axis}"] ** 2).mean() for axis in "xyz")
        assert speeds / 2 == pytest.approx(file["observables/kinetic/value"][-1], rel=1e-6)


@pytest.fixture
def empty() -> Iterator[h5py.File]:
    """A file in memory."""
    with h5py.File("none", "w", driver="core", backing_store=False) as file:
        yield file


ROWS = Piece("p", np.zeros((3, 2)), None, (), np.arange(3))
GOOD = Quantity("two of three", columns={"a": "m", "b": "m s-1"})


def described(file: h5py.File, quantity: Quantity | None) -> h5py.Dataset:
    """The dataset of three rows."""
    file["p"], file["p.id"] = ROWS.values, ROWS.ids
    describe_state(file, ROWS, quantity)
    return file["p"]


SPOILED: dict[str, Callable[[h5py.Dataset], object]] = {
    "description": lambda data: data.attrs.pop("description"),
    "units": lambda data: data.attrs.update(units=["m", "m/s"]),
    "columns": lambda data: data.attrs.update(columns=["a", "a"]),
    "names of axes": lambda data: setattr(data.dims[0], "label", ""),
}


@pytest.mark.parametrize("what", SPOILED)
def test_what_a_stranger_misses(empty: h5py.File, what: str) -> None:
    """Catches a reader that is content with anything."""
    data = described(empty, GOOD)
    assert lacks(data) == []
    SPOILED[what](data)
    assert lacks(data) == [what]


def test_an_app_that_describes_nothing(empty: h5py.File) -> None:
    """Catches units that are made up, and an app that cannot write a file without them."""
    data = described(empty, None)
    assert list(data.attrs["columns"]) == ["column 0", "column 1"]
    assert lacks(data) == ["units"]
