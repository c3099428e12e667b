"""The kernels of the matrix transpose of the Parallel Research Kernels.

An iteration makes B += A^T and then A += 1 (Van der Wijngaart and Mattson, The Parallel Research
Kernels, HPEC 2014). Columns are contiguous: ``a[j, i]`` is A(i, j), and a block has some columns of
A and the same columns of B, all rows. A block's part of B^T = A is in all blocks, so each block
sends every other one the rows of A that are columns there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from miniapps.devices.backend import Array

Columns = Mapping[Any, tuple[int, int]]  # by edge, the columns [low, high) of the block there


class TransposeKernels(Protocol):
    """The functions that blocks call; the modules `cpu` and `gpu` implement them.

    ``a``, ``b``: the block's columns, (columns, N) float64, C order, on the device. No function
    checks its arguments.
    """

    def take(self, a: Array, columns: Columns, messages: Mapping[Any, Array]) -> None:
        """Copy what other blocks need into their messages, and then add 1 to it.

        ``messages[edge]``, (columns, high - low): ``a[:, low:high]``.
        """

    def turn(self, a: Array, b: Array, low: int) -> None:
        """Do all for the block's own rows, of which ``low`` is the first: B += A^T, A += 1."""

    def add(self, b: Array, columns: Columns, came: Mapping[Any, Array]) -> None:
        """Add what came from other blocks: ``b[:, low:high] += came[edge].T``."""
