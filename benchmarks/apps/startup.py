"""Seconds from the command to the first step, with compiled kernels in numba's cache."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.common import median, run, save

TRIALS = 7
CONFIGURATIONS: dict[str, list[object]] = {
    "serial": [],
    "mpi, 2 ranks": ["--driver", "mpi", "-n", 2],
    "charm, 2 PEs": ["--driver", "charm", "-n", 2],
}


def seconds_to_first_step(app: str, configuration: list[object]) -> float:
    """Seconds from just before the command is started until its first step begins."""
    before = time.time()
    return run(app, "--preset", "tiny", *configuration)["first_step_at"] - before


def main() -> None:
    """Measure both apps under every driver; the first start, which may compile, is not counted."""
    results: dict[str, Any] = {}
    for app in ("jacobi2d", "stencil3d"):
        for name, configuration in CONFIGURATIONS.items():
            seconds_to_first_step(app, configuration)
            values = [seconds_to_first_step(app, configuration) for _ in range(TRIALS)]
            results[f"{app}, {name}"] = {"median_s": median(values), "worst_s": max(values)}
    save("startup", results)


if __name__ == "__main__":
    main()
