"""The Fourier transform in pencils on the CPU; `kernels.pencils` says what is computed.

A transform of n points takes about 5 n log2 n flops, and reads and writes 16 bytes a point where a
line fits into a cache. `cut`, `forward` and `backward` read 16 bytes a point and write 32, because
a cache line is read before. The last two transpose, in squares that go through a buffer in L1, as
in `kernels.transpose.cpu`.
"""

from __future__ import annotations

import numpy as np
import scipy.fft
from numba import complex128, int64, uint64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, OPTIONS, njit
from miniapps.devices.cpu.prefetch import prefetch

LINES, FLAT = complex128[:, :, ::1], complex128[::1]
TURNING = void(LINES, int64, int64, LINES, int64)
FREE = OPTIONS | DISTINCT
SIDE, PADDED = 32, 33  # of a square, and of a line of the buffer
IN_LINE = np.uint64(4)  # numbers of a cache line


def transform(lines: Array, back: bool) -> Array:
    """See `kernels.pencils`."""
    change = scipy.fft.ifft if back else scipy.fft.fft
    return change(lines, axis=-1, overwrite_x=True, workers=1)


@njit(void(LINES, int64, LINES), **FREE)
def cut(lines, low, message):
    """Go line after line."""
    for a in range(message.shape[0]):
        for b in range(message.shape[1]):
            for c in range(message.shape[2]):
                message[a, b, c] = lines[a, b, low + c]


@njit(void(FLAT, uint64, uint64, uint64, uint64, FLAT, uint64, uint64), **FREE)
def _turn(part, begin, row, rows, wide, lines, there, to):
    """Copy the transpose of an array of rows.

    Row j of ``wide`` numbers begins at ``begin + j row``; number r of it goes to
    ``there + r to + j``.
    """
    square = np.empty(SIDE * PADDED, np.complex128)
    side, padded, zero = np.uint64(SIDE), np.uint64(PADDED), np.uint64(0)
    for r in range(zero, wide, side):
        some = min(side, wide - r)
        for j in range(zero, rows, side):
            few = min(side, rows - j)
            for m in range(few):
                at = begin + (j + m) * row + r
                for n in range(zero, some, IN_LINE):
                    prefetch(part, at + side * row + n)
                for n in range(some):
                    square[n * padded + m] = part[at + n]
            for n in range(some):
                at = there + (r + n) * to + j
                for m in range(few):
                    lines[at + m] = square[n * padded + m]


@njit(void(FLAT, *(uint64,) * 6, FLAT, *(uint64,) * 3), **FREE)
def _turn_each(part, begin, onward, count, row, rows, wide, lines, there, on, to):
    """Do so with ``count`` arrays, which begin ``onward`` apart, and go to places ``on`` apart."""
    for _ in range(count):
        _turn(part, begin, row, rows, wide, lines, there, to)
        begin += onward
        there += on


@njit(TURNING, **FREE)
def forward(part, low, high, lines, at):
    """Transpose each plane of part."""
    flat, new, length = part.reshape(part.size), lines.reshape(lines.size), lines.shape[2]
    planes, rows, row = part.shape
    of_a_plane = low, rows * row, planes, row, rows, high - low
    _turn_each(flat, *of_a_plane, new, at, length, planes * length)


@njit(TURNING, **FREE)
def backward(part, low, high, lines, at):
    """Transpose what is across the planes."""
    flat, new, length = part.reshape(part.size), lines.reshape(lines.size), lines.shape[2]
    planes, rows, row = part.shape
    across = low, row, rows, rows * row, planes, high - low
    _turn_each(flat, *across, new, at, lines.shape[1] * length, length)
