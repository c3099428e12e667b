"""The kernels for LeanMD's *pairs* decomposition on the GPU.

One launch computes the forces of all pairs of cells that a process has. The kernel reads a table of
64-bit words, which one copy moves to the device: a row for each cell of each task, then for each
thread block the number of its row, which the kernel calls its task. A row has the addresses of the
cell's arrays and of its forces, so the kernel reads memory of many blocks. Most of a row is packed
once per neighbour list. Error flags and forces are in one array, which one copy moves to the host.

Positions are shifted in the kernel, by the shift of the cell's atoms minus the shift of the other
cell's. Every sum of a position and a shift is exact, so the bits are those of the CPU, which shifts
copies.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from miniapps.devices.backend import Array, Memory
from miniapps.devices.cuda import streams
from miniapps.devices.cuda.compiler import Kernel, cuda, from_bits, inlined, kernel, viewer
from miniapps.devices.cuda.memory import address, empty
from miniapps.devices.cuda.primitives import FEW_THREADS, fill, launch
from miniapps.kernels.leanmd.gpu.arrays import triple
from miniapps.kernels.leanmd.gpu.interactions import (
    CLOSEST2,
    WIDTH,
    error_flag,
    force_on_atom,
    force_on_atom_in_single,
)
from miniapps.kernels.leanmd.gpu.single import cut_in_single
from miniapps.kernels.leanmd.interface import ClusterLists, PairTask
from miniapps.kernels.leanmd.units import CLOSE, NO_ERROR

TASK_THREADS = 32  # of a thread block; few, as the last one of each task is not full
# The words of a row: addresses, sizes and the first thread block; as float64 shift and cutoff^2.
POSITION, COLUMNS, OTHERS, OTHER_COLUMNS, STARTS, NEIGHBORS, ENTRIES, FORCE, PLACES, OWN, BLOCK = (
    range(11)
)
SHIFT, CUTOFF2, WORDS = 11, 14, 15
ROW = struct.Struct("=11q4d")
NO_SHIFT = [0.0, 0.0, 0.0]

_rows, _sums = viewer("float64", 3), viewer("int64", 3)
_offsets, _indices = viewer("int64"), viewer("uint32")


def _tasks_by(force_on: Any, cut_of: Any) -> Kernel:
    """Return the kernel of `pair_forces`, given those for the force on an atom and its ``cut``."""

    @kernel("void(int64[::1], uint32, int64[::1])")
    def by_task(words, tasks, flags):  # type: ignore[no-untyped-def]
        """Compute the tasks of a table; each has thread blocks of its own."""
        block = np.uint64(cuda.blockIdx.x)
        task = np.uint64(words[np.uint64(tasks * WORDS) + block])
        row = task * np.uint64(WORDS)
        places = words[row + np.uint64(PLACES)]
        thread = np.uint64(cuda.threadIdx.x)
        i = (block - np.uint64(words[row + np.uint64(BLOCK)])) * np.uint64(TASK_THREADS) + thread
        if i >= np.uint64(places):
            return
        member, k = i % np.uint64(WIDTH), i // np.uint64(WIDTH)
        starts = _offsets(words[row + np.uint64(STARTS)], places // WIDTH + 1)
        n, last = np.uint64(starts[k]), np.uint64(starts[k + np.uint64(1)])
        own = words[row + np.uint64(OWN)] != 0
        position = _rows(words[row + np.uint64(POSITION)], words[row + np.uint64(COLUMNS)])
        fx, fy, fz, closest = force_on(
            (
                position[0, i] + from_bits(words[row + np.uint64(SHIFT)]),
                position[1, i] + from_bits(words[row + np.uint64(SHIFT + 1)]),
                position[2, i] + from_bits(words[row + np.uint64(SHIFT + 2)]),
            ),
            _rows(words[row + np.uint64(OTHERS)], words[row + np.uint64(OTHER_COLUMNS)]),
            _indices(words[row + np.uint64(NEIGHBORS)], words[row + np.uint64(ENTRIES)]),
            n, last, i - member, member, own, cut_of(from_bits(words[row + np.uint64(CUTOFF2)])),
        )  # fmt: skip
        force = _sums(words[row + np.uint64(FORCE)], places)
        force[0, i], force[1, i], force[2, i] = fx, fy, fz
        if closest < CLOSEST2:
            cuda.atomic.min(flags, task, error_flag(closest, i))

    return by_task


@inlined
def _cut(cutoff2):  # type: ignore[no-untyped-def]
    """Return what the force in double precision needs to know of the cutoff."""
    return cutoff2


_tasks = _tasks_by(force_on_atom, _cut)
_tasks_in_single = _tasks_by(force_on_atom_in_single, cut_in_single)


def pair_forces(tasks: list[PairTask]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute all tasks by one launch, and copy all forces at once."""
    return _computed(_tasks, tasks)


def pair_forces_in_single(tasks: list[PairTask]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute as `pair_forces`, but the force of a pair as in `forces_in_single`."""
    return _computed(_tasks_in_single, tasks)


class PairLists:
    """The rows of the table for a task's lists, without what differs from step to step.

    ``ready``: a mark after the kernels that made the lists, until a batch has waited for it.
    """

    def __init__(self, first: Any, second: Any, lists: Sequence[ClusterLists], cutoff: float):
        self.lists = lists  # to keep the arrays whose addresses are in the rows
        self.stream = lists[0].starts.stream
        self.ready: Any = streams.mark(self.stream)
        pairs = (first, second), (second, first)
        self.rows = b"".join(
            _row(*pair, one, cutoff) for pair, one in zip(pairs, lists, strict=False)
        )


def _row(position: Any, others: Any, lists: ClusterLists, cutoff: float) -> bytes:
    """Return a row of the table; addresses of positions and forces are not known yet."""
    shift = [a - b for a, b in zip(position.over, others.over, strict=True)]
    starts, neighbors = lists.starts, lists.neighbors
    return ROW.pack(
        0, position.shape[1], 0, others.shape[1], address(starts), address(neighbors),
        neighbors.size, 0, (starts.size - 1) * WIDTH, lists.own, 0, *shift, cutoff * cutoff,
    )  # fmt: skip


def pair_lists(
    first: Any, second: Any, lists: Sequence[ClusterLists], cutoff: float, quantum: float
) -> Any:
    """Return the rows of the table; kernels convert positions by themselves."""
    return PairLists(first, second, lists, cutoff)


def _computed(kernel: Kernel, tasks: list[PairTask]) -> list[list[tuple[np.ndarray, int]]]:
    """Return the results of all tasks, computed by a kernel."""
    words = b"".join([task.lists.rows for task in tasks])
    rows = np.frombuffer(words, np.int64).reshape(-1, WORDS)
    ends = len(rows) + _sums_before(3 * rows[:, PLACES])  # of forces, which are behind the flags
    toolkit = tasks[0].lists.stream.toolkit
    stream = toolkit.stream()
    _wait_for_arrays(tasks, stream)
    results = empty(int(ends[-1]), np.int64, stream)
    fill(len(rows), results, NO_ERROR[CLOSE])
    kept = _launch(kernel, tasks, rows, ends, results)
    host = toolkit.pinned(8 * results.size).view(np.int64)
    results.copy_to_host(host, stream=stream)
    stream.synchronize()
    del kept  # the table, which the launch has read by now
    toolkit.idle.append(stream)
    flags, at = host[: len(rows)].tolist(), ends.tolist()
    answers = (
        (host[begin:end].reshape(3, -1).copy(), flag)
        for flag, begin, end in zip(flags, at[:-1], at[1:], strict=True)
    )
    return [[next(answers) for _ in task.lists.lists] for task in tasks]


def _sums_before(sizes: np.ndarray) -> np.ndarray:
    """Return the sum of the sizes (n,) before each one, and that of all: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _wait_for_arrays(tasks: list[PairTask], stream: Any) -> None:
    """Let a stream wait for the positions of tasks and for new lists."""
    sides = [side for task in tasks for side in (task.first, task.second)]
    for ready in dict.fromkeys([side.message.ready for side in sides]):
        streams.wait_for(ready, stream)
    for lists in [task.lists for task in tasks if task.lists.ready is not None]:
        streams.wait_for(lists.ready, stream)
        lists.ready = None


def _launch(
    kernel: Kernel, tasks: list[PairTask], rows: np.ndarray, ends: np.ndarray, results: Any
) -> Any:
    """Launch a kernel for the rows of tasks, whose forces begin at ``ends`` in the results.

    Returns the table on the host, which must be kept until the kernel has run.
    """
    count, stream = len(rows), results.stream
    thread_blocks = -(-rows[:, PLACES] // TASK_THREADS)
    firsts = _sums_before(thread_blocks)
    size = count * WORDS + int(firsts[-1])
    words = stream.toolkit.pinned(8 * size).view(np.int64)
    table = words[: count * WORDS].reshape(count, WORDS)
    table[...] = rows
    sides: list[tuple[int, int]] = []
    for task in tasks:
        first, second = task.first.address, task.second.address
        sides += ((first, second), (second, first))[: len(task.lists.lists)]
    table[:, [POSITION, OTHERS]] = sides
    table[:, FORCE] = address(results) + 8 * ends[:-1]
    table[:, BLOCK] = firsts[:-1]
    words[count * WORDS :] = np.repeat(np.arange(count), thread_blocks)
    on_device = empty(size, np.int64, stream)
    on_device.copy_to_device(words, stream=stream)
    if firsts[-1]:
        kernel[int(firsts[-1]), TASK_THREADS, stream](on_device, count, results)
    return words


@kernel("void(uint32, uint32, float64[:, ::1], float64[::1], int64)")
def _pack_positions(height, size, rows, buffer, start):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < size:
        for row in range(np.int64(height)):
            # Row 3 of a message is the last row of the atoms: the bits of their ids.
            buffer[start + row * size + n] = rows[row if row < 3 else rows.shape[0] - 1, n]


def pack_positions(rows: Array, message: Any) -> None:
    """Launch one thread per column."""
    height, size = message.shape
    _pack_positions[launch(size, rows.stream, FEW_THREADS)](height, size, rows, *message.memory)


@kernel("void(uint32, uint32, float64[::1], int64, UniTuple(float64, 3), float64[:, ::1])")
def _shift(height, size, buffer, start, over, into):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < size:
        for row in range(np.int64(height)):
            value = buffer[start + row * size + n]
            into[row, n] = value + over[row] if row < 3 else value


class SentPositions:
    """The positions in a cell's message, and what is to be added to them."""

    def __init__(self, message: Any, over: list[float] | None, device: Memory) -> None:
        self.message, self.over, self.device = message, over or NO_SHIFT, device
        self.shape, self.address = message.shape, message.address

    @cached_property
    def rows(self) -> Any:
        """The sums as an array, which `pair_forces` does not need; made when first used."""
        height, size = self.shape
        into = self.device.empty((height, size), np.float64)
        buffer, start = self.message.memory
        _shift[launch(size, into.stream, FEW_THREADS)](
            height, size, buffer, start, triple(self.over), into
        )
        return into


def sent_positions(message: Any, over: list[float] | None, device: Memory) -> Any:
    """Keep the message as it is; nothing is added yet."""
    return SentPositions(message, over, device)


def rows_of(positions: Any) -> Array:
    """Launch one thread per column, the first time."""
    return positions.rows
