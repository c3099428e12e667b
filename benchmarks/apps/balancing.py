"""The gain of load balancing over its ideal, max/mean: Stencil3D with the paper's imbalance.

Two PEs with four blocks each are balanced every 30 steps, as published (CharmPy, CLUSTER 2018,
V-B), for the first time after five timed steps. The ideal gain is max/mean of the compute time per
PE in the run without balancing. The gain is the ratio of the times of the two whole runs, with all
migrations and the steps before the first load-balancing step, which no balancer can improve. The
field fits into a last-level cache of 32 MiB, so one PE hardly slows down the other.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common import interleaved, median, save

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
        ideal = [run["imbalance"] for run in runs["none"]]
        results[mode] = {"ideal_gain": median(ideal)}
        for name in ("Greedy", "GreedyRefine"):
            pairs = list(zip(runs["none"], runs[name], strict=True))
            gain = [off["wall_s"] / on["wall_s"] for off, on in pairs]
            results[mode][name] = {
                "gain": median(gain),
                "fraction_achieved": median(g / p for g, p in zip(gain, ideal, strict=True)),
                "imbalance": median(run["imbalance"] for run in runs[name]),
                "migrations": median(run["migrations"] for run in runs[name]),
                "balancing_s": median(sum(e["seconds"] for e in r["lb"]) for r in runs[name]),
            }
    save("balancing", results)


if __name__ == "__main__":
    main()
