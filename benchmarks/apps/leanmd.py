"""LeanMD: atom-steps per second beside LAMMPS and GROMACS, the published load, memory, balancing.

All runs include list building, and all but those of the part *single* are in double precision.
LAMMPS runs its own standard benchmark, which rebuilds lists every 20 steps whether or not atoms
have left the skin. It also runs with lists rebuilt in time, as LeanMD always does.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.apps import gromacs_peer
from benchmarks.apps.leanmd_baselines import cost_of_exactness
from benchmarks.common import (
    balanced,
    earlier,
    gains,
    in_turn,
    interleaved,
    median,
    run,
    save,
    spread,
)
from miniapps.workbench.reproduce.peers import LISTS, lammps

TRIALS = 5
LONG = 1000  # steps of the part *single*
PRECISIONS: dict[str, list[object]] = {"float64": [], "float32": ["--dtype", "float32"]}
MELTS = {20: 200, 40: 40}  # lattice cells along each axis: steps
WARMUP = 20
PAPER: list[object] = ["leanmd", "--preset", "paper", "--steps", 100, "--warmup", 20]
PERIOD = 20
GRADIENT: list[object] = [
    "leanmd", "--preset", "paper", "--gradient", "100,250", "--warmup", 10, "--pe-grid", "2x1x1",
    "--driver", "charm", "-n", 2,
]  # fmt: skip
CUTS: dict[str, list[object]] = {
    "512 cells, blocks, ODF 8": ["--cells", "8x8x8", "--steps", 300, "--odf", 8],
    "64 cells, blocks, ODF 8": ["--steps", 400, "--odf", 8],
    "64 cells, pairs": ["--steps", 300, "--decomposition", "pairs"],
}


def melt() -> dict[str, Any]:
    """Atom-steps per second of both programs, on one and on two ranks."""
    results = {}
    for cells, steps in MELTS.items():
        for ranks in (1, 2):
            configuration: list[object] = ["--driver", "mpi", "-n", 2] if ranks == 2 else []
            size = ["--lattice", f"{cells}x{cells}x{cells}", "--steps", steps, "--warmup", WARMUP]
            ours, theirs = [], {lists: [] for lists in LISTS}
            for _ in range(TRIALS):
                ours.append(run("leanmd", *size, *configuration)["rate"]["value"])
                for lists, found in theirs.items():
                    found.append(lammps(cells, ranks, steps, WARMUP, lists))
            entry: dict[str, Any] = {"leanmd_atom_steps_per_s": median(ours)}
            for lists, found in theirs.items():
                rates = [one["atom_steps_per_s"] for one in found]
                ratios = [a / b for a, b in zip(ours, rates, strict=True)]
                entry[f"lammps, lists {lists}"] = {
                    "atom_steps_per_s": median(rates),
                    "builds": found[0]["builds"],
                    "leanmd_over_it": median(ratios),
                }
            results[f"{4 * cells**3} atoms, {ranks} rank{'s' * (ranks > 1)}"] = entry
    return results


def single() -> dict[str, Any]:
    """Atom-steps per second in both precisions, and of GROMACS in mixed precision if it is there.

    The energy drift is that of whole runs, in epsilon per atom and step.
    """
    results = {}
    for ranks in (1, 2):
        words = ["leanmd", "--preset", "melt", "--steps", LONG, "--warmup", WARMUP]
        words += ["--driver", "mpi", "-n", 2] if ranks == 2 else []
        calls: dict[str, Callable[[], Any]] = {
            name: partial(run, *words, *more) for name, more in PRECISIONS.items()
        }
        if gromacs_peer.is_there():
            calls["gromacs"] = partial(gromacs_peer.rate, 20, ranks, LONG, WARMUP)
        found = in_turn(calls, TRIALS)
        theirs = found.pop("gromacs", [])
        peer = [one["atom_steps_per_s"] for one in theirs]
        entry: dict[str, Any] = {}
        for name, records in found.items():
            rates = [record["rate"]["value"] for record in records]
            entry[name] = {
                "atom_steps_per_s": median(rates),
                "drift": records[0]["energy_drift_per_atom_and_step"],
            }
            if peer:
                ratios = [ours / other for ours, other in zip(rates, peer, strict=True)]
                entry[name]["over_gromacs"] = spread(ratios)
        if peer:
            entry["gromacs"] = {"atom_steps_per_s": median(peer), "drift": theirs[0]["drift"]}
        results[f"32000 atoms, {ranks} core{'s' * (ranks > 1)}"] = entry
    return results


def paper() -> dict[str, Any]:
    """Milliseconds per step of the published load on two PEs."""
    pairs = [*PAPER, "--decomposition", "pairs"]
    configurations: dict[str, list[object]] = {
        "blocks, mpi": [*PAPER, "--driver", "mpi", "-n", 2],
        "blocks, charm": [*PAPER, "--driver", "charm", "-n", 2],
        "blocks, charm, ODF 8": [*PAPER, "--driver", "charm", "-n", 2, "--odf", 8],
        "pairs, charm": [*pairs, "--driver", "charm", "-n", 2],
        "pairs, serial": pairs,
    }
    return {
        name: {
            "step_ms": median(r["wall_s"] / r["steps"] * 1e3 for r in records),
            "median_step_ms": median(r["step_time_s"]["median"] * 1e3 for r in records),
            "compute_ms_per_pe": median(
                r["compute_s"] / r["pes"] / r["steps"] * 1e3 for r in records
            ),
        }
        for name, records in interleaved(configurations, TRIALS).items()
    }


def memory() -> dict[str, float]:
    """Peak bytes per atom of the process that uses most, minus those of a small run."""
    results = {}
    small = run("leanmd", "--lattice", "10x10x10", "--steps", 20)
    small_mpi = run("leanmd", "--lattice", "10x10x10", "--steps", 20, "--driver", "mpi", "-n", 2)
    for cells in (40, 80):
        size = ["leanmd", "--lattice", f"{cells}x{cells}x{cells}", "--steps", 20]
        for name, configuration, base in (
            ("serial", [], small),
            ("mpi, 2 ranks", ["--driver", "mpi", "-n", 2], small_mpi),
        ):
            large = run(*size, *configuration)
            results[f"{large['atoms']} atoms, {name}"] = bytes_per_atom(large, base)
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder) / "start.h5"
        run("leanmd", "--lattice", "40x40x40", "--steps", 1, "--output", start)
        large = run("leanmd", "--input", start, "--steps", 20, "--driver", "mpi", "-n", 2)
        name = f"{large['atoms']} atoms, mpi, 2 ranks, --input"
        results[name] = bytes_per_atom(large, small_mpi)
    return results


def bytes_per_atom(large: dict[str, Any], small: dict[str, Any]) -> float:
    """Peak bytes per atom of a process, from runs with many and with few atoms."""
    atoms = (large["atoms"] - small["atoms"]) / large["pes"]
    return median([(large["peak_rss_bytes"] - small["peak_rss_bytes"]) / atoms])


def balancing() -> dict[str, Any]:
    """The gain of balancing a gradient of density, and its share of the ideal gain, max/mean."""
    results = {}
    for cut, more in CUTS.items():
        configurations = {"none": [*GRADIENT, *more]}
        for name in ("Greedy", "GreedyRefine"):
            configurations[name] = [*GRADIENT, *more, "--balancer", name, "--lb-period", PERIOD]
        runs = interleaved(configurations, 3)
        entry: dict[str, Any] = {"ideal_gain": median(run["imbalance"] for run in runs["none"])}
        for name in ("Greedy", "GreedyRefine"):
            entry[name] = gains(runs["none"], runs[name]) | balanced(runs[name])
        results[cut] = entry
    return results


PARTS: dict[str, Callable[[], Any]] = {
    "melt": melt,
    "exactness": lambda: cost_of_exactness(cells=20, steps=60, trials=21),
    "single": single,
    "paper": paper,
    "bytes_per_atom": memory,
    "balancing": balancing,
}


def main() -> None:
    """Measure all parts, or those named on the command line; others keep their results."""
    results = earlier("leanmd") if sys.argv[1:] else {}
    for name in sys.argv[1:] or PARTS:
        results[name] = PARTS[name]()
    save("leanmd", results)


if __name__ == "__main__":
    main()
