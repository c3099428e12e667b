"""Exact sums and dot products of long arrays, added to an accumulator of `kernels.exact_sum`."""

from __future__ import annotations

from typing import Protocol

from miniapps.devices.backend import Array


class ExactSumKernels(Protocol):
    """What the modules `cpu` and `gpu` implement.

    ``words``: an accumulator, (WORDS,) int64, on the device. It is added to, and then normal: every
    digit but the highest is in [0, 2^32). So the same numbers give the same bits, in any order, on
    every device, and up to 2^30 normal accumulators can be added as arrays.
    """

    def add_sum(self, values: Array, words: Array) -> None:
        """Add the numbers, (n,) float64 or float32, contiguous."""

    def add_dot(self, a: Array, b: Array, words: Array) -> None:
        """Add the exact products a[i] b[i]; both are (n,) and float64, or float32, contiguous.

        inf times 0, as NaN times anything, counts as NaN. Raises ValueError for arrays of different
        lengths or types.
        """
