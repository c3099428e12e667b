"""Units of what is written, by a round trip through a program that others have written.

ASE computes energies, temperatures and pressures of trajectories anew, in its own units: eV,
angstrom and its unit of time. pandas reads the tables. VTK reads fields in test_paraview.py,
Extra-P and ReFrame studies in test_study_export.py, pyh5md trajectories in test_h5md.py.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import ase.data
import ase.io
import h5py
import numpy as np
import pandas
import pytest
import support
from ase import units
from ase.calculators.lj import LennardJones
from test_comm import by_hand
from test_study_export import a_campaign

from miniapps.workbench import api
from miniapps.workbench.comm import anatomy, results, text
from miniapps.workbench.quoting import csv_of
from miniapps.workbench.study.export import tidy_csv

DT, CUTOFF = 0.001, 2.2
ATOMS = f"--units argon --dt {DT} --trajectory 1 --thermo 1 --steps 3 --warmup 0"
SIGMA, EPSILON = 3.405, 119.8 * units.kB  # of argon, in angstrom and eV
MASS = ase.data.atomic_masses[ase.data.atomic_numbers["Ar"]]
TAU = SIGMA * (MASS / EPSILON) ** 0.5  # in ASE's unit of time

Run = tuple[dict[str, Any], list[Any]]


def near(right: Any) -> Any:
    """What equals numbers in SI units, which are far smaller than the usual absolute tolerance."""
    return pytest.approx(right, rel=1e-6, abs=0.0)


@pytest.fixture(scope="module")
def argon(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """A run, and one that goes on from its file: the record, and the frames that ASE reads."""
    folder = tmp_path_factory.mktemp("argon")
    first, second = (folder / f"{name}.h5" for name in ("first", "second"))
    more = f"--cutoff {CUTOFF} --skin 0.7 --rebuild 2 --shift"
    made = support.records_of([f"leanmd --preset minimal {ATOMS} --output {first}"])
    made += support.records_of([f"leanmd --input {first} {more} {ATOMS} --output {second}"])
    for path in (first, second):
        assert support.in_process("plot", path, "--xyz").returncode == 0
    frames = [ase.io.read(path.with_suffix(".xyz"), index=":") for path in (first, second)]
    return list(zip(made, frames, strict=True))


def in_angstrom(frame: Any) -> Any:
    """A frame as argon, with ASE's potential; its numbers are in reduced units."""
    atoms = frame.copy()
    atoms.set_cell(frame.cell * SIGMA)
    atoms.positions = frame.positions * SIGMA
    atoms.set_masses([MASS] * len(atoms))
    atoms.set_velocities(frame.get_velocities() * SIGMA / TAU)
    atoms.calc = LennardJones(sigma=SIGMA, epsilon=EPSILON, rc=CUTOFF * SIGMA)  # shifted
    return atoms


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1])
def test_ase_finds_the_same_thermo_table(argon: list[Run], part: int) -> None:
    """Catches a column of the table in another unit, for all atoms, or of another frame."""
    record, frames = argon[part]
    assert len(frames) == len(record["si"]["thermo"]) == 4
    for frame, row in zip(frames, record["si"]["thermo"], strict=True):
        atoms = in_angstrom(frame)
        count = len(atoms)
        joule = {
            "kinetic_J": atoms.get_kinetic_energy(),
            "potential_J": atoms.get_potential_energy(),
            "total_J": atoms.get_total_energy(),
        }
        for name, energy in joule.items():
            assert row[name] == near(energy / units.J / count), name
        kelvin = atoms.get_temperature() * 3 * count / (3 * count - 3)
        assert row["temperature_K"] == near(kelvin)
        for name, ideal in (("virial_Pa", False), ("pressure_Pa", True)):
            stress = atoms.get_stress(voigt=False, include_ideal_gas=ideal)
            pascal = -np.trace(stress) / 3 / units.Pascal
            assert row[name] == near(pascal), name
        seconds = row["step"] * DT * TAU / units.s
        assert row["time_s"] == near(seconds)


def test_drift_is_that_of_ase(argon: list[Run]) -> None:
    """Catches a drift per step and step again, of all atoms, or of another number of steps."""
    for record, frames in argon:
        first, last = (in_angstrom(frame).get_total_energy() for frame in (frames[0], frames[-1]))
        drift = (last - first) / EPSILON / len(frames[0]) / 3
        assert record["energy_drift_per_atom_and_step"] == pytest.approx(drift, rel=1e-3, abs=1e-12)
        momentum = frames[-1].get_momenta().sum(axis=0)
        np.testing.assert_allclose(record["momentum"], momentum, atol=1e-9)


# Tables -------------------------------------------------------------------------------------------


def test_pandas_reads_the_runs_of_a_study() -> None:
    """Catches a time of all steps for one's, milliseconds, a column under another one's title."""
    campaign = a_campaign(trials=2)
    found = pandas.read_csv(io.StringIO(tidy_csv(campaign)))
    runs = list(campaign.of("run"))
    assert len(found) == len(runs) and found["trial"].max() == 1
    # Record by hand: five steps of (PEs + trial / 8) / 5 s, for 2623 points each.
    wall = found["pes"] + found["trial"] / 8
    for name, right in (
        ("step_s", wall / 5),
        ("step_median_s", wall / 4),
        ("step_min_s", wall / 8),
        ("step_max_s", wall / 4),
        ("rate", 61 * 43 / found["step_s"]),
        ("balancing_s", found["balancer"].notna() * 0.375),
        ("jit_s", 0.5),
        ("import_s", 1.5),
        ("utilisation", 0.5),
        ("imbalance", 1.25),
        ("peak_rss_bytes", 2.0**27),
    ):
        np.testing.assert_allclose(found[name], np.broadcast_to(right, len(found)), err_msg=name)
    for name in ("driver", "pes", "odf", "steps", "warmup", "point", "app", "state_hash"):
        right = [run["record"].get(name, run.get(name)) for run in runs]
        assert found[name].tolist() == right, name
    own = api.Runs(campaign.head, campaign.events).runs()
    assert list(own.columns) == list(found.columns)
    assert own["step_s"].tolist() == found["step_s"].tolist()


@pytest.mark.parametrize(("name", "unit"), [("mbw_mr", "MB/s"), ("latency", "us")])
def test_pandas_reads_rates_and_latencies(name: str, unit: str) -> None:
    """Catches MiB/s over numbers of MB/s, ms over us, a column under another one's title."""
    record = by_hand(name)
    found = pandas.read_csv(io.StringIO(text.table(record, results.rows(record)))).iloc[0]
    assert (found["unit"], found["size"], found["driver"]) == (unit, 8, "mpi")
    assert [found[key] for key in ("value", "low", "high", "least", "most")] == [2, 2, 2, 1, 3]
    assert (found["p50_us"], found["p99_us"]) == (1.5, 9)
    assert unit == "us" or found["messages_per_s"] == 1e6


def test_pandas_reads_the_parts_of_messages() -> None:
    """Catches parts that are exchanged, another unit, a mean for the fastest trial."""
    parts = {part: float(n) for n, part in enumerate(anatomy.PARTS, 1)}
    row = anatomy.Row("multiple", 8, "send", "a call", (100.0, 104.0), parts)
    found = pandas.read_csv(io.StringIO(csv_of([anatomy.described(row)]))).iloc[0]
    assert (found["size"], found["whole_us"], found["mean_us"]) == (8, 100, 102)
    assert {part: found[f"{part}_us"] for part in parts} == parts


def test_pandas_adds_up_the_blocks_of_a_run(tmp_path: Path) -> None:
    """Catches times of blocks in another unit than those of the run."""
    path = tmp_path / "run.h5"
    (record,) = support.records_of([f"jacobi2d --preset minimal --pe-grid 3x1 --output {path}"])
    with h5py.File(path) as file:
        rows, rounds = file["timing/blocks"][...], file["timing/rounds"][...]
        assert json.loads(file.attrs["record"])["wall_s"] == record["wall_s"]
        assert file["timing/wall_s"][...].sum() == pytest.approx(record["wall_s"])
    table = api.Record(record, rows).blocks()
    assert table["compute_s"].sum() == pytest.approx(record["compute_s"])
    assert table.groupby("block").size().tolist() == [len(rounds)] * 3
