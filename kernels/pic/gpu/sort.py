"""Sorting the particles of PIC by column on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import blocks, cuda, inlined, kernel
from miniapps.devices.cuda.memory import address
from miniapps.devices.cuda.primitives import (
    CHUNK,
    SCANNERS,
    copy,
    fill,
    launch,
    scan,
    scan_here,
    thread_index,
)
from miniapps.devices.cuda.tasks import TABLE, WORDS, launch_each_for_all, task_here
from miniapps.kernels.pic.gpu.tables import floats_at, numbers_at, places_at, words_at, words_of
from miniapps.kernels.pic.interface import Particles

RUN = 16  # neighbouring particles that a thread of the sort takes
COUNT, PLACES, X, X0, STARTS, STARTS_SIZE = range(WORDS, WORDS + 6)  # of a task, to find places
SPARE, VALUES = range(WORDS + 2, WORDS + 4)  # of a task, to move particles


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


@inlined
def _count_run(count, x, x0, starts):  # type: ignore[no-untyped-def]
    """Count this thread's particles of a block by column."""
    n = np.uint64(RUN) * thread_index()
    end = min(n + np.uint64(RUN), count)
    while n < end:
        column, begin = np.uint32(x[n]), n
        n = _run_end(n, end, x, column)
        cuda.atomic.add(starts, _own(column, x0, starts), np.int64(n - begin))


@kernel("void(uint64, float64[::1], uint32, int64[::1])")
def _count_by_column(count, x, x0, starts):  # type: ignore[no-untyped-def]
    _count_run(count, x, x0, starts)


@inlined
def _choose_for_run(count, x, x0, starts, places):  # type: ignore[no-untyped-def]
    """Choose the places of this thread's particles of a block."""
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


@kernel("void(uint64, float64[::1], uint32, int64[::1], int32[::1])")
def _choose_places(count, x, x0, starts, places):  # type: ignore[no-untyped-def]
    _choose_for_run(count, x, x0, starts, places)


@kernel(f"void({TABLE})")
def _zero_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    n = thread_index()
    if mine and n < tasks[at, STARTS_SIZE]:
        starts = numbers_at(np.int64(tasks[at, STARTS]), np.int64(tasks[at, STARTS_SIZE]))
        starts[n] = 0


@kernel(f"void({TABLE})")
def _count_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        x = floats_at(np.int64(tasks[at, X]), np.int64(tasks[at, COUNT]))
        starts = numbers_at(np.int64(tasks[at, STARTS]), np.int64(tasks[at, STARTS_SIZE]))
        _count_run(tasks[at, COUNT], x, np.uint32(tasks[at, X0]), starts)


@kernel(f"void({TABLE})")
def _scan_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        starts = numbers_at(np.int64(tasks[at, STARTS]), np.int64(tasks[at, STARTS_SIZE]))
        scan_here(starts.size, starts)


@kernel(f"void({TABLE})")
def _choose_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        x = floats_at(np.int64(tasks[at, X]), np.int64(tasks[at, COUNT]))
        starts = numbers_at(np.int64(tasks[at, STARTS]), np.int64(tasks[at, STARTS_SIZE]))
        places = places_at(np.int64(tasks[at, PLACES]), np.int64(tasks[at, COUNT]))
        _choose_for_run(tasks[at, COUNT], x, np.uint32(tasks[at, X0]), starts, places)


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


@inlined
def _scatter_one(count, places, values, moved):  # type: ignore[no-untyped-def]
    """Move the number of this thread's particle of a block."""
    n = thread_index()
    if n < count:
        moved[np.uint32(places[n])] = values[n]


@kernel("void(uint64, int32[::1], uint64[::1], uint64[::1])")
def _scatter(count, places, values, moved):  # type: ignore[no-untyped-def]
    _scatter_one(count, places, values, moved)


@kernel(f"void({TABLE})")
def _scatter_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        size = np.int64(tasks[at, COUNT])
        places = places_at(np.int64(tasks[at, PLACES]), size)
        values = words_at(np.int64(tasks[at, VALUES]), size)
        moved = words_at(np.int64(tasks[at, SPARE]), size)
        _scatter_one(tasks[at, COUNT], places, values, moved)


@kernel(f"void({TABLE})")
def _copy_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    n = thread_index()
    if mine and n < tasks[at, COUNT]:
        values = words_at(np.int64(tasks[at, VALUES]), np.int64(tasks[at, COUNT]))
        moved = words_at(np.int64(tasks[at, SPARE]), np.int64(tasks[at, COUNT]))
        values[n] = moved[n]


def reorder(count: int, places: Array, spare: Array, arrays: Particles) -> None:
    """Scatter each array into ``spare`` and copy it back."""
    if count:
        where = launch(count, spare.stream)
        for array in arrays:
            values = array.view(np.uint64)
            _scatter[where](count, places, values, spare)
            copy(count, spare, values, spare.stream)


def sort_all(tasks: Sequence[tuple[Any, ...]]) -> None:
    """Sort the particles of many blocks in one stream, by as many launches as of one block.

    Tasks are (count, x, x0, starts, places, spare, arrays), the arguments of `places_by_column` and
    `reorder`. More columns than one thread block scans are sorted by themselves.
    """
    few: list[Any] = []
    for task in tasks:
        if task[0] and task[3].size <= CHUNK * SCANNERS:
            few.append(task)
        else:
            _sort(*task)
    if len(few) == 1:
        _sort(*few[0])
    elif few:
        _sort_few_columns(few)


def _sort(count: int, *work: Any) -> None:
    """Do `sort_all` for one block."""
    places_by_column(count, *work[:4])
    reorder(count, *work[3:])


def _sort_few_columns(tasks: Sequence[tuple[Any, ...]]) -> None:
    """Do `sort_all` for blocks whose columns one thread block scans."""
    words = [
        (count, address(places), address(x), int(x0), *words_of(starts))
        for count, x, x0, starts, places, *_ in tasks
    ]
    columns = [task[3].size for task in tasks]
    runs = list(zip([blocks(task[0], RUN) for task in tasks], words, strict=True))
    moves: list[Any] = []
    for arrays in zip(*[task[-1] for task in tasks], strict=True):
        rows = [
            (count, (count, address(places), address(spare), address(array)))
            for (count, *_, places, spare, _), array in zip(tasks, arrays, strict=True)
        ]
        moves.append(([_scatter_all, _copy_all], rows))
    launch_each_for_all(
        tasks[0][1].stream,
        ([_zero_all], list(zip(columns, words, strict=True))),
        ([_count_all], runs),
        ([_scan_all], [(blocks(n, CHUNK), own) for n, own in zip(columns, words, strict=True)]),
        ([_choose_all], runs),
        *moves,
    )
