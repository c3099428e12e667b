"""PIC: particles per second beside straightforward programs, memory, and gain of balancing.

The published problem: L 2998, 600 000 particles, GEOMETRIC 0.999, k 0, m 1. Rates are of whole
steps, exchange included. Two ranks are cut along y, so each has half of the particles, or along x,
the direction of the imbalance, as in the runs with load balancing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.apps.pic_baselines import numba_loop, numpy_arrays, rate
from benchmarks.common import balanced, gains, interleaved, median, run, save, stepped
from miniapps import apps
from miniapps.devices.backend import Device

PAPER: list[object] = ["pic", "--preset", "paper"]
TRIALS = 5
STEPS, WARMUP = 300, 5
BASELINE_STEPS = 6
CONFIGURATIONS: dict[str, list[object]] = {
    "serial": ["--driver", "serial"],
    "mpi, 2 ranks, cut along y": ["--driver", "mpi", "-n", 2, "--pe-grid", "1x2"],
    "mpi, 2 ranks, cut along x": ["--driver", "mpi", "-n", 2, "--pe-grid", "2x1"],
    "charm, 2 PEs, cut along y": ["--driver", "charm", "-n", 2, "--pe-grid", "1x2"],
    "charm, 2 PEs, ODF 8": ["--driver", "charm", "-n", 2, "--pe-grid", "1x2", "--odf", 8],
}
TILE = 8  # steps per exchange, where there are several
TILED = ("serial", "mpi, 2 ranks, cut along y", "charm, 2 PEs, ODF 8")
CONFIGURATIONS |= {
    f"{name}, {TILE} steps per exchange": [*CONFIGURATIONS[name], "--time-tile", TILE]
    for name in TILED
}
LARGE, SMALL = 20_000_000, 20_000  # particles, to find the memory of one
CUT: list[object] = [*PAPER, "-n", 2, "--pe-grid", "2x1", "--steps", 1000, "--warmup", TILE]
BALANCED = ("Greedy", "GreedyRefine", "RefineA")
PERIOD, EARLY = 80, 2 * TILE  # steps between load-balancing steps; step of an early first one


def initial_cells(problem: Any) -> np.ndarray:
    """The initial cells of the particles: (n, 2) int64."""
    block = stepped("pic", problem, 1, Device())
    cells = block.particles.cells[: block.particles.count]
    return np.stack(divmod(cells, problem.size), axis=1)


def speed() -> dict[str, Any]:
    """Particles per second of the baselines and of whole runs, in turn."""
    problem_class = apps.load("pic").Problem
    preset = problem_class.presets["paper"]
    problem = problem_class(size=preset["size"], particles=preset["particles"])
    cells = initial_cells(problem)
    rates: dict[str, list[float]] = {}
    for _ in range(TRIALS):
        for make in (numba_loop, numpy_arrays):
            rates.setdefault(make.__name__, []).append(rate(make, problem, cells, BASELINE_STEPS))
        for name, configuration in CONFIGURATIONS.items():
            record = run(*PAPER, "--steps", STEPS, "--warmup", WARMUP, *configuration)
            rates.setdefault(name, []).append(record["rate"]["value"])
    return {
        name: {
            "particles_per_s": median(found),
            "over_numba_loop": median(
                a / b for a, b in zip(found, rates["numba_loop"], strict=True)
            ),
        }
        for name, found in rates.items()
    }


def memory() -> dict[str, Any]:
    """Peak bytes per particle, without the block's part of the mesh (one byte per cell)."""
    results = {}
    for name in ("serial", "mpi, 2 ranks, cut along y", "charm, 2 PEs, ODF 8"):
        words: list[object] = ["pic", "--size", 2998, "--distribution", "sinusoidal", "--steps", 20]
        large, small = (
            run(*words, "--particles", n, *CONFIGURATIONS[name]) for n in (LARGE, SMALL)
        )
        particles = (large["particles_placed"] - small["particles_placed"]) / large["pes"]
        results[name] = (large["peak_rss_bytes"] - small["peak_rss_bytes"]) / particles
    return results


def balancing(tile: int) -> dict[str, Any]:
    """The gain of balancing over the same run without it, and over mpi; shares of max/mean.

    ``tile``: steps per exchange, of all runs.
    """
    cut = [*CUT, "--time-tile", tile]
    charm = [*cut, "--driver", "charm", "--odf", 8]
    configurations = {"mpi": [*cut, "--driver", "mpi"], "none": charm}
    for name in BALANCED:
        configurations[name] = [*charm, "--balancer", name, "--lb-period", PERIOD]
        if name != "Greedy":
            configurations[f"{name} from step {EARLY} on"] = [
                *configurations[name],
                "--lb-first",
                EARLY,
            ]
    runs = interleaved(configurations, TRIALS)
    bases = "mpi", "none"
    results: dict[str, Any] = {
        f"ideal_gain, {base}": median(record["imbalance"] for record in runs[base])
        for base in bases
    }
    for name in (name for name in configurations if name not in bases):
        results[name] = balanced(runs[name])
        for base in bases:
            found = gains(runs[base], runs[name])
            results[name] |= {f"{what}_over_{base}": value for what, value in found.items()}
        results[name]["steps_s"] = median(record["wall_s"] for record in runs[name])
    return results


def main() -> None:
    """Measure speed, memory and load balancing."""
    gains = {str(tile): balancing(tile) for tile in (1, TILE)}
    save("pic", {"speed": speed(), "bytes_per_particle": memory(), "balancing": gains})


if __name__ == "__main__":
    main()
