"""The thermo table of LeanMD, in SI units too, and its trajectory, from sums and rows by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from miniapps.contract import Piece
from miniapps.kernels.leanmd.units import ENERGY_UNIT, VIRIAL_UNIT
from miniapps.leanmd import si, thermo, trajectory
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.trajectory import Trajectory

# The sums of three atoms: each is a number of 2^32 and a rest. No two of them are alike.
V2, ENERGY, VIRIAL, PAIRS = (5 << 32) + 3, (7 << 32) + 11, (13 << 32) + 17, 10
TOTALS = [5, 3, 91, 92, 93, 94, 95, 96, 7, 11, 13, 17, 0, PAIRS, 3]
CUTOFF = -0.25  # the energy there


def problem(shift: bool) -> Any:
    """A problem in a box of 2 x 3 x 4."""
    return SimpleNamespace(
        box=(2.0, 3.0, 4.0), shift=shift, energy_at_cutoff=CUTOFF, first_step=100
    )


@pytest.mark.parametrize("shift", [False, True])
def test_row_of_the_thermo_table(shift: bool) -> None:
    """Catches another sum, a pair that counts twice, other degrees of freedom, another volume."""
    kinetic = V2 * ENERGY_UNIT / 2
    potential = ENERGY * ENERGY_UNIT / 2 - (5 * CUTOFF if shift else 0)
    virial = VIRIAL * VIRIAL_UNIT / 2
    found = thermo.row(problem(shift), 7, np.array(TOTALS))
    assert found == pytest.approx(
        {
            "step": 107,
            "temperature": 2 * kinetic / (9 - 3),
            "kinetic": kinetic / 3,
            "potential": potential / 3,
            "total": (kinetic + potential) / 3,
            "pressure": (2 * kinetic + virial) / (3 * 24),
            "virial": virial / (3 * 24),
        },
        rel=1e-14,
    )
    conserved = (kinetic + ENERGY * ENERGY_UNIT / 2 - 5 * CUTOFF) / 3
    assert thermo.kept_energy(problem(shift), np.array(TOTALS)) == pytest.approx(conserved)


def test_sums_are_of_two_words() -> None:
    """Catches a word that is another's."""
    totals = np.array([1, 2, 3, 4, 5, 6])
    wanted = (1 << 32) + 2, (3 << 32) + 4, (5 << 32) + 6
    assert thermo.sums_of_potential(totals) == wanted


def test_drift_is_the_largest_so_far() -> None:
    """Catches the last drift for the largest, a sign, and a first row that has one."""
    rows = np.array([[step, *TOTALS] for step in (0, 4, 8, 12)])
    rows[:, 1 + 8] += [0, -2, 1, 3]  # of potential energy, 2^32 units each
    unit = 2**32 * ENERGY_UNIT / 2 / 3
    table = thermo.table(problem(False), rows)
    assert [row["max_drift"] / unit for row in table] == pytest.approx([0, 2, 2, 3])
    assert [row["step"] for row in table] == [100, 104, 108, 112]


@pytest.mark.parametrize(("time", "steps"), [(8, [2, 4, 8]), (9, [2, 4, 8, 9]), (4, [2, 4, 8, 4])])
def test_the_end_has_one_row(time: int, steps: list[int]) -> None:
    """Catches an end that is there twice, or not at all."""
    rows = np.array([[step, *[time] * thermo.TOTALS] for step in (2, 4, 8)])
    measures = {"rows": rows, "time": time, "totals": np.full(thermo.TOTALS, 77)}
    found = thermo.all_rows({name: SimpleNamespace(value=v) for name, v in measures.items()})
    assert found[:, 0].tolist() == steps
    assert (found[3:, 1:] == 77).all()


ROW = {"step": 20, "temperature": 2.0, "kinetic": 3.0, "potential": -4.0, "total": -1.0}
ROW |= {"pressure": 0.5, "virial": -0.25, "max_drift": 0.125}
UNITS = {"sigma": 3.405e-10, "epsilon": 119.8 * 1.380649e-23, "mass": 39.948 * 1.66053907e-27}
TAU = UNITS["sigma"] * math.sqrt(UNITS["mass"] / UNITS["epsilon"])
PRESSURE = UNITS["epsilon"] / UNITS["sigma"] ** 3


def test_a_table_in_si_units() -> None:
    """Catches a unit of another quantity, and a time that is not that of its step."""
    found = si.in_si("argon", [ROW], [2.0, 3.0], 0.005)
    units = {
        f"{name}_{unit}": UNITS[name] for name, unit in zip(UNITS, ("m", "J", "kg"), strict=True)
    }
    units |= {"tau_s": TAU, "epsilon_over_k_K": 119.8, "pressure_Pa": PRESSURE}
    assert found["units"] == pytest.approx(units, rel=1e-12, abs=0)
    assert found["box_m"] == pytest.approx([2 * UNITS["sigma"], 3 * UNITS["sigma"]], abs=0)
    (row,) = found["thermo"]
    joules = {"kinetic": 3, "potential": -4, "total": -1, "max_drift": 0.125}
    wanted = {f"{name}_J": value * UNITS["epsilon"] for name, value in joules.items()}
    wanted |= {"step": 20, "time_s": 0.1 * TAU, "temperature_K": 2 * 119.8}
    wanted |= {"pressure_Pa": 0.5 * PRESSURE, "virial_Pa": -0.25 * PRESSURE}
    assert row == pytest.approx(wanted, rel=1e-12, abs=0)


def test_units_of_the_table() -> None:
    """Catches a quantity in another unit, in the file and on the page."""
    energies = dict.fromkeys(("kinetic", "potential", "total", "max_drift"), "epsilon")
    pressures = dict.fromkeys(("pressure", "virial"), "epsilon sigma-3")
    found = {name: quantity.units for name, quantity in thermo.QUANTITIES.items()}
    assert found == {"temperature": "epsilon k-1"} | energies | pressures


def test_tables_as_text() -> None:
    """Catches a column under another's name, or a cell that is joined to its neighbour."""
    *_, line = thermo.thermo_lines([ROW])
    assert line == "    20           2           3          -4          -1         0.5     0.125"
    thin = {"temperature": 12.3456789, "kinetic": 1.23456789e-3, "potential": -1.23456789e-2}
    thin |= {"total": -1.23456789e-3, "pressure": -1.23456789e-5}
    *_, line = thermo.thermo_lines([ROW | thin])
    assert line[6:-10] == "   12.345679 0.001234568 -0.01234568 -0.00123457 -1.2346e-05"
    head, names, units, row = si.lines(si.in_si("argon", [ROW], [2.0], 0.005))
    length, energy, mass = UNITS.values()
    said = f"sigma {length:.4g} m, epsilon {energy:.5g} J, mass {mass:.5g} kg, tau {TAU:.5g} s"
    assert head == f"as argon: {said}"
    assert names.split()[1:] == [*si.SHOWN] and {*map(len, (names, units, row))} == {78}
    assert units.split() == [si.COLUMNS[name] for name in si.SHOWN]
    values = [0.1 * TAU, 2 * 119.8, *(UNITS["epsilon"] * n for n in (3, -4, -1)), 0.5 * PRESSURE]
    assert [float(cell) for cell in row.split()] == pytest.approx([20, *values], rel=1e-4, abs=0)


def test_lines_of_a_run() -> None:
    """Catches a drift or a momentum that is another one, or has lost its sign or its size."""
    initial = {"positions": "fcc", "velocities": "drawn"}
    drift = {"energy_drift_per_atom_and_step": -1.5e-7, "momentum": [1e-3, -2e-3, 0.0]}
    record = {"atoms": 500, "initial": initial, "thermo": [ROW], **drift}
    first, second, *table, last = LeanmdProblem.lines(record)
    assert (first, second) == ("initial positions: fcc", "initial velocities: drawn")
    assert table == thermo.thermo_lines([ROW])
    assert last == "500 atoms, energy drift -1.5e-07 per atom and step, momentum 0.002"


# Trajectories -------------------------------------------------------------------------------------


ATOMS, FIRST, DT = 5, 100, 0.25


def frame(offset: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and ids of all atoms."""
    return np.arange(6.0 * ATOMS).reshape(ATOMS, 6) + offset, np.arange(ATOMS) + int(offset)


@pytest.mark.parametrize(("every", "steps"), [(0, []), (1, [0, 1, 2, 3, 4]), (2, [0, 2, 4])])
def test_steps_of_frames(every: int, steps: list[int]) -> None:
    """Catches a frame of another step, and frames of a run that asked for none."""
    writer = Trajectory((1.0,), DT, FIRST, every, ATOMS)
    assert [step for step in range(5) if writer.wants(0, step)] == steps
    assert writer.frame_bytes == ATOMS * (3 * 8 + 3 * 8 + 8)


def written(found: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file of a run of 8 steps with frames before the first step and after the fourth."""
    monkeypatch.setattr(trajectory, "AT_ONCE", 2)
    file = h5py.File("trajectory.h5", "w", driver="core", backing_store=False)
    rows, ids = frame(800)
    file["state/atoms"], file["state/atoms.id"] = rows, ids
    writer, frames = Trajectory((2.0, 3.0, 4.0), DT, FIRST, 4, ATOMS), {}
    for step in (4, 0):
        rows, ids = frame(100 * step)
        parts = [file.create_group(f"parts/{step}/{pe}") for pe in range(2)]
        for part, some in ((0, slice(0, 1)), (0, slice(1, 3)), (1, slice(3, ATOMS))):
            piece = Piece("atoms", rows[some], None, (), ids[some])
            writer.add(parts[part], [piece])
        frames[step] = parts
    thermo_rows = [ROW | {"step": FIRST + step} for step in (0, 8)]
    record = {"atoms": ATOMS, "thermo": thermo_rows, "versions": {"parallel-miniapps": "1.2"}}
    more = {} if found is None else {"si": si.in_si("argon", thermo_rows, [2.0], DT)}
    writer.join(file, frames, record | more, 8)
    return file


def attributes(data: Any) -> tuple[str, str, Any, list[str]]:
    """The unit of H5MD, and ours: units, columns and axes."""
    units = data.attrs["units"]
    units = units if isinstance(units, str) else [*units]
    columns = [*data.attrs.get("columns", ())]
    assert not columns or columns == ["x", "y", "z"]
    return data.attrs["unit"], data.attrs["description"], units, [one.label for one in data.dims]


def assert_times(element: Any, steps: list[int]) -> None:
    """Assert the steps and times of an element."""
    np.testing.assert_array_equal(element["step"], [FIRST + step for step in steps])
    np.testing.assert_allclose(element["time"], [DT * (FIRST + step) for step in steps])
    about = element["step"].attrs["description"]
    assert (about, element["step"].dims[0].label) == ("steps made before each frame", "frame")
    said = "tau", "time of each frame in reduced units", "tau", ["frame"]
    assert attributes(element["time"]) == said


def test_frames_of_a_trajectory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches rows that are lost between two parts of a frame, or a frame of another step."""
    with written(None, monkeypatch) as file:
        atoms = file["particles/atoms"]
        assert file["parts/0/0/rows"].maxshape == (None, 6)
        for number, step in enumerate((0, 4, 8)):
            rows, ids = frame(100 * step)
            np.testing.assert_array_equal(atoms["id/value"][number], ids)
            np.testing.assert_array_equal(atoms["position/value"][number], rows[:, :3])
            np.testing.assert_array_equal(atoms["velocity/value"][number], rows[:, 3:])
        axes = ["frame", "atom", "column"]
        for name, unit in (("position", "sigma"), ("velocity", "sigma tau-1")):
            assert_times(atoms[name], [0, 4, 8])
            about = trajectory.QUANTITIES[name].description
            assert attributes(atoms[f"{name}/value"]) == (unit, about, [unit] * 3, axes)
        assert_times(atoms["id"], [0, 4, 8])
        about = trajectory.QUANTITIES["id"].description
        assert atoms["id/value"].attrs["description"] == about
        assert [one.label for one in atoms["id/value"].dims] == axes[:2]


def test_frames_of_an_earlier_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches frames of other steps, where atoms come from a run that had made some, or moved."""
    with written(None, monkeypatch) as file:
        found = Trajectory((2.0, 3.0, 4.0), DT, FIRST, 4, ATOMS).earlier(file)
        assert [*found] == [0, 4, 8]
        for step, parts in found.items():
            some = [*trajectory.chunks(parts)]
            rows, ids = (np.concatenate(column) for column in zip(*some, strict=True))
            right = frame(100 * step)
            assert len(some) == 3 and np.array_equal(rows, right[0])
            assert np.array_equal(ids, right[1])


@pytest.mark.parametrize(("units", "symbol"), [(None, "LJ"), ({}, "Ar")])
def test_head_of_a_trajectory(units: Any, symbol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a file that H5MD's readers refuse, or another box, program or substance."""
    with written(units, monkeypatch) as file:
        head, box = file["h5md"], file["particles/atoms/box"]
        assert head.attrs["version"].tolist() == [1, 1]
        assert head["author"].attrs["name"] == "unknown"
        assert {**head["creator"].attrs} == {"name": "parallel-miniapps", "version": "1.2"}
        assert box.attrs["dimension"] == 3 and box.attrs["boundary"].tolist() == [b"periodic"] * 3
        assert box["edges"][:].tolist() == [2, 3, 4]
        about = "side lengths of the periodic box"
        assert attributes(box["edges"]) == ("sigma", about, ["sigma"] * 3, ["column"])
        species = file["particles/atoms/species"]
        assert h5py.check_enum_dtype(species.dtype) == {symbol: 1} and [*species] == [1] * ATOMS
        assert species.attrs["description"] == "species of the atom in each row, in all frames"
        assert ("si" in file["observables"]) is (units is not None)


def test_tables_of_a_trajectory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a column of another quantity or unit, and a step that counts the first ones twice."""
    with written({}, monkeypatch) as file:
        for name, quantity in thermo.QUANTITIES.items():
            element = file["observables"][name]
            assert_times(element, [0, 8])
            assert element["value"][:].tolist() == [ROW[name]] * 2
            said = quantity.units, quantity.description, quantity.units, ["frame"]
            assert attributes(element["value"]) == said
        found = si.in_si("argon", [ROW | {"step": FIRST + step} for step in (0, 8)], [2.0], DT)
        for name, unit in si.COLUMNS.items():
            element = file["observables/si"][name]
            assert_times(element, [0, 8])
            assert element["value"][:].tolist() == [
                row[f"{name}_{unit}"] for row in found["thermo"]
            ]
            about = "time" if name == "time" else thermo.QUANTITIES[name].description
            assert attributes(element["value"]) == (unit, f"{about}, as argon", unit, ["frame"])
        for name, value in found["units"].items():
            quantity_of, _, unit = name.rpartition("_")
            data = file["parameters/argon"][quantity_of]
            about = f"the reduced unit of {quantity_of}, for argon"
            assert data[()] == value and attributes(data) == (unit, about, unit, [])
