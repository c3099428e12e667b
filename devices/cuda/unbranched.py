"""Division and square root in kernels for a GPU, with the same bits, but without branches.

The compiler's own begin by the same steps, but then test whether the number was one for which they
do not suffice. A kernel whose numbers are neither tiny nor huge can leave that out, and becomes a
quarter shorter. Of a number that is not between 2^-1000 and 2^1000 the results are undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miniapps.devices.cuda.compiler import (
    bits,
    estimate,
    estimate_in_single,
    estimate_of_root,
    fma,
    from_bits,
    inlined,
)

Refined = Callable[[float, float], float]


def refining(fma: Any) -> Refined:
    """Return the function that refines the estimate of a reciprocal, by a given ``fma``."""

    def refined(a, estimate):  # type: ignore[no-untyped-def]
        """Return 1 / a rounded as a division does, given it to about 20 bits.

        The first step leaves an error of about half a unit in the last place, from which Newton's
        step gives the rounded result, unless all bits of a's mantissa are ones (Markstein, IBM J.
        Res. Dev. 34 (1990) 111). Then the first result must be rounded up, so the estimate must be
        too large. Two of Newton's steps would leave more after the first, and give other bits for
        some numbers.
        """
        error = fma(-a, estimate, 1.0)
        near = fma(fma(error, error, error), estimate, estimate)
        return fma(fma(-a, near, 1.0), near, near)

    return refined


def refining_in_single(fma: Any) -> Refined:
    """Return the function that refines the estimate of the reciprocal of a float32."""

    def refined(a, estimate):  # type: ignore[no-untyped-def]
        """Return 1 / a rounded, given it to one unit in the last place.

        These are the compiler's own operations after the same estimate. If all bits of a's mantissa
        are ones, it must not be too small; the compiler's code relies on that, too.
        """
        return fma(fma(-a, estimate, np.float32(1.0)), estimate, estimate)

    return refined


def refining_root(fma: Any) -> Refined:
    """Return the function that makes a square root of the estimate of its reciprocal."""

    def refined(a, estimate):  # type: ignore[no-untyped-def]
        """Return the rounded square root of ``a``, given 1 / root to about 20 bits.

        The first step has three terms of the series, which suffice for all but the last rounding.
        """
        error = fma(-a, estimate * estimate, 1.0)
        inverse = fma(estimate * error, fma(0.375, error, 0.5), estimate)
        near = a * inverse
        return fma(fma(-near, near, a), 0.5 * inverse, near)

    return refined


refined_reciprocal, refined_root = inlined(refining(fma)), inlined(refining_root(fma))
refined_in_single = inlined(refining_in_single(fma))


@inlined
def reciprocal(a):  # type: ignore[no-untyped-def]
    """Return 1 / a."""
    return refined_reciprocal(a, from_bits(bits(estimate(a)) | 1))


@inlined
def reciprocal_in_single(a):  # type: ignore[no-untyped-def]
    """Return 1 / a of a float32 that is neither tiny (below 2^-126) nor huge (above 2^125)."""
    return refined_in_single(a, estimate_in_single(a))


@inlined
def root(a):  # type: ignore[no-untyped-def]
    """Return the square root of ``a``."""
    return refined_root(a, estimate_of_root(a))
