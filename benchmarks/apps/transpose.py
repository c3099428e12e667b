"""The transpose and the Fourier transform beside a triad, NumPy, SciPy, C and mpi4py-fft.

    .venv/bin/python -m benchmarks.apps.transpose

Kernels are called in turns, and the fastest of many calls counts. A share is a ratio of bytes per
second, with those that each kernel must move at least (`kernels.transpose.cpu`), 32 of a triad.
Programs are run in turns too, and the fastest of several counts, each by its mean step, as in PRK.
A rate is in PRK's bytes. It writes ``results/transpose.json``; ``--quick`` makes few calls and
writes nothing. mpi4py-fft is measured if it is installed, which takes FFTW from Debian:

    apt-get install libfftw3-dev && .venv/bin/pip install mpi4py-fft
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft

from benchmarks.apps import one_core
from benchmarks.common import in_turn, printed, run
from miniapps.devices.backend import Device
from miniapps.drivers.engine import Engine
from miniapps.kernels import load
from miniapps.transpose import Block
from miniapps.transpose.problem import TransposeProblem

ORDERS = 2000, 4000, 4096  # PRK's small one, a larger one, and one whose lines share few cache sets
POINTS = 128
REPEATS, QUICK, TRIALS, STEPS = 40, 3, 5, 10
WARMUP = 4  # steps after which all buffers of messages are as long as they must be, and in use
RUNS = {
    "mpi": ("mpi",),
    "mpi, nothing shared": ("mpi", "--shared-memory", 0),
    "charm": ("charm",),
    "charm, 4 blocks per PE": ("charm", "--odf", 4),
}
BYTES = 16  # of an element in PRK's rate
BIN = Path(sys.executable).parent
PEER = Path(__file__).with_name("bare_mpi4py_fft.py")


def kernels(order: int, repeats: int) -> dict[str, float]:
    """The kernels' shares of a triad's bandwidth, and an iteration beside NumPy's."""
    of, half = load("transpose", "cpu"), order // 2
    a, b = (np.ones((order, order)) for _ in range(2))
    part, message, back = a[:half], np.ones((half, order - half)), np.ones((order - half, half))
    other = {(1, 0): (half, order)}

    def in_numpy() -> None:
        np.add(b, a.T, out=b)
        np.add(a, 1, out=a)

    calls: one_core.Calls = {
        "take": lambda: of.take(part, other, {(1, 0): message}),
        "turn": lambda: of.turn(a, b, 0),
        "add": lambda: of.add(b[:half], other, {(1, 0): back}),
        "NumPy": in_numpy,
    }
    times, bandwidth = one_core.beside_a_triad(calls, repeats)
    moved = {"take": 32 * message.size, "turn": 32 * a.size, "add": 24 * message.size}
    found = {"triad, GB/s": bandwidth / 1e9}
    found |= {f"{name}, of the triad": n / times[name] / bandwidth for name, n in moved.items()}
    found["turn, PRK's GB/s"] = BYTES * a.size / times["turn"] / 1e9
    found["NumPy, PRK's GB/s"] = BYTES * a.size / times["NumPy"] / 1e9
    return found


def step_of(problem: TransposeProblem) -> Any:
    """A function that makes a step of a problem on one block."""
    layout = problem.cut(1, 1, None)
    engine = Engine([Block(problem, layout, index, Device()) for index in layout.indices()]).setup()
    return partial(engine.round, 0, 1)


def transforms(n: int, repeats: int) -> dict[str, float]:
    """A step of the Fourier transform on one core, and SciPy's in three dimensions."""
    values = np.random.default_rng(1).random((n, n, n)) + 0j
    there = partial(scipy.fft.fftn, workers=1)
    back = partial(scipy.fft.ifftn, workers=1)
    calls: one_core.Calls = {
        "ours": step_of(TransposeProblem((n, n, n), fft=True)),
        "SciPy": lambda: back(there(values), overwrite_x=True),
    }
    times = one_core.fastest(calls, max(3, repeats // 4))
    return {f"{name}, ms": 1e3 * seconds for name, seconds in times.items()}


def ours(*words: object) -> dict[str, float]:
    """Seconds of the mean step of a run."""
    record = run("transpose", *words, "--steps", STEPS, "--warmup", WARMUP)
    return {"s": record["wall_s"] / record["steps"]}


def matrices(order: int, trials: int) -> dict[str, float]:
    """PRK's rates of our drivers and of C on 2 PEs, GB/s."""
    with tempfile.TemporaryDirectory() as folder:
        program = one_core.compiled(__file__, folder, compiler=BIN / "mpicc")
        in_c = [BIN / "mpiexec", "-n", 2, program, order, STEPS]
        calls: dict[str, Any] = {
            name: partial(ours, "--size", order, "-n", 2, "--driver", *words)
            for name, words in RUNS.items()
        } | {"C": partial(printed, in_c)}
        found = in_turn(calls, trials)
    assert not any(one["error"] for one in found["C"])
    times = {name: min(one["s"] for one in found[name]) for name in calls if name != "C"}
    times["C, one partner at a time"] = min(one["phases_s"] for one in found["C"])
    times["C, MPI_Alltoall"] = min(one["alltoall_s"] for one in found["C"])
    return {name: BYTES * order**2 / seconds / 1e9 for name, seconds in times.items()}


def pencils(n: int, trials: int) -> dict[str, float]:
    """Milliseconds of a transform and back on 2 ranks, beside mpi4py-fft if it is there."""
    calls: dict[str, Any] = {
        "mpi": partial(ours, "--fft", "--size", f"{n}x{n}x{n}", "--driver", "mpi", "-n", 2)
    }
    if find_spec("mpi4py_fft") is None:
        print("left out: mpi4py-fft, which is not installed: this file says how", file=sys.stderr)
    else:
        peer = [BIN / "mpiexec", "-n", 2, sys.executable, PEER, n, STEPS]
        calls["mpi4py-fft"] = partial(printed, peer)
    found = in_turn(calls, trials)
    return {f"{name}, ms": 1e3 * min(one["s"] for one in found[name]) for name in calls}


def main() -> None:
    """Measure, print, and write the results."""
    one_core.require_one_core()
    repeats, trials = (QUICK, 1) if one_core.quick() else (REPEATS, TRIALS)
    found = {
        "kernels": {str(order): kernels(order, repeats) for order in ORDERS},
        "matrices on 2 PEs, GB/s": {str(order): matrices(order, trials) for order in ORDERS},
        "transforms on 1 core": transforms(POINTS, repeats),
        "transforms on 2 ranks": pencils(POINTS, trials),
    }
    one_core.finish("transpose", found)


if __name__ == "__main__":
    main()
