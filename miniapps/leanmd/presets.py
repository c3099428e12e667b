"""Sizes of LeanMD's problems, in reduced units, among them those of the papers."""

from __future__ import annotations

import math
from typing import Any

# The load of the papers: argon's epsilon and mass, cells of 16 Angstrom (cutoff 12, margin 4) with
# 300 atoms. With argon's sigma they would overlap; this sigma gives a cell the melt's density.
EPSILON_J = 1.031093844e-77**2 / (4 * 1.60694452e-134)  # from A and B of U = A / r^12 - B / r^6
MASS_KG = 39.948 * 1.66053907e-27
CELL_M, PER_CELL, DENSITY = 16e-10, 300, 0.8442
CELL = (PER_CELL / DENSITY) ** (1 / 3)  # sigma
TAU_S = CELL_M / CELL * math.sqrt(MASS_KG / EPSILON_J)

# So hot and thin that atoms change domain in the second step of `minimal`.
HOT = {"density": 0.375, "temperature": 12.0, "cutoff": 2.2, "skin": 0.7, "shift": True}

PRESETS: dict[str, dict[str, Any]] = {
    "minimal": HOT | {"lattice": (6, 4, 2), "rebuild": 2, "thermo": 2, "steps": 3, "warmup": 0},
    "tiny": HOT | {"lattice": (12, 4, 4), "thermo": 10, "steps": 16, "warmup": 2},
    "small": {"lattice": (16, 16, 16), "steps": 100, "warmup": 10},
    "large": {"lattice": (40, 40, 40), "steps": 100, "warmup": 10},
    "melt": {"lattice": (20, 20, 20), "steps": 100, "warmup": 0},
    "paper": {
        "cells": (4, 4, 4),
        "cutoff": 0.75 * CELL,
        "skin": 0.25 * CELL,
        "dt": 1e-15 / TAU_S,
        "steps": 100,
        "warmup": 10,
    },
    "demo": {"lattice": (20, 20, 20), "steps": 60, "warmup": 10},
}
