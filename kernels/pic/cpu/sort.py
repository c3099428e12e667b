"""Sorting the particles of PIC by column, on the CPU; `push` describes the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.cpu.compiler import njit


@njit("void(int64, float64[::1], float64, int64[::1], int32[::1])", cache=True)
def places_by_column(count, x, x0, starts, places):
    """Where each particle goes so that they lie column by column: ``places`` (count,).

    ``starts`` (width + 1,) is work space. A counting sort; it keeps the order within a column.
    """
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
    """Put each of ``count`` values into its place."""
    for n in range(count):
        moved[places[n]] = values[n]


def reorder(count: int, places: Any, spare: Any, arrays: tuple[Any, ...]) -> None:
    """Put each of ``count`` particles into its place, one array after another."""
    for array in arrays:
        values = array.view(np.uint64)
        _scatter(count, places, values, spare)
        values[:count] = spare[:count]
