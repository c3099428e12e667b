"""The units of a LAMMPS data file, and what its numbers are divided by to be in reduced units.

LAMMPS reads a data file in the units that its input script has set, lj if it sets none. The file
can name them in its title only, where ``write_data`` writes them. A mass other than 1 shows that
they matter: one atom of lj units may have any mass, those of real and metal are in g/mol. So such
a file must name its units, unless the mass is argon's, only lengths are needed, and the user has
asked for argon: real and metal have the same lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

from miniapps.leanmd.inputs.tables import Scale, need
from miniapps.leanmd.si import BOLTZMANN, DALTON, Substance

ANGSTROM = 1e-10  # m
AVOGADRO = 6.02214076e23
CALORIE, ELECTRONVOLT = 4.184, 1.602176634e-19  # J
TIMES = MappingProxyType({"real": 1e-15, "metal": 1e-12})  # s; both have Angstrom and g/mol
ENERGIES = MappingProxyType({"real": 1e3 * CALORIE / AVOGADRO, "metal": ELECTRONVOLT})  # J
SAME_MASS = 2e-3  # relative: 39.9 and 40 are argon's mass, rounded
SAME_POTENTIAL = 1e-2  # relative: of epsilon and sigma, which are often rounded to 3 digits


@dataclass(frozen=True)
class Stated:
    """What a file states about its units, each with its location; None: nothing."""

    units: tuple[str, str] | None
    mass: tuple[float, str] | None
    potential: tuple[tuple[float, float], str] | None  # epsilon and sigma
    moving: bool  # whether the file has velocities


def scale_of(stated: Stated, substance: Substance | None, path: object) -> Scale:
    """The scale of a file. Raises InputError if it is unknown, or not that of the substance."""
    mass, where = stated.mass or (None, str(path))
    units = stated.units[0] if stated.units else "lj"
    if stated.units is None and mass not in (None, 1.0):
        assert mass is not None
        of_argon = substance is not None and _near(mass, substance.mass_kg / DALTON, SAME_MASS)
        how = "write 'units = lj' at the end of line 1, or 'units = real' or 'units = metal'"
        what = f"the units of a file with mass {mass!r} must be known: {how} with --units argon"
        need(of_argon and not stated.moving, where, what)
        units = "real"
    elif stated.units is not None:
        known = units == "lj" or units in TIMES
        need(known, stated.units[1], f"units must be lj, real or metal, not {units!r}")
    if units == "lj":
        return _of_lj(1.0 if mass is None else mass, stated)
    what = f"units {units} are read with --units argon only; without it, units must be lj"
    need(substance is not None, stated.units[1] if stated.units else where, what)
    assert substance is not None
    return _of_substance(units, mass, stated, substance)


def _of_lj(mass: float, stated: Stated) -> Scale:
    """Lengths are in sigma; the unit of time, sqrt(mass), follows from that of the energy."""
    if stated.potential is not None:
        (epsilon, sigma), where = stated.potential
        both = f"epsilon and sigma must be 1 in units lj, are {epsilon:g} and {sigma:g}"
        need(epsilon == sigma == 1, where, both)
    said = "" if mass == 1 else f", mass {mass:g} reduced to 1"
    return Scale(1.0, 1 / math.sqrt(mass), said)


def _of_substance(units: str, mass: float | None, stated: Stated, substance: Substance) -> Scale:
    """Lengths are in Angstrom. The mass of the file keeps the temperature of its velocities."""
    right = substance.mass_kg / DALTON
    if stated.mass is not None and mass is not None:
        what = f"the mass in units {units} must be that of argon, {right:.5g}, is {mass:g}"
        need(_near(mass, right, SAME_MASS), stated.mass[1], what)
    energy = substance.epsilon_k * BOLTZMANN
    if stated.potential is not None:
        (epsilon, sigma), where = stated.potential
        of_argon = energy / ENERGIES[units], substance.sigma_m / ANGSTROM
        shown = "{:.4g} and {:.4g}".format(*of_argon)
        what = f"epsilon and sigma must be argon's, {shown}, are {epsilon:g} and {sigma:g}"
        good = _near(epsilon, of_argon[0], SAME_POTENTIAL)
        need(good and _near(sigma, of_argon[1], SAME_POTENTIAL), where, what)
    speed = math.sqrt(energy / ((mass or right) * DALTON))  # sigma / tau, in m / s
    length = substance.sigma_m / ANGSTROM
    return Scale(length, speed / (ANGSTROM / TIMES[units]), f", from units {units}")


def _near(value: float, right: float, relative: float) -> bool:
    """Whether a value is the right one, rounded."""
    return abs(value - right) <= relative * right
