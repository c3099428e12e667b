"""CG on one core: the operator against a triad, what exactness costs, SciPy and C beside it.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.apps.cg

Kernels are called in turns, and the fastest of many calls counts; of iterations in SciPy and C, the
fastest, too. A share is a ratio of bytes per second, with those that each kernel must move at least
(`kernels.cg.cpu`), 32 of a triad. A rate is in HPCG's operations per second. It writes
``results/cg.json``; ``--quick`` makes few calls and writes nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache, partial
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse
from numba import float64, njit, void

from benchmarks.apps.one_core import (
    Calls,
    beside_a_triad,
    compiled,
    fastest,
    finish,
    quick,
    require_one_core,
)
from benchmarks.common import printed, stepped
from miniapps.cg.problem import CgProblem
from miniapps.devices.backend import Device
from miniapps.kernels import load
from miniapps.kernels.cg import cpu
from miniapps.kernels.exact_sum import accumulator
from miniapps.kernels.halo.interface import Region

CELLS = 104, 208, 320  # HPCG's local size, and some whose vectors are larger than most caches
REPEATS, QUICK = 40, 3
STEPS = 25  # before the vectors with which kernels are timed
ROW = float64[::1]


def compiled_with(kernel: Any, **others: Any) -> Any:
    """A kernel that calls other functions in place of some of its own."""
    of = kernel.py_func
    function = FunctionType(of.__code__, of.__globals__ | others, of.__name__)
    return njit(kernel.nopython_signatures, error_model="numpy")(function)


@cache
def operator() -> Any:
    """`apply` without the dot product: no product is added to what was found."""
    found = njit(forceinline=True)(lambda found, a, b, limits: found)
    rows = ("_box_rows", "_star_rows")
    return compiled_with(
        cpu.apply, **{name: compiled_with(getattr(cpu, name), with_product=found) for name in rows}
    )


@njit(void(ROW, ROW, ROW, ROW, float64), cache=True, error_model="numpy")
def updates(x, r, p, q, alpha):
    """The updates of `advance` alone."""
    for k in range(x.size):
        x[k] += alpha * p[k]
        r[k] -= alpha * q[k]


def vectors(n: int, solution: str, steps: int = STEPS) -> tuple[list[np.ndarray], Region]:
    """The vectors x, r, p and q of a run after some iterations, and the region of their points."""
    block = stepped("cg", CgProblem((n,) * 3, solution=solution), steps, Device())
    return [block.vectors[name] for name in "xrpq"], block.own


def matrix(n: int) -> Any:
    """HPCG's matrix in compressed rows: 27 less a product of sums along the axes."""
    along = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    sums = scipy.sparse.kron(along, scipy.sparse.kron(along, along))
    return (27 * scipy.sparse.eye_array(n**3) - sums).tocsr()


def scipy_iterations(a: Any) -> Iterator[None]:
    """SciPy's products with a matrix, and NumPy's with vectors: an iteration at a time."""
    r = a @ np.ones(a.shape[0])
    x, p, now, before = np.zeros_like(r), np.zeros_like(r), np.dot(r, r), np.inf
    while True:
        p = r + now / before * p
        q = a @ p
        alpha = now / np.dot(p, q)
        x += alpha * p
        r -= alpha * q
        before, now = now, np.dot(r, r)
        yield


def iterations(n: int, solution: str) -> Calls:
    """An iteration, and one whose dot products are NumPy's."""
    cg, words = load("cg", "cpu"), accumulator()
    (x, r, p, q), own = vectors(n, solution)
    flat = [vector.reshape(-1) for vector in (x, r, p, q)]

    def exact() -> None:
        cg.turn(r, p, 0.0, *own)
        cg.apply(27, p, q, *own, words)
        cg.advance(x, r, p, q, 0.0, *own, words)

    def plain() -> None:
        cg.turn(r, p, 0.0, *own)
        operator()(27, p, q, *own, words)
        np.dot(flat[2], flat[3])
        updates(*flat, 0.0)
        np.dot(flat[1], flat[1])

    return {f"exact, {solution}": exact, f"plain, {solution}": plain}


def shares(n: int, repeats: int) -> dict[str, float]:
    """The kernels' shares of a triad's bandwidth, and rates of iterations, exact and plain."""
    cg, words = load("cg", "cpu"), accumulator()
    (x, r, p, q), own = vectors(n, "noise")
    kernels: Calls = {
        "operator": lambda: operator()(27, p, q, *own, words),
        "operator of 7 points": lambda: operator()(7, p, q, *own, words),
        "operator and exact dot": lambda: cg.apply(27, p, q, *own, words),
        "operator of 7 points and exact dot": lambda: cg.apply(7, p, q, *own, words),
        "updates and exact dot": lambda: cg.advance(x, r, p, q, 0.0, *own, words),
        "Gauss-Seidel, a colour": lambda: cg.relax(27, x, r, np.array([3]), *own),
    }
    whole = iterations(n, "noise") | iterations(n, "ones")
    times, bandwidth = beside_a_triad(kernels | whole, repeats)
    found = {"triad, GB/s": bandwidth / 1e9}
    for name, moved in zip(kernels, (24, 24, 24, 24, 48, 13), strict=True):
        found[f"{name}, of the triad"] = moved * n**3 / times[name] / bandwidth
    work = CgProblem((n,) * 3).work() / 1e9
    found |= {f"{name}, GFLOP/s": work / times[name] for name in whole}
    for solution in ("noise", "ones"):
        ratio = times[f"exact, {solution}"] / times[f"plain, {solution}"]
        found[f"exact over plain, {solution}"] = ratio
    return found


def others(n: int, repeats: int) -> dict[str, float]:
    """SciPy's and C's rates on HPCG's problem."""
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(__file__, folder)
        in_c = printed([program, n, repeats])
    products = partial(next, scipy_iterations(matrix(n)))
    spent = fastest({"SciPy": products}, repeats)["SciPy"]
    work = CgProblem((n,) * 3).work() / 1e9
    return {
        "SciPy, compressed rows": work / spent,
        "C, rows of a matrix": work / in_c["csr_s"],
        "C, without a matrix": work / in_c["matrix_free_s"],
    }


def main() -> None:
    """Measure, print, and write the results."""
    require_one_core()
    repeats = QUICK if quick() else REPEATS
    found = {f"{n}^3": shares(n, repeats) for n in CELLS}
    found[f"others at {CELLS[0]}^3, GFLOP/s"] = others(CELLS[0], repeats)
    finish("cg", found)


if __name__ == "__main__":
    main()
