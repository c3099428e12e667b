"""Charm4Py against mpi4py on one problem: Jacobi2D 4096 x 4096 on two PEs, and Stencil3D.

Ratios of step times, charm over mpi, of runs made in turn; the median over trials.
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.common import interleaved, median, require_same_state, save

TRIALS = 5
PROBLEMS: dict[str, list[object]] = {
    "jacobi2d 4096x4096, one sweep per exchange": [
        "jacobi2d", "--size", "4096x4096", "--time-tile", 1, "--steps", 100, "--warmup", 10,
    ],
    "jacobi2d 4096x4096, 16 sweeps per exchange": [
        "jacobi2d", "--size", "4096x4096", "--time-tile", 16, "--steps", 320, "--warmup", 16,
    ],
    "stencil3d 256x256x256, one sweep per exchange": [
        "stencil3d", "--size", "256x256x256", "--time-tile", 1, "--steps", 50, "--warmup", 5,
    ],
}  # fmt: skip
ODFS = (1, 4, 8)


def main() -> None:
    """Measure all problems under mpi and under charm at several ODFs."""
    results: dict[str, Any] = {}
    for name, problem in PROBLEMS.items():
        configurations = {"mpi": [*problem, "--driver", "mpi", "-n", 2]}
        for odf in ODFS:
            configurations[f"ODF {odf}"] = [*problem, "--driver", "charm", "-n", 2, "--odf", odf]
        records = interleaved(configurations, TRIALS)
        require_same_state(name, itertools.chain(*records.values()))
        times = {  # whole run over steps: unlike a median, it includes slow steps
            configuration: [record["wall_s"] / record["steps"] for record in runs]
            for configuration, runs in records.items()
        }
        results[name] = {"mpi_step_s": median(times["mpi"])} | {
            f"charm_over_mpi, {configuration}": median(
                charm / mpi for charm, mpi in zip(times[configuration], times["mpi"], strict=True)
            )
            for configuration in configurations
            if configuration != "mpi"
        }
    save("comparison", results)


if __name__ == "__main__":
    main()
