"""Reciprocals and square roots as GPU kernels compute them, for numbers and estimates of all kinds.

``benchmarks/gpu/unbranched.py`` tries 10^9 numbers, `test_unbranched.py` some. All is computed on
the CPU by the same operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miniapps.devices.cpu.compiler import vectorize

APART = 2  # units of 2^-20 by which an estimate may differ from the right one
MANTISSA = (1 << 52) - 1
ONE = np.uint64(1023 << 52)
ONE_IN_SINGLE = np.int32(127 << 23)
UPPER = np.int64(-1 << 32)  # the bits of an estimate that are not zero


def drawn(seed: int, count: int) -> np.ndarray:
    """Return numbers from 2^-30 to 2^30 with any mantissa."""
    rng = np.random.default_rng(seed)
    mantissas = rng.integers(0, MANTISSA, count, np.uint64, endpoint=True)
    return np.ldexp((ONE | mantissas).view(np.float64), rng.integers(-30, 30, count, np.int32))


def special() -> np.ndarray:
    """Return numbers near powers of two, from above and below, and odd integers."""
    few = np.arange(1 << 16, dtype=np.uint64)
    near = np.concatenate([ONE | few, ONE | (np.uint64(MANTISSA) - few)]).view(np.float64)
    return np.concatenate([near, near / 8, 2.0 * np.arange(1 << 16) + 1])


def wrong_reciprocals(refined: Any, numbers: np.ndarray) -> int:
    """Return for how many numbers ``refined(a, estimate)`` has other bits than 1 / a.

    The lowest bit of an estimate is set, and it is not below the power of two that is below the
    reciprocal.
    """
    least = np.ldexp(1.0, -np.frexp(numbers)[1])

    def raised(estimate: np.ndarray) -> np.ndarray:
        return (np.maximum(estimate, least).view(np.int64) | 1).view(np.float64)

    return _wrong(refined, numbers, 1.0 / numbers, 1.0 / numbers, raised)


def wrong_roots(refined: Any, numbers: np.ndarray) -> int:
    """Return for how many numbers ``refined(a, estimate)`` has other bits than their root."""
    right = np.sqrt(numbers)
    return _wrong(refined, numbers, right, 1.0 / right, np.copy)


def wrong_in_single(refined: Any) -> int:
    """Return for how many float32 from 1 to 2 ``refined(a, estimate)`` has other bits than 1 / a.

    An estimate is wrong by one unit in the last place at most, and not too small where all bits of
    the mantissa are ones.
    """
    refined = vectorize(["float32(float32, float32)"])(refined)
    numbers = (np.arange(1 << 23, dtype=np.int32) | ONE_IN_SINGLE).view(np.float32)
    right, exact = np.float32(1.0) / numbers, 1.0 / numbers.astype(np.float64)
    differs = np.zeros(numbers.shape, bool)
    for units in (-1, 0, 1):
        estimate = (right.view(np.int32) + np.int32(units)).view(np.float32)
        given = np.abs(estimate - exact) <= 2.0**-24
        given[-1] &= units >= 0
        differs |= given & (refined(numbers, estimate) != right)
    return int(np.count_nonzero(differs))


def _wrong(
    refined: Any, numbers: np.ndarray, right: np.ndarray, inverse: np.ndarray,
    raised: Callable[[np.ndarray], np.ndarray],
) -> int:  # fmt: skip
    """Begin from every estimate of ``inverse`` that a GPU might give."""
    refined = vectorize(["float64(float64, float64)"])(refined)
    differs = np.zeros(numbers.shape, bool)
    for units in range(-APART, APART + 1):
        estimate = ((inverse.view(np.int64) & UPPER) + (units << 32)).view(np.float64)
        differs |= refined(numbers, raised(estimate)) != right
    return int(np.count_nonzero(differs))
