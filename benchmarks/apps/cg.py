"""CG on one core: the operator against a triad, what exactness costs, SciPy and C beside it.

    .venv/bin/python -m benchmarks.apps.cg

Kernels are called in turns, and the fastest of many calls counts; of iterations in SciPy and C, the
fastest, too, and of whole runs. A share is a ratio of bytes per second, with those that each kernel
must move at least (`kernels.cg.cpu`), 32 of a triad. A rate is in HPCG's operations per second. It
writes ``results/cg.json``; ``--quick`` makes few calls and writes nothing.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse
from numba import float64, njit, void

from benchmarks.apps import one_core
from benchmarks.common import interleaved, printed, stepped
from miniapps.cg.block import COLOURS
from miniapps.cg.problem import CgProblem
from miniapps.devices.backend import Device
from miniapps.devices.cpu.vectors import bits, broadcast_line, fma, lane
from miniapps.kernels import load
from miniapps.kernels.cg import cpu
from miniapps.kernels.exact_sum import accumulator, rounded
from miniapps.kernels.halo.interface import Region, box

CELLS = 104, 208, 320  # HPCG's local size, and some whose vectors are larger than most caches
REPEATS, QUICK, TRIALS = 40, 3, 3
STEPS = 25  # before the vectors with which kernels are timed
TOLERANCE, MOST = 1e-8, 500  # of runs to a solution
CLOSE = 1e-9  # how close sums in float64 must be to exact ones
SOLUTIONS = "noise", "ones"
VARIANTS: dict[str, list[object]] = {
    "no preconditioner": [],
    "pipelined": ["--pipelined"],
    "sgs": ["--preconditioner", "sgs"],
}
ROW = float64[::1]


def require_close(name: str, found: float, right: float) -> None:
    """Raise RuntimeError unless a number is the right one but for rounding."""
    if not math.isclose(found, right, rel_tol=CLOSE):
        raise RuntimeError(f"{name}: {found!r}, not {right!r}: it does not compute what cg does")


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


@njit(forceinline=True)
def _with_product(found, a, b, limits):
    """Add a product to a float64, or those of lanes to others."""
    first, second, third, outside = found
    return fma(a, b, first), second, third, outside


@njit(forceinline=True)
def _lines_of(limits):
    """Return sums that are 0, as lines."""
    none = broadcast_line(0.0)
    return none, (none, none, none, none)


@njit(forceinline=True)
def _joined(lines, rest):
    """Return the bits of the sum of lanes and of the rest; last: nothing is wrong."""
    total = rest[0]
    for k in range(cpu.LINE):
        total += lane(lines[0], k)
    return bits(total), 0, 0, 0


@njit
def _added(found, limits, a, b, at, n, row, count, power, some_a, some_b, words):
    """Add a sum to the float64 whose bits are the first word."""
    words[1] = found[0]
    sums = words.view(np.float64)
    sums[0] += sums[1]
    return power


@cache
def fused() -> tuple[Any, Any]:
    """`apply` and `advance` with the same loops, which add products to a float64.

    The first word gets its bits.
    """
    plain = {"with_product": _with_product, "lines_of": _lines_of, "joined": _joined}
    rows = {
        name: compiled_with(getattr(cpu, name), **plain, NOTHING=(0.0,) * 4)
        for name in ("_box_rows", "_star_rows", "_moved_back")
    }
    others = {"_added": _added, "carry": njit(lambda words: None)}
    return compiled_with(cpu.apply, **rows, **others), compiled_with(cpu.advance, **rows, **others)


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


def scipy_iterations(a: Any) -> Iterator[float]:
    """SciPy's products with a matrix, and NumPy's with vectors: an iteration at a time.

    Yields the square of the residual.
    """
    r = a @ np.ones(a.shape[0])
    x, p, now, before = np.zeros_like(r), np.zeros_like(r), np.dot(r, r), np.inf
    while True:
        p = r + now / before * p
        q = a @ p
        alpha = now / np.dot(p, q)
        x += alpha * p
        r -= alpha * q
        before, now = now, np.dot(r, r)
        yield now


def iterations(n: int, solution: str) -> one_core.Calls:
    """An iteration; one whose loops add products in float64; one whose dot products are NumPy's."""
    cg, words = load("cg", "cpu"), accumulator()
    (x, r, p, q), own = vectors(n, solution)
    flat = [vector.reshape(-1) for vector in (x, r, p, q)]
    apply, advance = fused()

    def exact() -> None:
        cg.turn(r, p, 0.0, *own)
        cg.apply(27, p, q, *own, words)
        cg.advance(x, r, p, q, 0.0, *own, words)

    def plain() -> None:
        cg.turn(r, p, 0.0, *own)
        apply(27, p, q, *own, words)
        advance(x, r, p, q, 0.0, *own, words)

    def numpy() -> None:
        cg.turn(r, p, 0.0, *own)
        operator()(27, p, q, *own, words)
        np.dot(flat[2], flat[3])
        updates(*flat, 0.0)  # type: ignore[call-arg]
        np.dot(flat[1], flat[1])

    sums = []
    for call in (exact, plain):
        words[:] = 0
        call()
        sums.append(float(rounded(words) if call is exact else words.view(np.float64)[0]))
    require_close("plain fused", sums[1], sums[0])
    words[:] = 0
    names = "exact", "plain fused", "plain by NumPy"
    return {
        f"{name}, {solution}": call for name, call in zip(names, (exact, plain, numpy), strict=True)
    }


def shares(n: int, repeats: int) -> dict[str, float]:
    """The kernels' shares of a triad's bandwidth, and rates of iterations, exact and plain."""
    cg, words = load("cg", "cpu"), accumulator()
    (x, r, p, q), own = vectors(n, "noise")
    kernels: one_core.Calls = {
        "operator": lambda: operator()(27, p, q, *own, words),
        "operator of 7 points": lambda: operator()(7, p, q, *own, words),
        "operator and exact dot": lambda: cg.apply(27, p, q, *own, words),
        "operator of 7 points and exact dot": lambda: cg.apply(7, p, q, *own, words),
        "updates and exact dot": lambda: cg.advance(x, r, p, q, 0.0, *own, words),
        "Gauss-Seidel, a colour": lambda: cg.relax(27, x, r, np.array([3]), *own),
        "Gauss-Seidel, all colours": lambda: cg.relax(27, x, r, np.array(COLOURS), *own),
    }
    whole = iterations(n, "noise") | iterations(n, "ones")
    times, bandwidth = one_core.beside_a_triad(kernels | whole, repeats)
    found = {"triad, GB/s": bandwidth / 1e9}
    for name, moved in zip(kernels, (24, 24, 24, 24, 48, 13, 24), strict=True):
        found[f"{name}, of the triad"] = moved * n**3 / times[name] / bandwidth
    work = CgProblem((n,) * 3).work() / 1e9
    return found | {f"{name}, GFLOP/s": work / times[name] for name in whole}


def reduction(repeats: int) -> dict[str, float]:
    """Microseconds of what an exact sum costs beside its products, for sums of squares."""
    words, values, times = accumulator(2), np.random.default_rng(1).standard_normal(1000), 1000
    for one in words:
        load("exact_sum", "cpu").add_dot(values, values, one)
    calls: one_core.Calls = {
        "adding two accumulators": lambda: [words[0] + words[1] for _ in range(times)],
        "rounding one": lambda: [rounded(words[0]) for _ in range(times)],
    }
    return {name: s / times * 1e6 for name, s in one_core.fastest(calls, repeats).items()}


def solutions(n: int, trials: int) -> dict[str, dict[str, float]]:
    """Whole runs on one PE until the residual is small: the fastest of several."""
    common = ["--size", f"{n}x{n}x{n}", "--tolerance", TOLERANCE, "--steps", MOST, "--warmup", 0]
    runs: dict[str, list[object]] = {
        f"{variant}, {solution}": ["cg", *common, "--solution", solution, *words]
        for solution in SOLUTIONS
        for variant, words in VARIANTS.items()
    }
    found = {}
    for name, records in interleaved(runs, trials).items():
        best = min(records, key=lambda record: record["wall_s"])
        found[name] = {
            "iterations": best["steps"],
            "ms per iteration": best["wall_s"] / best["steps"] * 1e3,
            "GFLOP/s": best["rate"]["value"] / 1e9,
            "s": best["wall_s"],
        }
    return found


def in_c(script: str, n: int, right: dict[str, float], count: int) -> dict[str, float]:
    """What the program in C beside a script prints of so many iterations.

    Raises RuntimeError if they do not lead to the right sums of squares.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = printed([one_core.compiled(script, folder), n, count])
    for name, of in itertools.product(("csr", "matrix_free"), right):
        require_close(f"C, {name}_{of}", found[f"{name}_{of}"], right[of])
    return found


def squares(n: int, count: int) -> dict[str, float]:
    """Sums of squares after so many iterations of the app: of the residual and of the error."""
    block = stepped("cg", CgProblem((n,) * 3), count, Device())
    error = block.vectors["x"][box(block.own)] - 1
    return {"rr": block.rr, "ee": float((error**2).sum())}


def others(n: int, repeats: int) -> dict[str, float]:
    """SciPy's and C's rates on HPCG's problem."""
    right, products = squares(n, repeats), scipy_iterations(matrix(n))
    times = in_c(__file__, n, right, repeats)
    spent = one_core.fastest({"SciPy": partial(next, products)}, repeats - 1)["SciPy"]
    require_close("SciPy", next(products), right["rr"])
    work = CgProblem((n,) * 3).work() / 1e9
    return {
        "SciPy, compressed rows": work / spent,
        "C, rows of a matrix": work / times["csr_s"],
        "C, without a matrix": work / times["matrix_free_s"],
    }


def main() -> None:
    """Measure, print, and write the results."""
    one_core.require_one_core()
    repeats, trials = (QUICK, 1) if one_core.quick() else (REPEATS, TRIALS)
    found: dict[str, Any] = {f"{n}^3": shares(n, repeats) for n in CELLS}
    found[f"others at {CELLS[0]}^3, GFLOP/s"] = others(CELLS[0], repeats)
    found[f"runs at {CELLS[0]}^3 to {TOLERANCE:g}"] = solutions(CELLS[0], trials)
    found["a reduction, µs"] = reduction(repeats)
    one_core.finish("cg", found)


if __name__ == "__main__":
    main()
