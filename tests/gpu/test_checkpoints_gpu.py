"""Runs that continue from a checkpoint on another device end with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import of_day
import pytest
from continued import Leg, require_continued

from miniapps import apps
from miniapps.pic.distribution import Distribution
from miniapps.pic.events import Event

NOISE: dict[str, Any] = {"initial": "noise", "time_tile": 1}
HOT: dict[str, Any] = {"cutoff": 1.3, "skin": 0.2, "dt": 0.01, "temperature": 6.0, "rebuild": 2}
# A problem of each app, and grids for it. PIC has events, leanmd atoms that change their blocks.
RUNS: dict[str, tuple[str, dict[str, Any], list[tuple[int, ...]]]] = {
    "jacobi2d": ("jacobi2d", {"size": (11, 9), **NOISE}, [(1, 1), (2, 3), (3, 1)]),
    "jacobi2d, float32": (
        "jacobi2d",
        {"size": (11, 9), "dtype": "float32", **NOISE},
        [(1, 1), (1, 2), (2, 2)],
    ),
    "stencil3d": ("stencil3d", {"size": (5, 6, 7), **NOISE}, [(1, 1, 1), (2, 1, 1), (1, 2, 2)]),
    "pic": (
        "pic",
        {
            "size": 24,
            "particles": 120,
            "k": 1,
            "m": -2,
            "distribution": Distribution("geometric", (0.9,)),
            "events": (
                Event.parse("inject:2:50:2,9,3,8:0,3"),
                Event.parse("remove:3:0,23,0,11:0.5"),
            ),
        },
        [(1, 1), (2, 3), (3, 1)],
    ),
    "leanmd": ("leanmd", {"lattice": (2, 2, 2), **HOT}, [(1, 1, 1), (2, 1, 1), (1, 2, 2)]),
    "cg": (
        "cg",
        {"size": (5, 4, 3), "solution": "noise", "pipelined": True},
        [(1, 1, 1), (2, 1, 1), (1, 2, 2)],
    ),
    "transpose": ("transpose", {"size": (13,)}, [(1, 1), (3, 1), (2, 1)]),
    "amr": (
        "amr",
        {"size": (9, 8), "refinement": (4, 3), "initial": "noise", "period": 3, "duration": 2},
        [(1, 1), (2, 1), (1, 2)],
    ),
    "pairs": (
        "leanmd",
        {"cells": (3, 3, 3), "per_cell": 1, "decomposition": "pairs", **HOT},
        [(1, 1, 1)] * 3,
    ),
}
OF_DAY = [run for run in RUNS if run.partition(",")[0] in of_day.with_kernels()]


@pytest.mark.slow
@pytest.mark.parametrize("run", OF_DAY)
def test_a_run_continues_on_another_device(run: str, tmp_path: Path) -> None:
    """Catches a checkpoint that lacks what is on a device, and blocks that take it up elsewhere."""
    app, values, (one, some, others) = RUNS[run]
    module = apps.load(app)
    legs = [Leg(some, "gpu", 2), Leg(others, "cpu", 1), Leg(one, "gpu", 1)]
    require_continued(module.Block, module.Problem(**values), legs, tmp_path)
