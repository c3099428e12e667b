"""Stencil3D as Galvez et al. define it (CharmPy, CLUSTER 2018, sections V-A and V-B).

On n x m x k cells, periodic by default, one sweep replaces each by the mean of itself and its six
face neighbours, added in the order centre, x-1, x+1, y-1, y+1, z-1, z+1.

The synthetic imbalance of section V-B: of N MPI blocks, block i works for another alpha_i times the
duration of its sweep after each sweep, where alpha_i = 10 for i <= 0.2 N and i >= 0.8 N, and
100 i / N + 5 ceil(step / 30) between. All blocks of an over-decomposed PE have its alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from miniapps.grid import BOUNDARIES, DTYPES, INITIALS, GridProblem, validate
from miniapps.grid_reference import reference
from miniapps.parameters import Number, extents, integer_or_auto, parameter

__all__ = ["StencilProblem", "load_factor", "reference", "validate"]

PERIOD = 30  # steps between changes of the published load, and between load-balancing steps


@dataclass(frozen=True)
class StencilProblem(GridProblem):
    """Parameters of Stencil3D.

    ``imbalance_mode`` is the kind of extra load: ``wait`` spins for alpha times the measured
    duration of the sweep, ``work`` repeats the sweep. ``imbalance_scale`` multiplies every alpha.
    """

    app: ClassVar[str] = "stencil3d"
    axes: ClassVar[int] = 3
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "minimal": {"size": (6, 5, 4), "time_tile": 2, "steps": 5, "warmup": 0},
        "tiny": {"size": (53, 43, 41), "steps": 20, "warmup": 2},
        "small": {"size": (128, 128, 128), "steps": 100, "warmup": 10},
        "large": {"size": (512, 512, 512), "steps": 100, "warmup": 10},
        "paper": {
            "size": (512, 512, 512),
            "steps": 1000,
            "warmup": 0,
            "time_tile": 1,
            "imbalance": "paper",
        },
        "demo": {"size": (192, 192, 192), "steps": 100, "warmup": 10},
    }

    size: tuple[int, ...] = parameter("--size", (128, 128, 128), extents, "cells, NxMxK")
    boundary: str = parameter(
        "--boundary",
        "periodic",
        str,
        "periodic; zero; heated: 255 beyond the low faces, 1 beyond the others",
        BOUNDARIES,
    )
    initial: str = parameter("--initial", "noise", str, "field at step 0", INITIALS)
    time_tile: int | str = parameter(
        "--time-tile", "auto", integer_or_auto, "sweeps per halo exchange, or auto"
    )
    dtype: str = parameter("--dtype", "float64", str, "of a cell", DTYPES)
    imbalance: str = parameter(
        "--imbalance", "none", str, "paper: the published synthetic load", ("none", "paper")
    )
    imbalance_mode: str = parameter(
        "--imbalance-mode", "wait", str, "what the extra load does", ("wait", "work")
    )
    imbalance_scale: float = parameter(
        "--imbalance-scale", 1.0, Number(zero=True), "multiplies the extra load"
    )

    def tile_limit(self) -> tuple[int, str]:
        """1 with the synthetic load, because that follows every sweep."""
        every = 1, "--imbalance adds its load after every sweep"
        return every if self.imbalance == "paper" else super().tile_limit()

    def void(self) -> dict[str, str]:
        """The options of a load that there is not."""
        names = () if self.imbalance == "paper" else ("imbalance_mode", "imbalance_scale")
        return dict.fromkeys(names, "needs --imbalance paper")


def load_factor(problem: StencilProblem, part: int, parts: int, step: int) -> float:
    """The extra load of MPI block ``part`` of ``parts`` in ``step``, in units of its sweep."""
    if problem.imbalance == "none":
        return 0.0
    if part <= 0.2 * parts or part >= 0.8 * parts:
        alpha = 10.0
    else:
        alpha = 100.0 * part / parts + 5.0 * math.ceil(step / PERIOD)
    return alpha * problem.imbalance_scale
