"""Small arrays of many blocks on the host: one launch gathers them, and one copy moves them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from miniapps.devices.cuda import memory, streams
from miniapps.devices.cuda.compiler import kernel, viewer
from miniapps.devices.cuda.primitives import THREADS, thread_index
from miniapps.devices.cuda.tasks import TABLE, WORDS, launch_for_all, task_here

MOST = 16  # groups of blocks that a stream keeps
ARRAY, SIZE, BEGIN = range(WORDS, WORDS + 3)  # of a task: an array, and where it goes
_numbers = viewer("int64")


@kernel(f"void(int64[::1], {TABLE})")
def _gather(gathered, count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    n = thread_index()
    if mine and n < tasks[at, SIZE]:
        array = _numbers(np.int64(tasks[at, ARRAY]), np.int64(tasks[at, SIZE]))
        gathered[tasks[at, BEGIN] + n] = array[n]


class Group:
    """Where arrays (n,) int64 are gathered, on the GPU and in pinned memory; they have one stream.

    The launch has the addresses of the arrays, not these.
    """

    def __init__(self, copies: Sequence[memory.PinnedCopy]) -> None:
        arrays = [copy.array for copy in copies]
        self.stream = stream = arrays[0].stream
        *begins, size = accumulate([array.size for array in arrays], initial=0)
        self.gathered = memory.empty(size, np.int64, stream)
        self.pinned = stream.toolkit.pinned(8 * size).view(np.int64)
        self.parts = [
            self.pinned[begin : begin + array.size]
            for begin, array in zip(begins, arrays, strict=True)
        ]
        rows = [
            ((-(-array.size // THREADS), 1, 1), (memory.address(array), array.size, begin))
            for begin, array in zip(begins, arrays, strict=True)
        ]
        self.launch = launch_for_all(_gather, THREADS, stream, rows, self.gathered)

    def begin(self, copies: Sequence[memory.PinnedCopy]) -> None:
        """Begin the copies of all arrays. The mark has a time, as that of a single copy."""
        self.launch()
        self.gathered.copy_to_host(self.pinned, stream=self.stream)
        copied = streams.mark(self.stream, timed=True)
        for copy, part in zip(copies, self.parts, strict=True):
            copy.pinned, copy.copied = part, copied


def begin_all(copies: Sequence[memory.PinnedCopy]) -> None:
    """See `Memory.begin_copies`."""
    if len(copies) == 1:
        copies[0].begin()
        return
    groups = copies[0].array.stream.groups
    key = tuple([(memory.address(copy.array), copy.array.size) for copy in copies])
    group = groups.get(key)
    if group is None:
        if len(groups) >= MOST:
            del groups[next(iter(groups))]  # the oldest
        group = groups[key] = Group(copies)
    group.begin(copies)
