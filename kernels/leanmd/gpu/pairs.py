"""The kernels for LeanMD's *pairs* decomposition on the GPU.

One launch computes the forces of all pairs of cells that a process has. The kernel reads a table of
64-bit words, which one copy moves to the device: a row for each task, then for each thread block
the number of its task. A row has the addresses of the task's arrays and of its forces, so the
kernel reads memory of many blocks. Error flags and forces are in one array, which one copy moves to
the host.

Positions are shifted in the kernel, by the shift of the cell's atoms minus the shift of the other
cell's. Every sum of a position and a shift is exact, so the bits are those of the CPU, which shifts
copies.
"""

from __future__ import annotations

import itertools
import struct
from functools import cached_property
from typing import Any

import numpy as np

from devices.backend import Array, Memory
from devices.cuda import streams
from devices.cuda.compiler import Kernel, cuda, from_bits, kernel, viewer
from devices.cuda.memory import address, empty
from devices.cuda.primitives import FEW_THREADS, fill, launch
from kernels.leanmd.gpu.arrays import triple
from kernels.leanmd.gpu.interactions import (
    CLOSEST2,
    WIDTH,
    error_flag,
    force_on_atom,
    force_on_atom_in_single,
)
from kernels.leanmd.interface import PairTask
from kernels.leanmd.units import CLOSE, NO_ERROR

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


def _tasks_by(force_on: Any) -> Kernel:
    """Return the kernel of `pair_forces`, given the function for the force on an atom."""

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
            position[0, i] + from_bits(words[row + np.uint64(SHIFT)]),
            position[1, i] + from_bits(words[row + np.uint64(SHIFT + 1)]),
            position[2, i] + from_bits(words[row + np.uint64(SHIFT + 2)]),
            _rows(words[row + np.uint64(OTHERS)], words[row + np.uint64(OTHER_COLUMNS)]),
            _indices(words[row + np.uint64(NEIGHBORS)], words[row + np.uint64(ENTRIES)]),
            n, last, i - member, member, own, from_bits(words[row + np.uint64(CUTOFF2)]),
        )  # fmt: skip
        force = _sums(words[row + np.uint64(FORCE)], places)
        force[0, i], force[1, i], force[2, i] = fx, fy, fz
        if closest < CLOSEST2:
            cuda.atomic.min(flags, task, error_flag(closest, i))

    return by_task


_tasks, _tasks_in_single = _tasks_by(force_on_atom), _tasks_by(force_on_atom_in_single)


def pair_forces(tasks: list[list[PairTask]]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute all tasks by one launch, and copy all forces at once."""
    return _computed(_tasks, tasks)


def pair_forces_in_single(tasks: list[list[PairTask]]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute as `pair_forces`, but the force of a pair as in `forces_in_single`."""
    return _computed(_tasks_in_single, tasks)


def _computed(kernel: Kernel, tasks: list[list[PairTask]]) -> list[list[tuple[np.ndarray, int]]]:
    """Return the results of all tasks, computed by a kernel."""
    flat = [task for of_block in tasks for task in of_block]
    sizes = [task.clusters.size * WIDTH for task in flat]
    ends = list(itertools.accumulate((3 * size for size in sizes), initial=len(flat)))
    toolkit = flat[0].starts.stream.toolkit
    stream = toolkit.stream()
    _wait_for_arrays(flat, stream)
    results = empty(ends[-1], np.int64, stream)
    fill(len(flat), results, NO_ERROR[CLOSE])
    kept = _launch(kernel, flat, sizes, ends, results)
    host = toolkit.pinned(8 * ends[-1]).view(np.int64)
    results.copy_to_host(host, stream=stream)
    stream.synchronize()
    del kept  # the table, which the launch has read by now
    toolkit.idle.append(stream)
    answers = iter(
        (host[end : end + 3 * size].reshape(3, size).copy(), int(flag))
        for flag, end, size in zip(host, ends, sizes, strict=False)
    )
    return [[next(answers) for _ in of_block] for of_block in tasks]


def _wait_for_arrays(tasks: list[PairTask], stream: Any) -> None:
    """Let a stream wait for the positions of tasks and for their lists."""
    messages = [side.message for task in tasks for side in (task.position, task.others)]
    for ready in dict.fromkeys(message.ready for message in messages):
        streams.wait_for(ready, stream)
    for built in dict.fromkeys(task.ready for task in tasks):
        streams.wait_for(built, stream)


def _launch(
    kernel: Kernel, tasks: list[PairTask], sizes: list[int], ends: list[int], results: Any
) -> Any:
    """Launch a kernel for tasks, whose forces begin at ``ends`` in the results.

    Returns the table on the host, which must be kept until the kernel has run.
    """
    count, stream, begin = len(tasks), results.stream, address(results)
    thread_blocks = [-(-size // TASK_THREADS) for size in sizes]
    firsts = list(itertools.accumulate(thread_blocks, initial=0))
    size = count * WORDS + firsts[-1]
    table = stream.toolkit.pinned(8 * size).view(np.int64)
    memory, where = table.data, zip(tasks, firsts, ends, sizes, strict=False)
    for number, (task, first, end, places) in enumerate(where):
        row = _row(task, first, begin + 8 * end, places)
        ROW.pack_into(memory, 8 * number * WORDS, *row)
    table[count * WORDS :] = np.repeat(np.arange(count), thread_blocks)
    words = empty(size, np.int64, stream)
    words.copy_to_device(table, stream=stream)
    if firsts[-1]:
        kernel[firsts[-1], TASK_THREADS, stream](words, count, results)
    return table


def _row(task: PairTask, block: int, force: int, places: int) -> tuple[Any, ...]:
    """Return a task's row of the table; ``block`` is its first thread block."""
    position, others = task.position, task.others
    shift = NO_SHIFT
    if position.over is not others.over:
        shift = [a - b for a, b in zip(position.over, others.over, strict=True)]
    return (
        position.address, position.shape[1], others.address, others.shape[1],
        address(task.starts), address(task.neighbors), task.neighbors.size, force, places,
        task.own, block, *shift, task.cutoff * task.cutoff,
    )  # fmt: skip


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
