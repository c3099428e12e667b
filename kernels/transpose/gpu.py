"""The matrix transpose on the GPU, with the bits of the CPU; see `kernels.transpose.interface`.

A thread block of 32 x 8 threads turns a square of 32 x 32 elements in shared memory: each warp
reads rows of the source, and writes rows of its transpose, whole cache lines both. A row in shared
memory has one element more, so that those of a column lie in different banks.

Cost from memory, in bytes an element: `take` 24, `add` 24, `turn` 32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import blocks, cuda, inlined, kernel, viewer
from miniapps.devices.cuda.launches import Launch, Tasks, repeated
from miniapps.devices.cuda.memory import address, flat
from miniapps.devices.cuda.tasks import TABLE, WORDS, launch_for_all, task_among_many
from miniapps.kernels.transpose.interface import Columns

SIDE, HIGH = 32, 8  # of a square; rows of threads
ROW = SIDE + 1  # of a square in shared memory
SQUARE = SIDE * ROW
VECTOR = "float64[::1]"
# Of a task, in its row: its arrays, and the numbers of `_take` and `_add`.
SIZE, SOURCE, ROOM, TARGET, BEGIN, PITCH, ROWS, WIDTH, THERE, MORE, TO = range(WORDS, WORDS + 11)


@kernel(f"void({VECTOR}, uint64, uint64, uint64, uint64, {VECTOR}, uint64)")
def _take(a, begin, row, high, wide, message, start):  # type: ignore[no-untyped-def]
    """Copy ``wide`` numbers of each of ``high`` columns to a message, and add 1 to them."""
    r = np.uint64(cuda.blockIdx.x) * np.uint64(SIDE) + np.uint64(cuda.threadIdx.x)
    j = np.uint64(cuda.blockIdx.y) * np.uint64(HIGH) + np.uint64(cuda.threadIdx.y)
    if r < wide and j < high:
        at = begin + j * row + r
        message[start + j * wide + r] = a[at]
        a[at] = a[at] + 1.0


@kernel(
    f"void({VECTOR}, uint64, uint64, uint64, uint64, uint64, {VECTOR}, {VECTOR}, uint64, uint64)"
)
def _add(source, begin, row, high, wide, more, own, b, there, to):  # type: ignore[no-untyped-def]
    """Add the transpose of ``high`` rows of ``wide`` numbers to b; ``more``: add 1 to them, too.

    Then the source is ``own``: so it is visible that messages, which others may read, are not
    written.
    """
    square = cuda.shared.array(SQUARE, "float64")
    x, y = np.uint64(cuda.threadIdx.x), np.uint64(cuda.threadIdx.y)
    side, step = np.uint64(SIDE), np.uint64(HIGH)
    first_r, first_j = np.uint64(cuda.blockIdx.x) * side, np.uint64(cuda.blockIdx.y) * side
    n = y
    while n < side:
        r, j = first_r + x, first_j + n
        if r < wide and j < high:
            at = begin + j * row + r
            square[n * np.uint64(ROW) + x] = source[at]
            if more > np.uint64(0):
                own[at] = source[at] + 1.0
        n += step
    cuda.syncthreads()
    n = y
    while n < side:
        r, j = first_r + n, first_j + x
        if r < wide and j < high:
            at = there + r * to + j
            b[at] = b[at] + square[x * np.uint64(ROW) + n]
        n += step


# Many at once ------------------------------------------------------------------------------------


_taking, _adding, _vector = inlined(_take.function), inlined(_add.function), viewer("float64")


@inlined
def _vectors(at, tasks):  # type: ignore[no-untyped-def]
    """Return the source and the target of a task."""
    source = _vector(np.int64(tasks[at, SOURCE]), np.int64(tasks[at, SIZE]))
    return source, _vector(np.int64(tasks[at, TARGET]), np.int64(tasks[at, ROOM]))


@inlined
def _sizes(at, tasks):  # type: ignore[no-untyped-def]
    """Return where the numbers of a task begin, those of a row there, and its rows and columns."""
    return tasks[at, BEGIN], tasks[at, PITCH], tasks[at, ROWS], tasks[at, WIDTH]


@kernel(f"void({TABLE})")
def _take_many(count, tasks):  # type: ignore[no-untyped-def]
    """Do `_take` for many messages."""
    at, mine = task_among_many(count, tasks)
    if mine:
        a, message = _vectors(at, tasks)
        begin, row, high, wide = _sizes(at, tasks)
        _taking(a, begin, row, high, wide, message, tasks[at, THERE])


@kernel(f"void({TABLE})")
def _add_many(count, tasks):  # type: ignore[no-untyped-def]
    """Do `_add` for many messages, or for the own rows of many blocks."""
    at, mine = task_among_many(count, tasks)
    if mine:
        source, b = _vectors(at, tasks)
        begin, row, high, wide = _sizes(at, tasks)
        more, there, to = tasks[at, MORE], tasks[at, THERE], tasks[at, TO]
        _adding(source, begin, row, high, wide, more, source, b, there, to)


# Launches ----------------------------------------------------------------------------------------


def take(a: Array, columns: Columns, messages: Mapping[Any, Array]) -> None:
    """See `kernels.transpose.interface`."""
    take_all([(a, columns, messages)])


def take_all(tasks: Sequence[tuple[Array, Columns, Any]]) -> list[None]:
    """Do `take` for many blocks in one stream, by one launch; tasks are its arguments."""
    squares = []
    for a, columns, messages in tasks:
        if columns:
            memory, starts = messages.memory
            squares += [(a, memory, starts[edge], *ends) for edge, ends in columns.items()]
    if squares:
        _take_squares(squares)
    return [None] * len(tasks)


def turn(a: Array, b: Array, low: int) -> None:
    """See `kernels.transpose.interface`."""
    turn_all([(a, b, low)])


def turn_all(tasks: Sequence[tuple[Array, Array, int]]) -> list[None]:
    """Do `turn` for many blocks in one stream, by one launch; tasks are its arguments."""
    squares = []
    for a, b, low in tasks:
        own, row = a.shape
        squares.append((flat(a), b, low, row, own, own, low, 1))
    _add_squares(squares)
    return [None] * len(tasks)


def add(b: Array, columns: Columns, came: Mapping[Any, Array]) -> None:
    """See `kernels.transpose.interface`."""
    add_all([(b, columns, came)])


def add_all(tasks: Sequence[tuple[Array, Columns, Any]]) -> list[None]:
    """Do `add` for many blocks in one stream, by one launch; tasks are its arguments."""
    squares = []
    for b, columns, came in tasks:
        for edge, (low, end) in columns.items():
            (message, start), own = came[edge].memory, b.shape[0]
            squares.append((message, b, start, own, end - low, own, low, 0))
    if squares:
        _add_squares(squares)
    return [None] * len(tasks)


@repeated
def _take_squares(tasks: Tasks) -> Launch:
    """Launch one thread for each element; tasks are (a, memory, start, low, end)."""
    grids, numbers = [], []
    for a, _, start, low, end in tasks:
        high, row = a.shape
        grids.append((blocks(end - low, SIDE), blocks(high, HIGH), 1))
        numbers.append((low, row, high, end - low, start))
    a, memory, *_ = tasks[0]
    if len(tasks) == 1:
        ((*sizes, start),) = numbers
        return _take.prepared((grids[0], (SIDE, HIGH), a.stream), flat(a), *sizes, memory, start)
    words = [(*_places(task), *own) for task, own in zip(tasks, numbers, strict=True)]
    rows = zip(grids, words, strict=True)
    return launch_for_all(_take_many, (SIDE, HIGH), a.stream, rows)


@repeated
def _add_squares(tasks: Tasks) -> Launch:
    """Launch a thread block for each square.

    Tasks are (source, b) and the numbers of `_add`: ``begin`` to ``wide``, ``there`` and ``more``.
    """
    grids = [(blocks(wide, SIDE), blocks(high, SIDE), 1) for *_, high, wide, _, _ in tasks]
    source, b, *sizes, there, more = tasks[0]
    if len(tasks) == 1:
        own, where = source if more else flat(b), (grids[0], (SIDE, HIGH), b.stream)
        return _add.prepared(where, source, *sizes, more, own, flat(b), there, b.shape[1])
    words = [(*_places(task), *task[2:], task[1].shape[1]) for task in tasks]
    rows = zip(grids, words, strict=True)
    return launch_for_all(_add_many, (SIDE, HIGH), b.stream, rows)


def _places(task: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the words that say where a task's arrays are."""
    source, target, *_ = task
    return source.size, address(source), target.size, address(target)
