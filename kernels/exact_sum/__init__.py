"""Sums of floats that are exact in every order: numbers are added as integers, and rounded once.

An *accumulator* holds a sum as an integer in units of 2^`LOWEST`, in digits of 32 bits, each in an
int64: any number of `LEAST` bits or more, and any product of two, is such an integer. So adding is
exact, and two accumulators are added by adding their arrays. The format is Kulisch's long
accumulator with the spare bits of Neal (arXiv:1505.05571). Here are the functions for few
numbers; `kernels.exact_sum.cpu` and `gpu` add long arrays. docs/exact-sums.md has the proofs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

DIGIT_BITS = 32
DIGITS = 136
LOWEST = -2176  # the unit is 2^LOWEST; the least product of two float64 that are not 0 is 2^-2148
NAN, PLUS, MINUS = range(DIGITS, DIGITS + 3)  # words that count NaN, inf and -inf
WORDS = DIGITS + 3
BYTES = DIGITS * DIGIT_BITS // 8
LEAST = {8: -1074, 4: -149}  # by the size of a float in bytes: the least one is 2^LEAST
PRECISION = {8: 53, 4: 24}  # and how many bits it has
BEYOND = {8: 1024, 4: 128}  # and the least power of two that is too large is 2^BEYOND


def accumulator(*shape: int) -> np.ndarray:
    """Return accumulators of nothing: (*shape, WORDS) int64, all zero."""
    return np.zeros((*shape, WORDS), np.int64)


def is_accumulator(value: Any) -> bool:
    """Return whether a value is an array of accumulators: (..., WORDS) int64."""
    words = isinstance(value, np.ndarray) and value.dtype == np.int64
    return words and value.shape[-1:] == (WORDS,)


def accumulated(values: Any) -> np.ndarray:
    """Return each number as an accumulator of its own: (*shape, WORDS) int64.

    ``values``: float64 or float32, a number or a short array. Accumulators are returned as they
    are. Raises TypeError for others: sums of integers are exact without accumulators.
    """
    if is_accumulator(values):
        return values
    array = np.asarray(values)
    if array.dtype.kind != "f" or array.dtype.itemsize not in LEAST:
        kind = array.dtype
        raise TypeError(f"an exact sum is of float64, float32 or accumulators, not of {kind}")
    words = accumulator(array.size)
    for one, value in zip(words, array.astype(np.float64).ravel().tolist(), strict=True):
        if value - value == 0:
            numerator, denominator = value.as_integer_ratio()  # a power of two
            whole = (numerator << -LOWEST) // denominator
            one[:DIGITS] = np.frombuffer(whole.to_bytes(BYTES, "little", signed=True), "<u4")
            one[DIGITS - 1] = -(value < 0)  # all bits of the last digit are the sign
        else:
            one[NAN if value != value else PLUS if value > 0 else MINUS] = 1
    return words.reshape(*array.shape, WORDS)


def rounded(words: np.ndarray, dtype: Any = np.float64) -> Any:
    """Return the sums in accumulators (..., WORDS) as floats (...), rounded to nearest, even.

    NaN if any addend was NaN, or if both inf and -inf were; inf or -inf if one of them was, or if
    the sum is too large; 0.0, never -0.0, if the sum is zero. ``dtype``: float64 or float32; a sum
    is rounded to it once.
    """
    kind = np.dtype(dtype)
    found = [_rounded(one, kind.itemsize) for one in words.reshape(-1, WORDS)]
    return np.array(found, kind).reshape(words.shape[:-1])[()]


def _rounded(words: np.ndarray, size: int) -> float:
    """The sum in one accumulator, as a float of some bytes."""
    if words[NAN] or (words[PLUS] and words[MINUS]):
        return math.nan
    if words[PLUS] or words[MINUS]:
        return math.inf if words[PLUS] else -math.inf
    whole = exact(words)
    magnitude = abs(whole)
    spare = max(magnitude.bit_length() - PRECISION[size], LEAST[size] - LOWEST)
    kept = magnitude >> spare
    rest, half = magnitude - (kept << spare), 1 << (spare - 1)
    kept += rest > half or (rest == half and kept & 1)
    power = spare + LOWEST
    too_large = kept.bit_length() + power > BEYOND[size]
    found = math.inf if too_large else math.ldexp(kept, power)
    return -found if whole < 0 else found


def exact(words: np.ndarray) -> int:
    """Return the finite sum in an accumulator (WORDS,) as an integer, in units of 2^LOWEST."""
    digits = words[:DIGITS]
    return sum(int(digits[k]) << (DIGIT_BITS * k) for k in np.flatnonzero(digits).tolist())


def require_alike(a: Any, b: Any) -> None:
    """Raise ValueError unless two arrays have one length and type, as those of a dot product do."""
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"a dot of {a.shape} {a.dtype} and {b.shape} {b.dtype}: must be alike")
