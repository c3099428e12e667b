"""Particles that enter a block of PIC and leave it, on the GPU."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.buffers import addresses
from miniapps.devices.cuda.compiler import bits, cuda, from_bits, inlined, kernel, ported
from miniapps.devices.cuda.memory import address, empty, to_host
from miniapps.devices.cuda.primitives import copy, launch, thread_index
from miniapps.devices.cuda.tasks import TABLE, launch_each_for_all, task_here
from miniapps.kernels.pic.counters import (
    COUNTERS,
    HERE,
    HOLES,
    LEFT,
    LOST,
    MISROUTED,
    OWNERS,
    TAIL,
    UNFORESEEN,
    owner_at,
)
from miniapps.kernels.pic.gpu.push import foresee, inside
from miniapps.kernels.pic.gpu.tables import (
    COUNTERS_AT,
    MORE,
    OWNERS_AT,
    ROOM,
    bits_of,
    bytes_at,
    first_words,
    floats_at,
    numbers_at,
    particles_at,
    words_at,
    words_of,
)
from miniapps.kernels.pic.interface import Particles
from miniapps.kernels.state_hash.cpu import mix

PARTS = 8  # messages that one launch unpacks; a block has no more neighbours
ROW_BYTES = 64  # of a message, a particle each
ROWS = 36  # bits of a message's start in its buffer; above them is its number of rows
PARTICLES = "float64[::1]," * 5 + "int64[::1], int64[::1], int64[::1]"
# Words of tasks behind the first ones: of all, of `pack_all`, of unpacking and of closing gaps.
FIRST, GAPS, GAPS_ROOM = range(MORE, MORE + 3)  # the first number is each kernel's own
TOTAL = FREE = FIRST_GAP = FIRST
BUFFER, BUFFER_ROOM, PLACES = range(MORE + 3, MORE + 6)
SHIFTS, SHIFTS_ROOM, UNPACK_COUNT, SIZE, FRAME = range(MORE + 3, MORE + 8)
STARTS = FRAME + 9
ENDS = STARTS + PARTS
END, KEPT, CLOSE_COUNT, SPARE = range(MORE + 3, MORE + 7)
_mix = ported(mix)


@kernel(
    f"void(uint64, uint64, int64[::1], int64[::1], int64, int64, float64, float64, {PARTICLES})"
)
def _start(first, count, numbers, begin, motion, size, drift, force,
           x, y, vx, vy, charge, ids, cells, motions):  # type: ignore[no-untyped-def]  # fmt: skip
    n = thread_index()
    if n >= count:
        return
    at, cell = first + n, begin[n]
    column, row = cell // size, cell % size
    x[at], y[at] = column + 0.5, row + 0.5
    vx[at], vy[at] = 0.0, drift
    charge[at] = force if column % 2 == 0 else -force
    ids[at], cells[at], motions[at] = numbers[n], cell, motion


def start(
    first: int, numbers: Array, begin: Array, motion: int, size: int, drift: float, force: float,
    x: Array, y: Array, vx: Array, vy: Array, charge: Array, ids: Array, cells: Array,
    motions: Array,
) -> None:  # fmt: skip
    """Launch one thread per particle."""
    count = numbers.shape[0]
    if count:
        _start[launch(count, x.stream)](
            first, count, numbers, begin, motion, size, drift, force,
            x, y, vx, vy, charge, ids, cells, motions,
        )  # fmt: skip


@inlined
def _pack_one(total, leaving, owners, counters, x, y, vx, vy, charge, ids, cells, motions,
              message, places):  # type: ignore[no-untyped-def]  # fmt: skip
    """Pack this thread's particle of a block."""
    slot = thread_index()
    if slot == 0:
        counters[LEFT] = 0
    if slot >= total:
        return
    n = np.uint64(leaving[slot])
    if n >= np.uint64(owners.size):  # fewer leave than foreseen: the list ends earlier
        cuda.atomic.add(counters, UNFORESEEN, 1)
        return
    owner = np.uint32(owners[n]) % np.uint32(OWNERS)
    place = np.int64(places[0])
    for other in range(1, OWNERS):  # branches: an index would put the tuple in local memory
        if owner == other:
            place = np.int64(places[other])
    row = cuda.atomic.sub(counters, owner, 1) - 1
    if np.uint64(row) >= np.uint64(place >> ROWS):  # others leave than foreseen
        cuda.atomic.add(counters, UNFORESEEN, 1)
        return
    at = np.uint64(place & (1 << ROWS) - 1) + np.uint64(8) * np.uint64(row)
    message[at], message[at + np.uint64(1)], message[at + np.uint64(2)] = x[n], y[n], vx[n]
    message[at + np.uint64(3)], message[at + np.uint64(4)] = vy[n], charge[n]
    message[at + np.uint64(5)] = from_bits(ids[n])
    message[at + np.uint64(6)] = from_bits(cells[n])
    message[at + np.uint64(7)] = from_bits(motions[n])


@kernel(
    f"void(uint64, int64[::1], uint8[::1], int64[::1], {PARTICLES}, float64[::1],"
    f"UniTuple(int64, {OWNERS}))"
)
def _pack(total, leaving, owners, counters, x, y, vx, vy, charge, ids, cells, motions,
          message, places):  # type: ignore[no-untyped-def]  # fmt: skip
    _pack_one(
        total, leaving, owners, counters, x, y, vx, vy, charge, ids, cells, motions,
        message, places,
    )  # fmt: skip


@kernel(f"void({TABLE})")
def _pack_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        room = np.int64(tasks[at, ROOM])
        x, y, vx, vy, charge, ids, cells, motions = particles_at(tasks, at)
        owners = bytes_at(np.int64(tasks[at, OWNERS_AT]), room)
        counters = numbers_at(np.int64(tasks[at, COUNTERS_AT]), COUNTERS)
        leaving = numbers_at(np.int64(tasks[at, GAPS]), np.int64(tasks[at, GAPS_ROOM]))
        message = floats_at(np.int64(tasks[at, BUFFER]), np.int64(tasks[at, BUFFER_ROOM]))
        _pack_one(
            tasks[at, TOTAL], leaving, owners, counters, x, y, vx, vy, charge, ids, cells, motions,
            message, tasks[at, PLACES:],
        )  # fmt: skip


def _places(buffer: Any) -> list[int]:
    """Return by owner the rows and the start of the message to it in a `MessageBuffer`."""
    places = [0] * OWNERS
    for edge, start in buffer.starts.items():
        places[owner_at(edge)] = buffer.shapes[edge][0] << ROWS | start
    return places


def pack(
    total: int, leaving: Array, owners: Array, counters: Array, arrays: Particles,
    messages: Mapping[Any, Any],
) -> None:  # fmt: skip
    """Launch one thread per particle for all messages, which are in one message buffer."""
    if total:
        buffer: Any = messages  # a `MessageBuffer`
        where, places = launch(total, counters.stream), tuple(_places(buffer))
        _pack[where](total, leaving, owners, counters, *arrays, buffer.flat, places)


def pack_all(tasks: Sequence[tuple[Any, ...]]) -> None:
    """Do `pack` for many blocks in one stream by one launch; tasks are its arguments."""
    tasks = [task for task in tasks if task[0]]
    if len(tasks) == 1:
        pack(*tasks[0])
    elif tasks:
        rows = [
            (total, [
                *first_words(arrays, owners, counters), total, *words_of(leaving),
                *words_of(buffer.flat), *_places(buffer),
            ])
            for total, leaving, owners, counters, arrays, buffer in tasks
        ]  # fmt: skip
        launch_each_for_all(tasks[0][3].stream, ([_pack_all], rows))


@inlined
def _unpack_one(starts, ends, frame, gaps, free, count, owners, counters,
                x, y, vx, vy, charge, ids, cells, motions,
                size, shifts):  # type: ignore[no-untyped-def]  # fmt: skip
    """Unpack this thread's row of the messages to a block."""
    # Threads from ends[p - 1] up to ends[p] take the message at the address starts[p], a row each.
    row = np.int64(thread_index())
    if row >= np.int64(ends[PARTS - 1]):
        return
    start, first = np.int64(starts[0]), np.int64(0)
    for part in range(1, PARTS):
        if row >= np.int64(ends[part - 1]):
            start, first = np.int64(starts[part]), np.int64(ends[part - 1])
    came = floats_at(start + ROW_BYTES * (row - first), 8)
    if row < free:
        at = np.uint64(gaps[np.uint64(row)])
        if at >= np.uint64(x.size):  # fewer have left than foreseen
            return
        owners[at] = HERE
    else:
        at = np.uint64(count + row - free)
    to_x, to_y = came[0], came[1]
    if not inside(to_x, to_y, frame):
        to_x, to_y = frame[0] + 0.5, frame[2] + 0.5
        cuda.atomic.min(counters, MISROUTED, row)
    if shifts.size > 0:
        foresee(to_x, to_y, bits(came[7]), shifts, frame, size, counters)
    x[at], y[at], vx[at], vy[at], charge[at] = to_x, to_y, came[2], came[3], came[4]
    ids[at], cells[at], motions[at] = bits(came[5]), bits(came[6]), bits(came[7])


@kernel(
    f"void(UniTuple(int64, {PARTS}), UniTuple(int64, {PARTS}), UniTuple(float64, 9), int64[::1],"
    f"int64, int64, uint8[::1], int64[::1], {PARTICLES}, float64, float64[::1])"
)
def _unpack(starts, ends, frame, gaps, free, count, owners, counters,
            x, y, vx, vy, charge, ids, cells, motions,
            size, shifts):  # type: ignore[no-untyped-def]  # fmt: skip
    _unpack_one(
        starts, ends, frame, gaps, free, count, owners, counters,
        x, y, vx, vy, charge, ids, cells, motions, size, shifts,
    )  # fmt: skip


@kernel(f"void({TABLE})")
def _unpack_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        reals = tasks.view(np.float64)
        room = np.int64(tasks[at, ROOM])
        x, y, vx, vy, charge, ids, cells, motions = particles_at(tasks, at)
        owners = bytes_at(np.int64(tasks[at, OWNERS_AT]), room)
        counters = numbers_at(np.int64(tasks[at, COUNTERS_AT]), COUNTERS)
        gaps = numbers_at(np.int64(tasks[at, GAPS]), np.int64(tasks[at, GAPS_ROOM]))
        shifts = floats_at(np.int64(tasks[at, SHIFTS]), np.int64(tasks[at, SHIFTS_ROOM]))
        _unpack_one(
            tasks[at, STARTS:ENDS], tasks[at, ENDS:], reals[at, FRAME:STARTS], gaps,
            np.int64(tasks[at, FREE]), np.int64(tasks[at, UNPACK_COUNT]), owners, counters,
            x, y, vx, vy, charge, ids, cells, motions, reals[at, SIZE], shifts,
        )  # fmt: skip


def _messages(came: Mapping[Any, Any]) -> tuple[list[int], list[int]]:
    """Return for `PARTS` messages the addresses where they start, and the rows up to their end."""
    full = {edge: message for edge, message in came.items() if message.shape[0]}
    ends = list(itertools.accumulate(message.shape[0] for message in full.values()))
    missing = PARTS - len(ends)
    return [*addresses(full).values(), *[0] * missing], ends + [ends[-1] if ends else 0] * missing


def unpack(
    came: Mapping[Any, Any], frame: np.ndarray, gaps: Array, free: int, count: int, owners: Array,
    counters: Array, arrays: Particles, size: float = 0.0, shifts: Array = None,
) -> None:  # fmt: skip
    """Launch one thread per row for all messages."""
    starts, ends = _messages(came)
    if ends[-1]:
        _unpack[launch(ends[-1], counters.stream)](
            tuple(starts), tuple(ends), tuple(frame.tolist()),
            gaps, free, count, owners, counters, *arrays,
            size, arrays[0][:0] if shifts is None else shifts,
        )  # fmt: skip


def _words_to_unpack(
    came: Mapping[Any, Any], frame: np.ndarray, gaps: Array, free: int, count: int, owners: Array,
    counters: Array, arrays: Particles, size: float, shifts: Array,
) -> tuple[int, list[int]]:  # fmt: skip
    """Return the threads and the words of a task, given the arguments of `unpack`."""
    starts, ends = _messages(came)
    return ends[-1], [
        *first_words(arrays, owners, counters), free, *words_of(gaps), *words_of(shifts), count,
        *bits_of(size, *frame), *starts, *ends,
    ]  # fmt: skip


def row_of(message: Any, row: int) -> np.ndarray:
    """Copy the whole message buffer to the host: this is for error messages only."""
    memory, start = message.memory
    return to_host(memory)[start + 8 * row :][:8]


def resized(array: Array, used: int, room: int) -> Array:
    """Copy to another array."""
    other = empty(room, array.dtype, array.stream)
    if used:
        copy(used, array.view(np.uint64), other.view(np.uint64), array.stream)
    return other


@inlined
def _list_one(first, count, owners, counters, spare):  # type: ignore[no-untyped-def]
    """List this thread's particle at the end of a block, if it stays."""
    n = first + thread_index()
    if n == first:
        counters[LEFT] = 0
        counters[HOLES] = 0
    if n < count and owners[n] == HERE:
        spare[np.uint64(cuda.atomic.add(counters, TAIL, 1))] = n


@kernel("void(uint64, uint64, uint8[::1], int64[::1], uint64[::1])")
def _list_tail(first, count, owners, counters, spare):  # type: ignore[no-untyped-def]
    _list_one(first, count, owners, counters, spare)


@kernel(f"void({TABLE})")
def _list_tail_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        room = np.int64(tasks[at, ROOM])
        owners = bytes_at(np.int64(tasks[at, OWNERS_AT]), room)
        counters = numbers_at(np.int64(tasks[at, COUNTERS_AT]), COUNTERS)
        spare = words_at(np.int64(tasks[at, SPARE]), room)
        _list_one(tasks[at, KEPT], tasks[at, CLOSE_COUNT], owners, counters, spare)


@inlined
def _fill_one(kept, gaps, first, end, counters, spare,
              x, y, vx, vy, charge, ids, cells, motions):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill this thread's gap of a block."""
    at = first + thread_index()
    if at == first:
        counters[TAIL] = 0
    if at >= end:
        return
    to = np.uint64(gaps[at])
    if to >= kept:
        return
    n = spare[np.uint64(cuda.atomic.add(counters, HOLES, 1))]
    if n >= np.uint64(x.size):  # fewer have left than foreseen
        return
    x[to], y[to], vx[to], vy[to], charge[to] = x[n], y[n], vx[n], vy[n], charge[n]
    ids[to], cells[to], motions[to] = ids[n], cells[n], motions[n]


@kernel(f"void(uint64, int64[::1], uint64, uint64, int64[::1], uint64[::1], {PARTICLES})")
def _fill_holes(kept, gaps, first, end, counters, spare,
                x, y, vx, vy, charge, ids, cells, motions):  # type: ignore[no-untyped-def]  # fmt: skip
    _fill_one(
        kept, gaps, first, end, counters, spare, x, y, vx, vy, charge, ids, cells, motions
    )  # fmt: skip


@kernel(f"void({TABLE})")
def _fill_holes_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        room = np.int64(tasks[at, ROOM])
        x, y, vx, vy, charge, ids, cells, motions = particles_at(tasks, at)
        counters = numbers_at(np.int64(tasks[at, COUNTERS_AT]), COUNTERS)
        gaps = numbers_at(np.int64(tasks[at, GAPS]), np.int64(tasks[at, GAPS_ROOM]))
        spare = words_at(np.int64(tasks[at, SPARE]), room)
        _fill_one(
            tasks[at, KEPT], gaps, tasks[at, FIRST_GAP], tasks[at, END], counters, spare,
            x, y, vx, vy, charge, ids, cells, motions,
        )  # fmt: skip


def close_gaps(
    count: int, gaps: Array, first: int, end: int, owners: Array, counters: Array, spare: Array,
    arrays: Particles,
) -> None:  # fmt: skip
    """List the particles to move, then launch one thread per gap.

    Behind the new end are as many particles that stay as there are gaps before it. Both kernels
    hand out numbers by atomics, to the particles and to the gaps; those of one number meet.
    """
    if first >= end:
        return
    left = end - first
    where = launch(left, counters.stream)
    _list_tail[where](count - left, count, owners, counters, spare)
    _fill_holes[where](count - left, gaps, first, end, counters, spare, *arrays)


def _words_to_close(
    count: int, gaps: Array, first: int, end: int, owners: Array, counters: Array, spare: Array,
    arrays: Particles,
) -> tuple[int, list[int]]:  # fmt: skip
    """Return the threads and the words of a task, given the arguments of `close_gaps`."""
    left = end - first
    return left, [
        *first_words(arrays, owners, counters), first, *words_of(gaps), end, count - left, count,
        address(spare),
    ]  # fmt: skip


def store_all(tasks: Sequence[tuple[Any, ...]]) -> None:
    """Do `unpack` for blocks in one stream, and then `close_gaps`, by three launches."""
    unpacked, closed = ([work for work in some if work] for some in zip(*tasks, strict=True))
    if len(unpacked) <= 1 and len(closed) <= 1:
        for task in unpacked:
            unpack(*task)
        for task in closed:
            close_gaps(*task)
        return
    launch_each_for_all(
        (*unpacked, *closed)[0][6 if unpacked else 5].stream,
        ([_unpack_all], [_words_to_unpack(*task) for task in unpacked]),
        ([_list_tail_all, _fill_holes_all], [_words_to_close(*task) for task in closed]),
    )


@kernel(
    "void(uint64, float64[::1], float64[::1], int64[::1], UniTuple(float64, 4), uint64, uint64,"
    "uint8[::1], int64[::1], int64[::1])"
)
def _find_removed(count, x, y, ids, patch, seed, limit, owners,
                  counters, removed):  # type: ignore[no-untyped-def]  # fmt: skip
    n = thread_index()
    if n >= count:
        return
    owners[n] = HERE
    if inside(x[n], y[n], patch) and _mix(np.uint64(ids[n]) + seed) <= limit:
        owners[n] = LOST
        removed[np.uint64(cuda.atomic.add(counters, LEFT, 1))] = np.int64(n)


def find_removed(
    count: int, x: Array, y: Array, ids: Array, patch: np.ndarray, seed: np.uint64,
    limit: np.uint64, owners: Array, counters: Array, removed: Array,
) -> None:  # fmt: skip
    """Launch one thread per particle."""
    if count:
        cells = tuple(map(float, patch))
        where = launch(count, counters.stream)
        _find_removed[where](count, x, y, ids, cells, seed, limit, owners, counters, removed)
