"""The files whose mutants are tried."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PHYSICS = (  # kernels and blocks, which small runs try
    "kernels/*/__init__.py",
    "kernels/*/cpu.py",
    "kernels/*/cpu/*.py",
    "kernels/pic/*.py",
    "miniapps/*_block.py",
    "miniapps/*/block.py",
    "miniapps/*/pairs.py",
    "miniapps/*/pipelined.py",
    "miniapps/*/pencils.py",
    "miniapps/*/domain.py",
    "miniapps/*/atoms.py",
    "miniapps/*/particles.py",
    "miniapps/*/layout.py",
)
NUMBERS = (  # times, units, statistics and figures, which only tests try
    *(f"drivers/{name}.py" for name in ("engine", "outcome", "timing")),
    *(f"workbench/run/{name}.py" for name in ("clocks", "record", "revalidation")),
    *(
        f"workbench/study/{name}.py"
        for name in (
            *("analysis", "cells", "drawing", "export", "figures", "laws", "noise", "parts"),
            *("joined", "runner", "statistics", "tables"),
        )
    ),
    *(f"workbench/model/{name}.py" for name in ("check", "fitting", "formula", "predict")),
    "workbench/replay/predict.py",
    "workbench/reproduce/predicates.py",
    "workbench/show/*.py",
    "workbench/study/comm/series.py",
    "communication/timing.py",
    *(f"miniapps/leanmd/{name}.py" for name in ("si", "thermo", "trajectory")),
)


def matching(patterns: Sequence[str]) -> list[str]:
    """The files of patterns, relative to the project, without those behind links to a folder."""
    found = (path for pattern in patterns for path in ROOT.glob(pattern))
    return sorted({str(one.relative_to(ROOT)) for one in found if not one.parent.is_symlink()})
