"""Sorting the particles of PIC by column on the GPU."""

from __future__ import annotations

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import cuda, inlined, kernel
from miniapps.devices.cuda.primitives import copy, fill, launch, scan, thread_index
from miniapps.kernels.pic.interface import Particles

RUN = 16  # neighbouring particles that a thread of the sort takes


@inlined
def _run_end(n, count, x, column):  # type: ignore[no-untyped-def]
    """Return the end of the run of particles from ``n`` on that are in one column."""
    n += np.uint64(1)
    while n < count and np.uint32(x[n]) == column:
        n += np.uint64(1)
    return n


@inlined
def _own(column, x0, starts):  # type: ignore[no-untyped-def]
    """Return a column of the block; of a particle that is lost, the last one."""
    return min(np.uint32(column - x0), np.uint32(starts.size - 2))


@kernel("void(uint64, float64[::1], uint32, int64[::1])")
def _count_by_column(count, x, x0, starts):  # type: ignore[no-untyped-def]
    n = np.uint64(RUN) * thread_index()
    end = min(n + np.uint64(RUN), count)
    while n < end:
        column, begin = np.uint32(x[n]), n
        n = _run_end(n, end, x, column)
        cuda.atomic.add(starts, _own(column, x0, starts), np.int64(n - begin))


@kernel("void(uint64, float64[::1], uint32, int64[::1], int32[::1])")
def _choose_places(count, x, x0, starts, places):  # type: ignore[no-untyped-def]
    n = np.uint64(RUN) * thread_index()
    end = min(n + np.uint64(RUN), count)
    while n < end:
        column, begin = np.uint32(x[n]), n
        n = _run_end(n, end, x, column)
        place = cuda.atomic.add(starts, _own(column, x0, starts), np.int64(n - begin))
        while begin < n:
            places[begin] = place
            begin += np.uint64(1)
            place += 1


def places_by_column(count: int, x: Array, x0: float, starts: Array, places: Array) -> None:
    """Count by column, scan, and hand out places by atomics.

    Consecutive particles of one column get consecutive places by one atomic: this saves most
    atomics, and most neighbours stay neighbours.
    """
    corner = int(x0)
    if not count:
        return
    fill(starts.size, starts, 0)
    where = launch(-(-count // RUN), x.stream)
    _count_by_column[where](count, x, corner, starts)
    scan(starts)
    _choose_places[where](count, x, corner, starts, places)


@kernel("void(uint64, int32[::1], uint64[::1], uint64[::1])")
def _scatter(count, places, values, moved):  # type: ignore[no-untyped-def]
    n = thread_index()
    if n < count:
        moved[np.uint32(places[n])] = values[n]


def reorder(count: int, places: Array, spare: Array, arrays: Particles) -> None:
    """Scatter each array into ``spare`` and copy it back."""
    if count:
        where = launch(count, spare.stream)
        for array in arrays:
            values = array.view(np.uint64)
            _scatter[where](count, places, values, spare)
            copy(count, spare, values, spare.stream)
