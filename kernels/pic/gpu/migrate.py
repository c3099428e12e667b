"""Particles that come to a block of PIC and leave it, on the GPU; `push` describes the arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from devices.cuda.compiler import bits, cuda, from_bits, kernel, ported
from devices.cuda.memory import empty, to_host
from devices.cuda.primitives import _copy, _grid, _thread
from kernels.pic.counters import HERE, HOLES, LEFT, LOST, MISROUTED, OWNERS, TAIL, owner_at
from kernels.pic.gpu.push import _inside
from kernels.state_hash.cpu import mix

PARTS = 8  # messages that one launch unpacks; a block has no more neighbours
PARTICLES = "float64[::1]," * 5 + "int64[::1], int64[::1], int64[::1]"
_mix = ported(mix)


@kernel(
    f"void(uint64, uint64, int64[::1], int64[::1], int64, int64, float64, float64, {PARTICLES})"
)
def _start(first, count, numbers, begin, motion, size, drift, force,
           x, y, vx, vy, charge, ids, cells, motions):  # type: ignore[no-untyped-def]  # fmt: skip
    n = _thread()
    if n >= count:
        return
    at, cell = first + n, begin[n]
    column, row = cell // size, cell % size
    x[at], y[at] = column + 0.5, row + 0.5
    vx[at], vy[at] = 0.0, drift
    charge[at] = force if column % 2 == 0 else -force
    ids[at], cells[at], motions[at] = numbers[n], cell, motion


def start(
    first: int, numbers: Any, begin: Any, motion: int, size: int, drift: float, force: float,
    x: Any, y: Any, vx: Any, vy: Any, charge: Any, ids: Any, cells: Any, motions: Any,
) -> None:  # fmt: skip
    """Put particles of those ``numbers`` at the centres of the cells where they ``begin``."""
    count = numbers.shape[0]
    if count:
        _start[*_grid(count), x.stream](
            first, count, numbers, begin, motion, size, drift, force,
            x, y, vx, vy, charge, ids, cells, motions,
        )  # fmt: skip


@kernel(
    f"void(uint64, int64[::1], uint8[::1], int64[::1], {PARTICLES}, float64[::1],"
    f"UniTuple(int64, {OWNERS}))"
)
def _pack(total, leaving, owners, counters, x, y, vx, vy, charge, ids, cells, motions,
          message, starts):  # type: ignore[no-untyped-def]  # fmt: skip
    slot = _thread()
    if slot == 0:
        counters[LEFT] = 0
    if slot >= total:
        return
    n = np.uint64(leaving[slot])
    owner = np.uint32(owners[n])
    start = starts[0]
    for other in range(1, OWNERS):  # choices, as an index would put the tuple in local memory
        if owner == other:
            start = starts[other]
    row = cuda.atomic.sub(counters, owner, 1) - 1
    at = np.uint64(start) + np.uint64(8) * np.uint64(row)
    message[at], message[at + np.uint64(1)], message[at + np.uint64(2)] = x[n], y[n], vx[n]
    message[at + np.uint64(3)], message[at + np.uint64(4)] = vy[n], charge[n]
    message[at + np.uint64(5)] = from_bits(ids[n])
    message[at + np.uint64(6)] = from_bits(cells[n])
    message[at + np.uint64(7)] = from_bits(motions[n])


def pack(
    total: int, leaving: Any, owners: Any, counters: Any, arrays: tuple[Any, ...], messages: Any
) -> None:
    """Copy the first ``total`` of the ``leaving`` particles into the message of their owner's edge.

    ``messages``: a `MessageBuffer`, keyed by edge. The counters of emigrants are used up thereby,
    down to zero; rows come in no order.
    """
    if total:
        starts = [0] * OWNERS
        for edge, start in messages.starts.items():
            starts[owner_at(edge)] = start
        launch = *_grid(total), counters.stream
        _pack[launch](total, leaving, owners, counters, *arrays, messages.flat, tuple(starts))


@kernel(
    f"void(float64[::1], UniTuple(int64, {PARTS}), UniTuple(int64, {PARTS}),"
    f"UniTuple(int64, {PARTS}), UniTuple(float64, 4), int64[::1], int64, int64, uint8[::1],"
    f"int64[::1], {PARTICLES})"
)
def _unpack(message, starts, ends, rows, cell, gaps, free, count, owners, counters,
            x, y, vx, vy, charge, ids, cells, motions):  # type: ignore[no-untyped-def]  # fmt: skip
    # Part p of the threads, up to ends[p], takes the message at starts[p], whose first row is
    # rows[p] of all that came. Both are given as seen from thread 0.
    n = np.int64(_thread())
    if n >= ends[PARTS - 1]:
        return
    start, row = starts[0], rows[0] + n
    for part in range(1, PARTS):
        if n >= ends[part - 1]:
            start, row = starts[part], rows[part] + n
    m = np.uint64(start + 8 * n)
    if row < free:
        at = np.uint64(gaps[np.uint64(row)])
        owners[at] = HERE
    else:
        at = np.uint64(count + row - free)
    to_x, to_y = message[m], message[m + np.uint64(1)]
    if not _inside(to_x, to_y, cell):
        to_x, to_y = cell[0] + 0.5, cell[2] + 0.5
        cuda.atomic.min(counters, MISROUTED, row)
    x[at], y[at], vx[at] = to_x, to_y, message[m + np.uint64(2)]
    vy[at], charge[at] = message[m + np.uint64(3)], message[m + np.uint64(4)]
    ids[at] = bits(message[m + np.uint64(5)])
    cells[at] = bits(message[m + np.uint64(6)])
    motions[at] = bits(message[m + np.uint64(7)])


def _batches(came: Mapping[Any, Any]) -> Iterable[tuple[Any, list[tuple[int, ...]]]]:
    """Buffers, and of each message in it that is not empty where it begins, rows, and first row."""
    batches: dict[int, tuple[Any, list[tuple[int, ...]]]] = {}
    first = 0
    for view in came.values():
        rows = view.shape[0]
        if rows:
            _, parts = batches.setdefault(id(view.buffer), (view.buffer.flat, []))
            parts.append((view.start, rows, first))
        first += rows
    return batches.values()


def unpack(
    came: Mapping[Any, Any], frame: np.ndarray, gaps: Any, free: int, count: int, owners: Any,
    counters: Any, arrays: tuple[Any, ...],
) -> None:  # fmt: skip
    """Put messages into the first ``free`` of the ``gaps`` and, when full, behind ``count``.

    As the CPU's. ``came``: `MessageView` by edge; those in one message buffer take one launch.
    """
    cell = tuple(frame[:4].tolist())
    for buffer, parts in _batches(came):
        starts, ends, firsts, threads = [], [], [], 0
        for start, rows, first in parts:
            starts.append(start - 8 * threads)
            firsts.append(first - threads)
            threads += rows
            ends.append(threads)
        missing = PARTS - len(parts)
        ends += [threads] * missing
        starts, firsts = starts + [0] * missing, firsts + [0] * missing
        _unpack[*_grid(threads), counters.stream](
            buffer, tuple(starts), tuple(ends), tuple(firsts), cell,
            gaps, free, count, owners, counters, *arrays,
        )  # fmt: skip


def row_of(message: Any, row: int) -> np.ndarray:
    """One row of a message, (8,) float64, on the host."""
    start = message.start + 8 * row
    return to_host(message.buffer.flat)[start : start + 8]


def grown(array: Any, used: int, room: int) -> Any:
    """A longer array that begins with the ``used`` elements of this one."""
    longer = empty(room, array.dtype, array.stream)
    if used:
        words = array.view(np.uint64), longer.view(np.uint64)
        _copy[*_grid(used), array.stream](used, *words)
    return longer


@kernel("void(uint64, uint64, uint8[::1], int64[::1], uint64[::1])")
def _list_tail(first, count, owners, counters, spare):  # type: ignore[no-untyped-def]
    n = first + _thread()
    if n == first:
        counters[LEFT] = 0
        counters[HOLES] = 0
    if n < count and owners[n] == HERE:
        spare[np.uint64(cuda.atomic.add(counters, TAIL, 1))] = n


@kernel(f"void(uint64, int64[::1], uint64, uint64, int64[::1], uint64[::1], {PARTICLES})")
def _fill_holes(kept, gaps, first, end, counters, spare,
                x, y, vx, vy, charge, ids, cells, motions):  # type: ignore[no-untyped-def]  # fmt: skip
    at = first + _thread()
    if at == first:
        counters[TAIL] = 0
    if at >= end:
        return
    to = np.uint64(gaps[at])
    if to >= kept:
        return
    n = spare[np.uint64(cuda.atomic.add(counters, HOLES, 1))]
    x[to], y[to], vx[to], vy[to], charge[to] = x[n], y[n], vx[n], vy[n], charge[n]
    ids[to], cells[to], motions[to] = ids[n], cells[n], motions[n]


def close_gaps(
    count: int, gaps: Any, first: int, end: int, owners: Any, counters: Any, spare: Any,
    arrays: tuple[Any, ...],
) -> None:  # fmt: skip
    """Move those of the last of ``count`` particles that stay into ``gaps`` [first, end) before.

    The gaps may be in any order. ``owners`` (count,): those that stay are `HERE`. Uses ``spare``
    and the ``counters``, which it leaves clean. There are as many holes before the end as particles
    behind it: both kernels hand out numbers to them, and those of one number meet.
    """
    if first >= end:
        return
    left = end - first
    launch = *_grid(left), counters.stream
    _list_tail[launch](count - left, count, owners, counters, spare)
    _fill_holes[launch](count - left, gaps, first, end, counters, spare, *arrays)


@kernel(
    "void(uint64, float64[::1], float64[::1], int64[::1], UniTuple(float64, 4), uint64, uint64,"
    "uint8[::1], int64[::1], int64[::1])"
)
def _find_removed(count, x, y, ids, patch, seed, limit, owners,
                  counters, removed):  # type: ignore[no-untyped-def]  # fmt: skip
    n = _thread()
    if n >= count:
        return
    owners[n] = HERE
    if _inside(x[n], y[n], patch) and _mix(np.uint64(ids[n]) + seed) <= limit:
        owners[n] = LOST
        removed[np.uint64(cuda.atomic.add(counters, LEFT, 1))] = np.int64(n)


def find_removed(
    count: int, x: Any, y: Any, ids: Any, patch: np.ndarray, seed: np.uint64, limit: np.uint64,
    owners: Any, counters: Any, removed: Any,
) -> None:  # fmt: skip
    """List the places of the particles that a removal takes from a ``patch``, in no order.

    As the CPU's; the ``counters`` must be clean of emigrants.
    """
    if count:
        cells = tuple(map(float, patch))
        launch = *_grid(count), counters.stream
        _find_removed[launch](count, x, y, ids, cells, seed, limit, owners, counters, removed)
