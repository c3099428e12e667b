"""The thermo table: temperature, energies and pressure, from sums that are exact in every order.

Blocks add up integers (`kernels.leanmd.cpu`), which are converted to energies here. The sums have
the same bits on every decomposition, so the rows have, too.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from miniapps.kernels.leanmd.units import ENERGY_UNIT, VIRIAL_UNIT
from miniapps.quantities import Quantity

# The sums of a step: v^2 (2), momentum (3), force (3), energy (2), virial (2), pairs (2), atoms.
TOTALS = 15

SHOWN = ("temperature", "kinetic", "potential", "total", "pressure")  # in summaries
QUANTITIES = MappingProxyType(  # of the table's columns, in reduced units
    {
        "temperature": Quantity("temperature of all atoms", "epsilon k-1"),
        "kinetic": Quantity("kinetic energy per atom", "epsilon"),
        "potential": Quantity("potential energy per atom", "epsilon"),
        "total": Quantity("kinetic and potential energy per atom", "epsilon"),
        "pressure": Quantity("pressure, kinetic part and virial", "epsilon sigma-3"),
        "virial": Quantity("the part of the pressure that comes from forces", "epsilon sigma-3"),
        "max_drift": Quantity(
            "largest change so far of the conserved energy per atom, since the first row", "epsilon"
        ),
    }
)

# Positions of some atoms, (3, m), and of all atoms near them, (3, n), and what `sums_of_potential`
# returns for the former.
Energies = tuple[int, int, int]
Sample = tuple[np.ndarray, np.ndarray, Energies]


def wide(totals: np.ndarray, first: int) -> int:
    """A sum that is stored as two integers, the first one in entry ``first``."""
    return (int(totals[first]) << 32) + int(totals[first + 1])


def sums_of_potential(totals: np.ndarray) -> Energies:
    """Energy, virial and pairs as whole numbers, from the (6,) integers of the kernel."""
    return wide(totals, 0), wide(totals, 2), wide(totals, 4)


def kept_energy(problem: Any, totals: np.ndarray) -> float:
    """Kinetic plus shifted potential energy per atom, which is conserved.

    It is also conserved with the truncated potential, whose forces are those of the shifted one.
    """
    kinetic = wide(totals, 0) * ENERGY_UNIT / 2
    potential = wide(totals, 8) * ENERGY_UNIT / 2
    shift = wide(totals, 12) // 2 * problem.energy_at_cutoff
    return (kinetic + potential - shift) / int(totals[14])


def row(problem: Any, step: int, totals: np.ndarray) -> dict[str, Any]:
    """The table's row of a step, from the sums over all atoms; energies are per atom."""
    atoms, volume = int(totals[14]), float(np.prod(problem.box))
    twice_kinetic = wide(totals, 0) * ENERGY_UNIT
    potential = wide(totals, 8) * ENERGY_UNIT / 2
    virial = wide(totals, 10) * VIRIAL_UNIT / 2
    if problem.shift:
        potential -= wide(totals, 12) // 2 * problem.energy_at_cutoff
    return {
        "step": problem.first_step + step,
        "temperature": twice_kinetic / (3 * atoms - 3),
        "kinetic": twice_kinetic / 2 / atoms,
        "potential": potential / atoms,
        "total": (twice_kinetic / 2 + potential) / atoms,
        "pressure": (twice_kinetic + virial) / (3 * volume),
        "virial": virial / (3 * volume),
    }


def table(problem: Any, rows: np.ndarray) -> list[dict[str, Any]]:
    """The table of a run, given (rows, 1 + `TOTALS`) int64: each row's step and sums.

    ``max_drift``: the largest deviation so far of the conserved energy per atom from the first row.
    """
    result, farthest = [], 0.0
    first = kept_energy(problem, rows[0, 1:])
    for step, *totals in rows.tolist():
        farthest = max(farthest, abs(kept_energy(problem, totals) - first))
        result.append(row(problem, step, totals) | {"max_drift": farthest})
    return result


def thermo_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of a run for its summary, 76 columns wide; the record has the virial, too."""
    head = "".join(f"{name:>12}" for name in SHOWN)
    body = [
        f"{row['step']:6}"
        + "".join(f"{fitting(row[name]):>12}" for name in SHOWN)
        + f"{row['max_drift']:10.3g}"
        for row in rows
    ]
    return [f"{'step':>6}{head}{'max drift':>10}", *body]


def fitting(value: float) -> str:
    """A number with as many of 8 digits as leave a blank before it, so that columns stay apart."""
    texts = (f"{value:.{digits}g}" for digits in (8, 7, 6, 5))
    return next(text for text in texts if len(text) < 12)


def all_rows(measures: dict[str, Any]) -> np.ndarray:
    """The rows that blocks have stored; the last one is for the end of the run."""
    rows, time = measures["rows"].value, measures["time"].value
    end = np.concatenate([[time], measures["totals"].value])
    return rows if rows[-1, 0] == time else np.vstack([rows, end])
