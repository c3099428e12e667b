"""The gain of load balancing over its ideal, max/mean: Stencil3D with the paper's imbalance.

Two PEs with four blocks each are balanced every 30 steps, as published (CharmPy, CLUSTER 2018,
V-B), for the first time after five timed steps. The ideal gain is max/mean of the compute time per
PE in the run without balancing. The gain is the ratio of the times of the two whole runs, with all
migrations and the steps before the first load-balancing step, which no balancer can improve. The
field fits into a last-level cache of 32 MiB, so one PE hardly slows down the other.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common import balanced, gains, interleaved, median, save

TRIALS = 3
STEPS, WARMUP, FIRST, PERIOD = 300, 5, 10, 30
PROBLEM: list[object] = [
    "stencil3d", "--size", "128x128x128", "--imbalance", "paper", "--imbalance-scale", 1,
    "--steps", STEPS, "--warmup", WARMUP, "--driver", "charm", "-n", 2, "--odf", 4,
]  # fmt: skip
BALANCED: list[object] = ["--lb-period", PERIOD, "--lb-first", FIRST]
CONFIGURATIONS: dict[str, list[object]] = {
    "none": [],
    "Greedy": ["--balancer", "Greedy", *BALANCED],
    "GreedyRefine": ["--balancer", "GreedyRefine", *BALANCED],
}


def main() -> None:
    """Measure each mode of the extra load with each balancer."""
    results: dict[str, Any] = {}
    for mode in ("wait", "work"):
        configurations = {
            name: [*PROBLEM, "--imbalance-mode", mode, *more]
            for name, more in CONFIGURATIONS.items()
        }
        runs = interleaved(configurations, TRIALS)
        results[mode] = {"ideal_gain": median(run["imbalance"] for run in runs["none"])}
        for name in ("Greedy", "GreedyRefine"):
            results[mode][name] = gains(runs["none"], runs[name]) | balanced(runs[name])
    save("balancing", results)


if __name__ == "__main__":
    main()
