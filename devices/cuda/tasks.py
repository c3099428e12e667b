"""One launch for the tasks of many blocks: a table says which thread blocks do whose.

Every task has some layers of the grid for itself, along z, and begins in them at 0 along x and y.
A row of the table has a task's first layer, its thread blocks along x and y, and its words:
addresses, sizes and bounds. A thread block beyond those of its task ends at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from miniapps.devices.cuda import memory
from miniapps.devices.cuda.compiler import Kernel, cuda, inlined
from miniapps.devices.cuda.launches import Launch

FIRST, ACROSS, DOWN, WORDS = range(4)  # columns of the table; the words are the last
TABLE = "uint64, uint64[:, ::1]"  # how many tasks, and their table: what `task_here` takes

Row = tuple[tuple[int, int, int], Sequence[int]]  # thread blocks along x, y and z, and words


@inlined
def task_here(tasks, table):  # type: ignore[no-untyped-def]
    """Return the row of this thread block's task, and whether it is one of the task's."""
    row, layer = np.uint64(0), np.uint64(cuda.blockIdx.z)
    while row + np.uint64(1) < tasks and table[row + np.uint64(1), FIRST] <= layer:
        row += np.uint64(1)
    across, down = np.uint64(cuda.blockIdx.x), np.uint64(cuda.blockIdx.y)
    return row, across < table[row, ACROSS] and down < table[row, DOWN]


def launch_for_all(
    kernel: Kernel, threads: Any, stream: Any, rows: Iterable[Row], *arguments: Any
) -> Launch:
    """Return the launch of a kernel for all tasks: ``kernel(*arguments, tasks, table)``.

    Waits until the table is in the GPU's memory.
    """
    grids, words = zip(*rows, strict=True)
    across, down, layers = np.array(grids).T
    first = np.cumsum(layers) - layers
    table = np.column_stack([first, across, down, np.array(words, np.uint64)]).astype(np.uint64)
    on_device = memory.to_device(table, stream)
    grid = int(across.max()), int(down.max()), int(layers.sum())
    launch = kernel.prepared((grid, threads, stream), *arguments, len(words), on_device)
    return partial(_launch, launch, on_device)


def _launch(launch: Launch, table: Any) -> None:
    """Make a launch; its table is kept as long as the launch."""
    launch()
