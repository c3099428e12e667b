"""Transposes and transforms of whole arrays, for references, checks and audits, in plain NumPy.

It shares no code with blocks and kernels: neither the start, nor the exchange, nor the transform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miniapps.contract import Piece
from miniapps.decomposition import Bounds
from miniapps.plain_hash import uniform

LEAST_HALF = 128  # terms of a sum that are added one after the other


def matrices(problem: Any, steps: int) -> list[Piece]:
    """A and B after some steps, by making them; ``[j, i]`` is row i of column j."""
    (n,) = problem.size
    a = np.arange(n * n, dtype=float).reshape(n, n)
    b = np.zeros((n, n))
    for _ in range(steps):
        b += a.T
        a += 1
    return [Piece(name, values, (0, 0), (n, n)) for name, values in (("a", a), ("b", b))]


def field(problem: Any, numbers: np.ndarray) -> np.ndarray:
    """The field at step 0 at the points with these numbers, in C order: complex128."""
    real, imaginary = (uniform(2 * numbers + part) - 0.5 for part in (0, 1))
    return real + 1j * imaginary


def transformed(problem: Any, steps: int) -> list[Piece]:
    """The field after some steps, along z, y and x, and back; and the last spectrum.

    NumPy has the same algorithm as SciPy, which the kernel calls, but transforms line by line.
    """
    values = field(problem, np.arange(int(problem.points))).reshape(problem.size)
    spectrum = np.zeros_like(values)
    for _ in range(steps):
        for axis in (2, 1, 0):
            values = np.fft.fft(values, axis=axis)
        spectrum = values
        for axis in (0, 1, 2):
            values = np.fft.ifft(values, axis=axis)
    return [
        Piece(of + name, part, (0, 0, 0), problem.size)
        for of, numbers in (("", values), ("spectrum ", spectrum))
        for name, part in (("imaginary", numbers.imag), ("real", numbers.real))
    ]


def sum_of(wave: Sequence[int], bounds: Bounds, size: Sequence[int], values: np.ndarray) -> complex:
    """The part of the points in a box in one number of the spectrum, by its definition."""
    for k, (low, high), n in zip(reversed(wave), reversed(bounds), reversed(size), strict=True):
        angles = np.arange(low, high) * k % n  # exact, so that large ones lose no digits
        values = product(values, np.exp(-2j * np.pi * angles / n))
    return complex(values)


def product(values: np.ndarray, factors: np.ndarray) -> Any:
    """A sum of products along the last axis, by halves: rounding errors hardly grow with length."""
    half = len(factors) // 2
    if half < LEAST_HALF:
        return values @ factors
    low, high = product(values[..., :half], factors[:half]), values[..., half:]
    return low + product(high, factors[half:])
