"""AMR's sweep beside a triad, a C loop and NumPy on one core; whole runs on 1 and 2 PEs.

    .venv/bin/python -m benchmarks.apps.amr

Sweeps are called in turns, and the fastest of many calls counts. A rate is in the operations of the
Parallel Research Kernels, 19 for each point that is swept. The limit is the memory's: a sweep moves
32 bytes a point (`kernels.amr.cpu`), as a triad does an element, for its 11 flops. Runs of the
preset ``small`` are made in turns too, and the fastest of several counts, as their records give
the rate. It writes ``results/amr.json``; ``--quick`` makes few calls and writes nothing.
"""

from __future__ import annotations

import ctypes
import tempfile
from functools import partial
from typing import Any

import numpy as np

from benchmarks.apps import one_core
from benchmarks.common import in_turn, run
from miniapps.amr.layout import FINE_GRAIN, HIGH_WATER, NO_TALK
from miniapps.amr.plain import PlainGrid
from miniapps.amr.problem import FLOPS, active_points
from miniapps.kernels import load
from miniapps.kernels.amr import REACH

SIZES = 1000, 4000  # the background of the presets small and large, along an axis
REPEATS, QUICK, TRIALS = 40, 3, 5
BYTES = 32  # of a point in a sweep, and of an element in a triad
RUNS = {
    "serial, 1 core": "--driver serial",
    **{
        f"mpi, {placement}": f"--driver mpi -n 2 --placement {placement}"
        for placement in (FINE_GRAIN, NO_TALK, HIGH_WATER)
    },
    "charm": "--driver charm -n 2",
    "charm, 4 blocks per PE": "--driver charm -n 2 --odf 4",
}


def in_c(folder: str) -> Any:
    """The sweep of amr.c, compiled here."""
    found = ctypes.CDLL(str(one_core.compiled(__file__, folder, "-shared", "-fPIC"))).sweep
    array = np.ctypeslib.ndpointer(np.float64, 2, flags="C_CONTIGUOUS")
    found.argtypes, found.restype = [array, array, ctypes.c_long, ctypes.c_long], None
    return found


def start(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The values of a background of n x n points, and its sums."""
    return np.add.outer(np.arange(float(n)), np.arange(float(n))), np.zeros((n, n))


def sweeps(n: int, c: Any, repeats: int) -> dict[str, float]:
    """Rates of sweeps of n x n points, MFlop/s, and ours as a share of a triad's bandwidth."""
    of, grid = load("amr", "cpu"), PlainGrid(start(n)[0])
    (u, sums), (v, added) = start(n), start(n)
    own, active = (0, n, 0, n), (REACH, n - REACH) * 2
    calls: one_core.Calls = {
        "ours": lambda: of.sweep(u, u, sums, 1, active, own),
        "C": lambda: c(v, added, n, n),
        "NumPy": grid.sweep,
    }
    times, bandwidth = one_core.beside_a_triad(calls, repeats)
    assert np.array_equal(u, v) and np.array_equal(sums, added) and sums.any()
    assert np.array_equal(u, grid.values) and np.array_equal(sums, grid.sums)
    work = FLOPS * active_points((n, n))
    found = {f"{name}, MFlop/s": work / times[name] / 1e6 for name in ("ours", "C", "NumPy")}
    found["at a triad's bandwidth, MFlop/s"] = work * bandwidth / (BYTES * n * n) / 1e6
    found["ours, of the triad"] = BYTES * n * n / times["ours"] / bandwidth
    return found | {"triad, GB/s": bandwidth / 1e9}


def rate(words: str, steps: int) -> float:
    """The rate of a run, MFlop/s."""
    how = "amr", "--preset", "small", "--steps", steps, *words.split()
    return float(run(*how)["rate"]["value"]) / 1e6


def main() -> None:
    """Measure, print, and write the results."""
    one_core.require_one_core()
    repeats, trials, steps = (QUICK, 1, 20) if one_core.quick() else (REPEATS, TRIALS, 160)
    with tempfile.TemporaryDirectory() as folder:
        c = in_c(folder)
        swept = {f"{n}x{n}": sweeps(n, c, repeats) for n in SIZES}
    runs = in_turn({name: partial(rate, words, steps) for name, words in RUNS.items()}, trials)
    rates = {name: max(each) for name, each in runs.items()}
    one_core.finish("amr", {"sweeps on 1 core": swept, "runs, MFlop/s": rates})


if __name__ == "__main__":
    main()
