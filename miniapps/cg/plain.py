"""Conjugate gradients in plain NumPy on the whole box, for references, checks and audits.

It shares no code with blocks and kernels: neither the operator, nor the solution, nor sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from miniapps.decomposition import Bounds
from miniapps.plain_hash import GOLDEN, mixed, uniform

Vector = np.ndarray
LEAST, BINS = -2300, 4500  # powers of two of parts of products, and how many there are
# An accumulator of the run has these digits of so many bits, in units of this power of two.
DIGITS, DIGIT_BITS, LOWEST = 136, 32, -2176
AT_ONCE = 1 << 14  # products whose parts are added as floats


def solution(problem: Any, bounds: Bounds) -> Vector:
    """The solution of a problem on a box of points; 0 for those beyond the problem's box."""
    at = np.ix_(*(np.arange(low, high) for low, high in bounds))
    inside = np.ones([high - low for low, high in bounds])
    for along, n in zip(at, problem.size, strict=True):
        inside = inside * ((along >= 0) & (along < n))
    if problem.solution == "ones":
        return inside
    return inside * uniform(_numbers(problem, *at))


def hashed(values: Vector, at: Sequence[np.ndarray], problem: Any) -> np.ndarray:
    """A hash of a box of points, by their places along each axis and their bits: (1,) uint64."""
    x, y, z = np.ix_(*at)
    places = mixed((_numbers(problem, x, y, z).astype(np.uint64) + np.uint64(1)) * GOLDEN)
    return (
        mixed(places ^ np.ascontiguousarray(values).view(np.uint64)).reshape(-1).sum(keepdims=True)
    )


def _numbers(problem: Any, x: Vector, y: Vector, z: Vector) -> Vector:
    """The numbers of points in C order."""
    _, rows, columns = problem.size
    return (x * rows + y) * columns + z


def applied(points: int, around: Vector) -> Vector:
    """A u, where ``around`` is u with a layer of points more on all sides."""
    one = around[1:-1, 1:-1, 1:-1]
    if points == 7:
        inner = slice(1, -1)
        sides = [
            around[(inner,) * axis + (side,) + (inner,) * (2 - axis)]
            for axis in range(3)
            for side in (slice(None, -2), slice(2, None))
        ]
        return 6.0 * one - reduce(np.add, sides)  # from left to right
    lines = around[:-2] + around[1:-1] + around[2:]
    columns = lines[:, :-2] + lines[:, 1:-1] + lines[:, 2:]
    return 27.0 * one - (columns[..., :-2] + columns[..., 1:-1] + columns[..., 2:])


def exact_dot(a: Vector, b: Vector) -> float:
    """The dot product of finite numbers, computed by Python's integers and rounded once."""
    (m, e), (n, f) = np.frexp(a.reshape(-1)), np.frexp(b.reshape(-1))
    powers = e.astype(int) + f
    lowest = int(powers.min())
    total = sum(
        (x * y) << power
        for x, y, power in zip(
            (m * 2.0**53).astype(np.int64).tolist(),
            (n * 2.0**53).astype(np.int64).tolist(),
            (powers - lowest).tolist(),
            strict=True,
        )
    )
    scale = lowest - 106
    return total / (1 << -scale) if scale < 0 else float(total << scale)


def parts_of_dot(a: Vector, b: Vector) -> np.ndarray:
    """The dot product of finite numbers as integers that can be added in any order: (BINS,) int64.

    What belongs to 2^(n + LEAST) is added up in element n.
    """
    a, b = a.reshape(-1), b.reshape(-1)
    starts = range(0, a.size, AT_ONCE)
    return np.array(sum(_parts(a[n : n + AT_ONCE], b[n : n + AT_ONCE]) for n in starts))


def _parts(a: Vector, b: Vector) -> np.ndarray:
    """The parts of at most `AT_ONCE` products.

    Factors are cut into integers of 18 bits, so floats add up 2^14 sums of three products, of 38
    bits, without rounding.
    """
    (m, e), (n, f) = np.frexp(a), np.frexp(b)
    powers = e.astype(np.int64) + f - 108 - LEAST
    (x, y, z), (u, v, w) = _thirds(m), _thirds(n)
    products = z * w, y * w + z * v, x * w + y * v + z * u, x * v + y * u, x * u
    found = np.zeros(BINS, np.int64)
    for power, alike in zip(range(0, 90, 18), products, strict=True):
        sums = np.bincount(powers + power, alike, BINS)
        with np.errstate(invalid="ignore"):  # NaN gives some number, of which no dot is the sum
            found += sums.astype(np.int64)
    return found


def _thirds(mantissas: Vector) -> tuple[Vector, Vector, Vector]:
    """Mantissas in three parts of 18 bits, the highest first; only that may be negative."""
    high = np.floor(mantissas * 2.0**18)
    rest = (mantissas * 2.0**18 - high) * 2.0**18
    middle = np.floor(rest)
    return high, middle, (rest - middle) * 2.0**18


def sum_of_parts(parts: np.ndarray) -> float:
    """The sum of such integers, rounded once."""
    return _whole(parts, 1) / (1 << -LEAST)


def inexact(total: float, words: np.ndarray, parts: np.ndarray) -> bool:
    """Whether a dot product, or its accumulator before it was rounded, is not the sum of parts."""
    same = _whole(words[:DIGITS], DIGIT_BITS) << (LOWEST - LEAST) == _whole(parts, 1)
    return not same or total != sum_of_parts(parts)


def _whole(digits: np.ndarray, bits: int) -> int:
    """The integer with these digits, lowest first, of some bits each."""
    return sum(int(digits[n]) << (bits * n) for n in np.flatnonzero(digits).tolist())


def preconditioned(problem: Any, r: Vector, origin: Sequence[int] = (0, 0, 0)) -> Vector:
    """The preconditioned residual: r itself, or its points relaxed colour after colour.

    ``origin``: the place of the first point of ``r`` in the problem's box. Beyond ``r`` z stays 0.
    """
    if problem.preconditioner == "none":
        return r
    z = np.zeros([n + 2 for n in r.shape])
    colours = list(itertools.product((0, 1), repeat=3))
    for colour in colours + colours[-2::-1]:
        here = tuple(
            slice((one + low) % 2, None, 2) for one, low in zip(colour, origin, strict=True)
        )
        z[1:-1, 1:-1, 1:-1][here] = relaxed(problem.operator, z, r)[here]
    return z[1:-1, 1:-1, 1:-1]


def relaxed(points: int, z: Vector, r: Vector) -> Vector:
    """The value of each point that solves its equation, with the other points as they are."""
    spans = slice(None, -2), slice(1, -1), slice(2, None)

    def column(i: int, j: int) -> Vector:
        return z[spans[i], spans[j]]

    if points == 7:
        inner = spans[1]
        beside = column(0, 1) + column(2, 1) + column(1, 0) + column(1, 2)
        around = beside[..., inner] + z[inner, inner, :-2] + z[inner, inner, 2:]
        return (r + around) * (1.0 / 6.0)
    side = (column(0, 1) + column(2, 1)) + (column(1, 0) + column(1, 2))
    corners = (column(0, 0) + column(0, 2)) + (column(2, 0) + column(2, 2))
    side = side + corners
    whole = side + column(1, 1)
    return (r + (side[..., 1:-1] + (whole[..., :-2] + whole[..., 2:]))) * (1.0 / 26.0)


def quotient(a: float, b: float) -> float:
    """The quotient a / b; 0 if b is 0, when nothing is left to do."""
    return a / b if b else 0.0


def reference(problem: Any, steps: int) -> Vector:
    """The vector x after ``steps`` iterations, without blocks."""
    whole = tuple((-1, n + 1) for n in problem.size)
    b = applied(problem.operator, solution(problem, whole))
    return _pipelined(problem, b, steps) if problem.pipelined else _solved(problem, b, steps)


def _solved(problem: Any, b: Vector, steps: int) -> Vector:
    """Conjugate gradients (Saad 2003, Iterative Methods, algorithm 9.1)."""
    x, r, p, before = np.zeros_like(b), b, np.zeros_like(b), 0.0
    z, least = preconditioned(problem, r), problem.nothing_left(exact_dot(b, b))
    now = exact_dot(r, z)
    for _ in range(steps):
        p = z + quotient(now, before) * p
        q = applied(problem.operator, np.pad(p, 1))
        alpha = quotient(now, exact_dot(p, q))
        x, r = x + alpha * p, r - alpha * q
        z = preconditioned(problem, r)
        before, now = now, exact_dot(r, z)
        now = now if now > least else 0.0
    return x


def _pipelined(problem: Any, b: Vector, steps: int) -> Vector:
    """Pipelined conjugate gradients (Ghysels and Vanroose 2014, algorithm 3)."""
    x = p = s = z = np.zeros_like(b)
    r, w = b, applied(problem.operator, np.pad(b, 1))
    before = alpha = 0.0
    least = problem.nothing_left(exact_dot(b, b))
    for _ in range(steps):
        now, product = exact_dot(r, r), exact_dot(w, r)
        now = now if now > least else 0.0
        q = applied(problem.operator, np.pad(w, 1))
        beta = quotient(now, before)
        alpha = quotient(now, product - beta * quotient(now, alpha))
        s, p, z = w + beta * s, r + beta * p, q + beta * z
        x, r, w = x + alpha * p, r - alpha * s, w - alpha * z
        before = now
    return x
