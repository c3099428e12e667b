"""Sorting the particles of PIC by column, on the GPU; `push` describes the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.cuda.compiler import cuda, inlined, kernel
from devices.cuda.primitives import _clear, _copy, _grid, _thread, scan

RUN = 16  # neighbouring particles that a thread of the sort takes


@inlined
def _run_end(n, count, x, column):  # type: ignore[no-untyped-def]
    """Behind the last of the particles from ``n`` on that are in the same column."""
    n += np.uint64(1)
    while n < count and np.uint32(x[n]) == column:
        n += np.uint64(1)
    return n


@kernel("void(uint64, float64[::1], uint32, int64[::1])")
def _count_by_column(count, x, x0, starts):  # type: ignore[no-untyped-def]
    n = np.uint64(RUN) * _thread()
    end = min(n + np.uint64(RUN), count)
    while n < end:
        column, begin = np.uint32(x[n]), n
        n = _run_end(n, end, x, column)
        cuda.atomic.add(starts, column - x0, np.int64(n - begin))


@kernel("void(uint64, float64[::1], uint32, int64[::1], int32[::1])")
def _choose_places(count, x, x0, starts, places):  # type: ignore[no-untyped-def]
    n = np.uint64(RUN) * _thread()
    end = min(n + np.uint64(RUN), count)
    while n < end:
        column, begin = np.uint32(x[n]), n
        n = _run_end(n, end, x, column)
        place = cuda.atomic.add(starts, column - x0, np.int64(n - begin))
        while begin < n:
            places[begin] = place
            begin += np.uint64(1)
            place += 1


def places_by_column(count: int, x: Any, x0: float, starts: Any, places: Any) -> None:
    """Where each particle goes so that they lie column by column: ``places`` (count,).

    ``starts`` (width + 1,) is work space. Neighbours that are in one column are handed out places
    together, in a run, so that most atomics fall away and most neighbours remain neighbours.
    """
    columns, stream, corner = starts.shape[0], x.stream, int(x0)
    if not count:
        return
    _clear[*_grid(columns), stream](starts, columns)
    launch = *_grid(-(-count // RUN)), stream
    _count_by_column[launch](count, x, corner, starts)
    scan(starts)
    _choose_places[launch](count, x, corner, starts, places)


@kernel("void(uint64, int32[::1], uint64[::1], uint64[::1])")
def _scatter(count, places, values, moved):  # type: ignore[no-untyped-def]
    n = _thread()
    if n < count:
        moved[np.uint32(places[n])] = values[n]


def reorder(count: int, places: Any, spare: Any, arrays: tuple[Any, ...]) -> None:
    """Put each of ``count`` particles into its place, one array after another."""
    if count:
        launch = *_grid(count), spare.stream
        for array in arrays:
            values = array.view(np.uint64)
            _scatter[launch](count, places, values, spare)
            _copy[launch](count, spare, values)
