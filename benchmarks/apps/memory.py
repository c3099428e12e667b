"""Bytes per cell and rank: the peak resident memory of a run, minus that of a tiny one.

Two float64 arrays take 16 bytes per cell. Cases ``with --output`` show that writing gathers
nothing.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import median, run, save

TRIALS = 3
SIZES = {"jacobi2d": ("8192x8192", "64x64"), "stencil3d": ("400x400x400", "16x16x16")}
CONFIGURATIONS: dict[str, list[object]] = {
    "serial": [],
    "mpi, 2 ranks": ["--driver", "mpi", "-n", 2],
    "charm, 2 PEs, ODF 4": ["--driver", "charm", "-n", 2, "--odf", 4],
}


def bytes_per_cell(app: str, tile: int, configuration: list[object], more: list[object]) -> float:
    """Peak memory per cell of the PE that uses most, minus that of the tiny problem."""
    large, tiny = (
        run(app, "--size", size, "--steps", 2 * tile, "--time-tile", tile, *configuration, *more)
        for size in SIZES[app]
    )
    cells = math.prod(large["problem"]["size"]) / large["pes"]
    return (large["peak_rss_bytes"] - tiny["peak_rss_bytes"]) / cells


def main() -> None:
    """Measure both apps under every driver, one sweep per exchange, without and with output."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        output: list[object] = ["--output", Path(folder) / "run.h5"]
        for app in SIZES:
            for name, configuration in CONFIGURATIONS.items():
                for ending, more in (("", []), (", with --output", output)):
                    values = [bytes_per_cell(app, 1, configuration, more) for _ in range(TRIALS)]
                    results[f"{app}, {name}{ending}"] = {
                        "bytes_per_cell": median(values),
                        "over_two_arrays": median(value / 16 for value in values),
                    }
    save("memory", results)


if __name__ == "__main__":
    main()
