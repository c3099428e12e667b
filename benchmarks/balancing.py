"""How much of what max/mean promises load balancing gains: Stencil3D with the paper's imbalance.

Two PEs, four blocks each, balancing every 30 steps, as published (CharmPy, CLUSTER 2018, V-B). The
promise is max/mean of the compute per PE in the run without balancing; the gain is the ratio of the
two runs' whole times, the steps before the first balancing and all migrations included. The
steps up to the first balancing, which nothing could have balanced, count too.
"""

from __future__ import annotations

from typing import Any

from common import interleaved, median, save

TRIALS = 3
STEPS, PERIOD = 600, 30
PROBLEM: list[object] = [
    "stencil3d", "--size", "96x96x96", "--imbalance", "paper", "--imbalance-scale", 1,
    "--steps", STEPS, "--warmup", 5, "--driver", "charm", "-n", 2, "--odf", 4,
]  # fmt: skip
WAYS: dict[str, list[object]] = {
    "none": [],
    "Greedy": ["--balancer", "Greedy", "--lb-period", PERIOD],
    "GreedyRefine": ["--balancer", "GreedyRefine", "--lb-period", PERIOD],
}


def main() -> None:
    """Measure each mode of the extra load with each balancer."""
    results: dict[str, Any] = {}
    for mode in ("wait", "work"):
        ways = {name: [*PROBLEM, "--imbalance-mode", mode, *more] for name, more in WAYS.items()}
        runs = interleaved(ways, TRIALS)
        promise = [run["imbalance"] for run in runs["none"]]
        results[mode] = {"promise_max_over_mean": median(promise)}
        for name in ("Greedy", "GreedyRefine"):
            pairs = list(zip(runs["none"], runs[name], strict=True))
            gain = [off["wall_s"] / on["wall_s"] for off, on in pairs]
            results[mode][name] = {
                "gain": median(gain),
                "share_of_promise": median(g / p for g, p in zip(gain, promise, strict=True)),
                "imbalance": median(run["imbalance"] for run in runs[name]),
                "migrations": median(run["migrations"] for run in runs[name]),
                "balancing_s": median(sum(e["seconds"] for e in r["lb"]) for r in runs[name]),
            }
    save("balancing", results)


if __name__ == "__main__":
    main()
