"""Sorting the particles of PIC by column on the CPU."""

from __future__ import annotations

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import njit
from miniapps.kernels.pic.interface import Particles


@njit("void(int64, float64[::1], float64, int64[::1], int32[::1])", cache=True)
def places_by_column(count, x, x0, starts, places):
    """A counting sort, which keeps the order within a column."""
    starts[:] = 0
    for n in range(count):
        starts[np.int64(x[n] - x0) + 1] += 1
    for column in range(1, starts.size):
        starts[column] += starts[column - 1]
    for n in range(count):
        mine = np.int64(x[n] - x0)
        places[n] = starts[mine]
        starts[mine] += 1


@njit("void(int64, int32[::1], uint64[::1], uint64[::1])", cache=True)
def _scatter(count, places, values, moved):
    """Write each of ``count`` values to its place."""
    for n in range(count):
        moved[places[n]] = values[n]


def reorder(count: int, places: Array, spare: Array, arrays: Particles) -> None:
    """Scatter each array into ``spare`` and copy it back."""
    for array in arrays:
        values = array.view(np.uint64)
        _scatter(count, places, values, spare)
        values[:count] = spare[:count]
