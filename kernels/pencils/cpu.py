"""The Fourier transform in pencils on the CPU; `kernels.pencils` says what is computed.

A transform of n points takes about 5 n log2 n flops, and reads and writes 16 bytes a point where a
line fits into a cache. `cut`, `forward` and `backward` read 16 bytes a point, and write 32, because
a cache line is read before. The last two go along lines that they write, a few lines at a time.

pocketfft, which SciPy has, transforms several lines at once in vector registers.
"""

from __future__ import annotations

from typing import Any

import scipy.fft
from numba import complex128, int64, void

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, njit

LINES = complex128[:, :, ::1]
TURNING = void(LINES, int64, int64, LINES, int64)
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", **DISTINCT}
WIDE = 4  # numbers of a cache line


def transform(lines: Array, back: bool) -> Array:
    """See `kernels.pencils`."""
    change = scipy.fft.ifft if back else scipy.fft.fft
    return change(lines, axis=-1, overwrite_x=True, workers=1)


@njit(void(LINES, int64, LINES), **OPTIONS)
def cut(lines, low, message):
    """Go line after line."""
    for a in range(message.shape[0]):
        for b in range(message.shape[1]):
            for c in range(message.shape[2]):
                message[a, b, c] = lines[a, b, low + c]


@njit(TURNING, **OPTIONS)
def forward(part, low, high, lines, at):
    """Write a few lines at a time, so that each cache line that is read is used whole."""
    for first in range(low, high, WIDE):
        for a in range(part.shape[0]):
            for c in range(first, min(first + WIDE, high)):
                for b in range(part.shape[1]):
                    lines[c - low, a, at + b] = part[a, b, c]


@njit(TURNING, **OPTIONS)
def backward(part, low, high, lines, at):
    """Do the same."""
    for b in range(part.shape[1]):
        for first in range(low, high, WIDE):
            for c in range(first, min(first + WIDE, high)):
                for a in range(part.shape[0]):
                    lines[b, c - low, at + a] = part[a, b, c]
