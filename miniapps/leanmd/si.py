"""Reduced units in SI units, for a real substance. They change what is printed and written only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

BOLTZMANN = 1.380649e-23  # J / K
DALTON = 1.66053907e-27  # kg
COLUMNS = MappingProxyType(  # of the thermo table in SI: unit
    {
        "time": "s",
        "temperature": "K",
        "kinetic": "J",
        "potential": "J",
        "total": "J",
        "pressure": "Pa",
        "virial": "Pa",
        "max_drift": "J",
    }
)
SHOWN = ("time", "temperature", "kinetic", "potential", "total", "pressure")  # they fit 80 columns


@dataclass(frozen=True)
class Substance:
    """The units of a substance: sigma in m, epsilon / k in K, the mass of an atom in kg."""

    symbol: str  # of the chemical element
    sigma_m: float
    epsilon_k: float
    mass_kg: float

    def units(self) -> dict[str, float]:
        """The reduced units in SI units, by name and SI unit."""
        epsilon = self.epsilon_k * BOLTZMANN
        return {
            "sigma_m": self.sigma_m,
            "epsilon_J": epsilon,
            "mass_kg": self.mass_kg,
            "tau_s": self.sigma_m * math.sqrt(self.mass_kg / epsilon),
            "epsilon_over_k_K": self.epsilon_k,
            "pressure_Pa": epsilon / self.sigma_m**3,
        }


# Michels, Wijker and Wijker, Physica 15, 627 (1949); Verlet, Phys. Rev. 159, 98 (1967) uses them.
ARGON = Substance(symbol="Ar", sigma_m=3.405e-10, epsilon_k=119.8, mass_kg=39.948 * DALTON)
SUBSTANCES = MappingProxyType({"argon": ARGON})


def in_si(name: str, thermo: list[dict[str, Any]], box: list[float], dt: float) -> dict[str, Any]:
    """The units of a substance, the box in m, and the thermo table in SI units."""
    units = SUBSTANCES[name].units()
    factors = {
        "temperature": units["epsilon_over_k_K"],
        **dict.fromkeys(("kinetic", "potential", "total", "max_drift"), units["epsilon_J"]),
        **dict.fromkeys(("pressure", "virial"), units["pressure_Pa"]),
    }
    rows = [
        {"step": row["step"], "time_s": row["step"] * dt * units["tau_s"]}
        | {f"{key}_{COLUMNS[key]}": row[key] * factor for key, factor in factors.items()}
        for row in thermo
    ]
    sides = [side * units["sigma_m"] for side in box]
    return {"substance": name, "units": units, "box_m": sides, "thermo": rows}


def lines(found: dict[str, Any]) -> list[str]:
    """Lines of a summary: the units, and the thermo table in SI units, 80 columns wide."""
    units = found["units"]
    head = "".join(f"{name:>12}" for name in SHOWN)
    of_columns = "".join(f"{COLUMNS[name]:>12}" for name in SHOWN)
    body = [
        f"{row['step']:>6}" + "".join(f"{row[f'{name}_{COLUMNS[name]}']:12.4e}" for name in SHOWN)
        for row in found["thermo"]
    ]
    return [
        f"as {found['substance']}: sigma {units['sigma_m']:.4g} m, epsilon "
        f"{units['epsilon_J']:.5g} J, mass {units['mass_kg']:.5g} kg, tau {units['tau_s']:.5g} s",
        f"  step{head}",
        f"      {of_columns}",
        *body,
    ]
