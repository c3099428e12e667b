"""Rates of exact sums and dot products, and of NumPy's, on one core.

    .venv/bin/python -m benchmarks.apps.exact_sums

In turns: each repeat calls every function once, and the fastest of many repeats counts. It prints
the table of docs/exact-sums.md and writes ``results/exact_sums.json``; ``--quick`` makes few calls
and writes nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.apps.one_core import fastest, finish, quick, require_one_core
from miniapps.kernels import load
from miniapps.kernels.exact_sum import accumulator, rounded

COUNT, REPEATS, QUICK = 10_000_000, 80, 2


def arrays(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of a kind of numbers."""
    a, b = rng.standard_normal(COUNT), rng.standard_normal(COUNT)
    if kind == "normal, 30 % zeros":
        a *= rng.random(COUNT) > 0.3
    if kind == "exp(20 x), x normal":
        return np.exp(20 * a), np.exp(20 * b)
    if kind == "normal, float32":
        return a.astype(np.float32), b.astype(np.float32)
    return a, b


KINDS = "normal", "normal, 30 % zeros", "exp(20 x), x normal", "normal, float32"


def measured(kind: str) -> dict[str, Any]:
    """The rates of one kind of numbers, of sums that are right."""
    repeats = QUICK if quick() else REPEATS
    a, b = arrays(kind, np.random.default_rng(1))
    kernels, words = load("exact_sum", "cpu"), accumulator()
    kernels.add_sum(a, words)
    assert rounded(words) == math.fsum(a.tolist())
    found = {}
    for name, calls in {
        "dot": {
            "NumPy": lambda: np.dot(a, b),
            "exact": lambda: kernels.add_dot(a, b, accumulator()),
        },
        "sum": {"NumPy": lambda: np.sum(a), "exact": lambda: kernels.add_sum(a, accumulator())},
    }.items():
        found[name] = {k: v / COUNT * 1e9 for k, v in fastest(calls, repeats).items()}
    return found


def main() -> None:
    """Measure, write the results, and print the table."""
    require_one_core()
    found = {kind: measured(kind) for kind in KINDS}
    finish("exact_sums", {"ns per number": found})
    print("| numbers | dot: NumPy | exact | ratio | sum: NumPy | exact | ratio |")
    print("|---|---|---|---|---|---|---|")
    for kind, rates in found.items():
        cells = [kind]
        for name in ("dot", "sum"):
            ours, theirs = rates[name]["exact"], rates[name]["NumPy"]
            cells += [f"{theirs:.2f}", f"{ours:.2f}", f"{theirs / ours:.2f}"]
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
