"""Checks of a finished run of LeanMD."""

from __future__ import annotations

import numpy as np

from miniapps import kernels
from miniapps.contract import Check, Measure
from miniapps.kernels.leanmd.units import ENERGY_UNIT
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.reference_solution import reference_hash
from miniapps.leanmd.thermo import all_rows, table

MOMENTUM_LIMIT = 1e-9  # per atom
COLD = 1e-6  # kinetic energy per atom; below it, energies are too coarse for a relative drift
VIRIAL_LIMITS = {"float64": 1e-8, "float32": 1e-4}  # of a compute, relative
REFERENCE_ATOMS, REFERENCE_UPDATES = 1100, 60_000_000  # largest problem that is solved again


def validate(
    problem: LeanmdProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a finished run: no atom is lost, the net force is zero, energy is conserved.

    The forces on all atoms add up to exactly zero, unless a pair acts on only one of its atoms: an
    image is missing, a list is stale or a ghost has an old position.
    """
    born = measures["born"].value
    if problem.source is None:
        born = kernels.load("state_hash", "cpu").sums_of_first_ids(problem.atoms)
    off = measures["ids"].value - born
    missing, checksum, mixed = (abs(float(np.int64(x))) for x in off)
    rows = all_rows(measures)
    momentum = np.abs(rows[-1, 3:6] - rows[0, 3:6]).max() * ENERGY_UNIT / problem.atoms
    thermo = table(problem, rows)
    kinetic = max(row["kinetic"] for row in thermo)
    checks = [
        Check("missing atoms", missing + abs(problem.atoms - int(born[0])), 0),
        Check("id checksum error", checksum, 0),
        Check("mixed id checksum error", mixed, 0),
        Check("atoms outside their cell", float(abs(measures["strayed"].value)), 0),
        Check("ids that left their atoms", float(measures["mixed up"].value.any()), 0),
        Check("net force", float(np.abs(rows[:, 6:9]).max()), 0),
        Check("momentum change per atom", momentum, MOMENTUM_LIMIT),
        Check("energy drift", thermo[-1]["max_drift"] / max(kinetic, COLD), problem.drift_limit),
    ]
    if "virial error" in measures:
        error, limit = float(measures["virial error"].value), VIRIAL_LIMITS[problem.dtype]
        checks.append(Check("virial error", error, limit))
    small = problem.atoms <= REFERENCE_ATOMS and problem.atoms**2 * steps <= REFERENCE_UPDATES
    if small and 2 * problem.cutoff <= min(problem.box):  # it has the nearest images only
        right = reference_hash(problem, steps)
        checks.append(Check("differs from reference", float(right != state_hash), 0))
    return checks
