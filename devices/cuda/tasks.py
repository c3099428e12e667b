"""One launch for the tasks of many blocks: a table says which thread blocks do whose.

Every task has some layers of the grid for itself, along z, and begins in them at 0 along x and y.
A row of the table has a task's first layer, its thread blocks along x and y, and its words:
addresses, sizes and bounds. A thread block beyond those of its task ends at once.

Where a launch comes again, its table stays on the GPU (`launch_for_all`), also where numbers beside
the table change (`launch_with`). Otherwise tables go there
through pinned memory, and nothing waits for them (`launch_each_for_all`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from miniapps.devices.cuda import memory, streams
from miniapps.devices.cuda.compiler import Kernel, blocks, cuda, inlined
from miniapps.devices.cuda.launches import Launch
from miniapps.devices.cuda.primitives import launch as threads_for

FIRST, ACROSS, DOWN, WORDS = range(4)  # columns of the table; the words are the last
TABLE = "uint64, uint64[:, ::1]"  # how many tasks, and their table: what `task_here` takes

Row = tuple[tuple[int, int, int], Sequence[int]]  # thread blocks along x, y and z, and words
Work = tuple[Sequence[Kernel], Sequence[tuple[int, Sequence[int]]]]  # threads and words of tasks


@inlined
def task_here(tasks, table):  # type: ignore[no-untyped-def]
    """Return the row of this thread block's task, and whether it is one of the task's."""
    row, layer = np.uint64(0), np.uint64(cuda.blockIdx.z)
    while row + np.uint64(1) < tasks and table[row + np.uint64(1), FIRST] <= layer:
        row += np.uint64(1)
    across, down = np.uint64(cuda.blockIdx.x), np.uint64(cuda.blockIdx.y)
    return row, across < table[row, ACROSS] and down < table[row, DOWN]


@inlined
def task_among_many(tasks, table):  # type: ignore[no-untyped-def]
    """Do the same by a binary search, which takes more registers."""
    row, end, layer = np.uint64(0), tasks, np.uint64(cuda.blockIdx.z)
    while end - row > np.uint64(1):
        middle = (row + end) >> np.uint64(1)
        if table[middle, FIRST] <= layer:
            row = middle
        else:
            end = middle
    across, down = np.uint64(cuda.blockIdx.x), np.uint64(cuda.blockIdx.y)
    return row, across < table[row, ACROSS] and down < table[row, DOWN]


def launch_for_all(
    kernel: Kernel, threads: Any, stream: Any, rows: Iterable[Row], *arguments: Any
) -> Launch:
    """Return the launch of a kernel for all tasks: ``kernel(*arguments, tasks, table)``."""
    grid, table = _table(list(rows))
    on_device = memory.sent(table, stream)
    launch = kernel.prepared((grid, threads, stream), *arguments, len(table), on_device)
    return partial(_launch, launch, on_device)


def launch_with(kernel: Kernel, threads: Any, stream: Any, rows: Iterable[Row]) -> Launch:
    """Return ``launch(*arguments)``, the same launch with arguments that differ each time."""
    grid, table = _table(list(rows))
    on_device = memory.sent(table, stream)
    launch = kernel[grid, threads, stream]
    return lambda *arguments: launch(*arguments, len(table), on_device)


def _table(rows: Sequence[Row]) -> tuple[tuple[int, int, int], np.ndarray]:
    """Return the grid of thread blocks and the table, (tasks, columns) uint64, of some rows."""
    words, across, down, layers = [], 0, 0, 0
    for (wide, high, deep), own in rows:
        words.append((layers, wide, high, *own))
        across, down, layers = max(across, wide), max(down, high), layers + deep
    return (across, down, layers), np.array(words, np.uint64)


def _launch(launch: Launch, table: Any) -> None:
    """Make a launch; its table is kept as long as the launch."""
    launch()


class Tables:
    """Memory for the tables of a stream's launches, used again in the work of that stream."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.pinned = stream, memory.PinnedRing(stream.toolkit)
        self.there = memory.empty(0, np.uint64, stream)

    def put(self, tables: Sequence[np.ndarray]) -> Any:
        """Begin to copy tables to the GPU, one behind the other; return the words there."""
        size = sum(table.size for table in tables)
        host = self.pinned.take(8 * size).view(np.uint64)
        np.concatenate([table.reshape(-1) for table in tables], out=host)
        if self.there.size < size:
            self.there = memory.empty(size, np.uint64, self.stream)
        there = self.there[:size]
        there.copy_to_device(host, stream=self.stream)
        self.pinned.give(streams.mark(self.stream))
        return there


def launch_each_for_all(stream: Any, *works: Work) -> None:
    """Launch kernels one after another: ``kernel(tasks, table)``. Works are (kernels, tasks).

    A task has as many threads as it says, or some more, along x. One copy moves all tables.
    """
    launches = []
    for kernels, tasks in works:
        if tasks:
            _, threads, _ = threads_for(max(count for count, _ in tasks), stream)
            rows = [((blocks(count, threads), 1, 1), words) for count, words in tasks]
            launches.append((kernels, threads, *_table(rows)))
    if not launches:
        return
    if stream.tables is None:
        stream.tables = Tables(stream)
    words, begin = stream.tables.put([table for *_, table in launches]), 0
    for kernels, threads, grid, table in launches:
        end = begin + table.size
        on_device = words[begin:end].reshape(table.shape)
        for kernel in kernels:
            kernel[grid, threads, stream](len(table), on_device)
        begin = end
