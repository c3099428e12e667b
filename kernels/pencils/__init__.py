"""The kernels of a Fourier transform in pencils, on the CPU only.

A pencil has all points along one axis, the last one in memory, so that lines are contiguous:
(a, b, n) complex128, C order. Between two transforms along different axes each block gets, from
every block of its row or column of blocks, the part of their lines that belongs to its own.
"""

from __future__ import annotations

from typing import Protocol

from miniapps.devices.backend import Array


class PencilKernels(Protocol):
    """The functions that blocks call. All arrays are contiguous; none is checked."""

    def transform(self, lines: Array, back: bool) -> Array:
        """Replace every line by its discrete Fourier transform, or by the inverse one.

        X[k] = sum of x[n] exp(-2 pi i k n / N); back: x[n] = sum of X[k] exp(2 pi i k n / N) / N.
        The bits of a line depend on nothing but its numbers. Returns the lines, which may be in
        another array; then ``lines`` has arbitrary numbers.
        """

    def cut(self, lines: Array, low: int, message: Array) -> None:
        """Copy a part of each line into a message: ``lines[:, :, low:high]``."""

    def forward(self, part: Array, low: int, high: int, lines: Array, at: int) -> None:
        """Put ``part[a, b, low + c]`` where the next axis is last: ``lines[c, a, at + b]``.

        ``part``: what came, with all of its points, or the block's own lines, with some.
        """

    def backward(self, part: Array, low: int, high: int, lines: Array, at: int) -> None:
        """Put ``part[a, b, low + c]`` where the axis before is last: ``lines[b, c, at + a]``."""
