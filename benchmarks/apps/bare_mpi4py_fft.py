"""A Fourier transform and back by mpi4py-fft, in pencils, beside `miniapps run transpose --fft`.

    mpiexec -n 2 python benchmarks/apps/bare_mpi4py_fft.py points steps

prints {"s": ...}: seconds of the mean step of the slowest rank. One step before is not timed.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

import numpy as np
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray


def main() -> None:
    """Make the steps, and require that the field has come back."""
    points, steps = map(int, sys.argv[1:])
    comm = MPI.COMM_WORLD
    fft = PFFT(comm, (points,) * 3, dtype=complex, grid=(-1, 1) if comm.size < 4 else None)
    field = newDistArray(fft, False)
    rng = np.random.default_rng(comm.rank)
    field[...] = rng.random(field.shape) - 0.5 + 1j * (rng.random(field.shape) - 0.5)
    before, begun = field.copy(), 0.0
    for step in range(steps + 1):
        if step == 1:
            comm.Barrier()
            begun = perf_counter()
        field = fft.backward(fft.forward(field, normalize=False), field, normalize=True)
    slowest = comm.allreduce(perf_counter() - begun, MPI.MAX)
    assert np.abs(field - before).max() < 1e-12
    if comm.rank == 0:
        print(json.dumps({"s": slowest / steps}))


if __name__ == "__main__":
    main()
