"""Particles among fixed charges on the GPU: the kernels of `kernels.pic.cpu`, with the same bits.

Formulas, the particles' arrays and the shape of messages are those of `kernels.pic.cpu`; what a
push counts is a tally. A thread pushes one particle and does all that the CPU does in several
loops: force, push, owner, and if the particle leaves, a place in the list of those that do. Places
and rows are handed out by atomic counters, so particles may lie in another order in another run,
and no result depends on it. Every product that is added to something is rounded first (`mul`).

Cost of a push: 72 bytes of a particle (x, y, vx, vy both ways, the charge) and a byte of owner,
coalesced, which takes 17 us a million particles at 4.3 TB/s; four bytes of mesh, gathered, which
come from L1 while particles lie by columns, and from L2 (36 MB at 6000 x 6000 cells) when not. 4
square roots and 4 divisions are about 80 instructions of double precision, beside some 50 others:
at 64 a clock on each multiprocessor half as long as the memory takes. So a thread reads all of its
particle before it computes, and 4 blocks of 256 threads fit by their registers: 40 KB on their way
to a multiprocessor, where 25 KB are enough to hide the memory. Nothing is kept in local memory. Of
several steps at once only the first has to wait for the memory; then arithmetic is the bound.

Leavers are few, a column in hundreds: two atomics for each of them do not show. A step waits for
the device once, when the tally is read. Messages of all edges are packed by one launch, unpacked by
one for each sender's buffer; gaps that are left take two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt
from typing import Any

import numpy as np

from devices.cuda.toolkit import (
    WARP,
    bits,
    blocks,
    cuda,
    empty,
    flat,
    from_bits,
    inlined,
    kernel,
    mul,
    once,
    ported,
    to_host,
    zeros,
)
from kernels.pic.cpu import ahead, owner_of
from kernels.pic.cpu import count_columns as count_columns
from kernels.pic.cpu import foresee_removed as foresee_removed
from kernels.pic.cpu import place as place
from kernels.pic.tally import ASTRAY, HERE, HOLES, LEFT, LOST, MISPLACED, OWNERS, TAIL, owner_at
from kernels.state_hash.cpu import mix

THREADS = 256
MANY_BLOCKS = 1024  # enough to fill a GPU, where threads take several particles each
RUN = 16  # neighbouring particles that a thread of the sort takes
CHUNKS = 64  # into how many the columns are cut for their prefix sum
PARTS = 8  # messages that one launch unpacks; a block has no more neighbours
NAN = 0x7FF8000000000000  # its bits

PARTICLES = "float64[::1]," * 5 + "int64[::1], int64[::1], int64[::1]"
_mix = ported(mix)
_ahead, _owner_of = ported(ahead), ported(owner_of)


@inlined
def _thread():  # type: ignore[no-untyped-def]
    """The thread's number in the grid, unsigned: a signed index costs a test for negative ones."""
    return np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)


def _grid(count: int) -> tuple[int, int]:
    """Thread blocks and their threads for ``count`` threads; few threads make a smaller block.

    There are few numbers of blocks, up to 3 % too many: numba keeps what it finds out about a grid
    for 128 of them, and the count of particles changes in every step.
    """
    threads = min(THREADS, -(-count // WARP) * WARP)
    needed = blocks(count, threads)
    few = 1 << max(0, needed.bit_length() - 6)
    return -(-needed // few) * few, threads


# Beginning ---------------------------------------------------------------------------------------

# `count_columns`, `place` and `foresee_removed` are the CPU's: they run once for each particle that
# begins, and the last bits of a draw depend on its logarithm and cosine.


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


def start(first: int, numbers: Any, begin: Any, motion: int, *how: Any) -> None:
    """Put particles of those ``numbers`` at the centres of the cells where they ``begin``."""
    count, stream = numbers.shape[0], how[3].stream
    if count:
        launch = *_grid(count), stream
        _start[launch](first, count, numbers, begin, motion, *how)


# Pushing -----------------------------------------------------------------------------------------


@inlined
def _note_leaver(n, owner, known, tally, leaving):  # type: ignore[no-untyped-def]
    """Count a particle that leaves, and list its place where there is room."""
    if not (known >> owner) & 1:
        cuda.atomic.min(tally, ASTRAY, np.int64(n))
        return
    cuda.atomic.add(tally, np.uint32(owner), 1)
    slot = cuda.atomic.add(tally, LEFT, 1)
    if slot < leaving.size:
        leaving[np.uint64(slot)] = np.int64(n)


@inlined
def _pull(charge, dx, dy):  # type: ignore[no-untyped-def]
    """A corner's charge over the cubed distance."""
    square = mul(dx, dx) + mul(dy, dy)
    return charge / mul(square, sqrt(square))


@inlined
def _wrapped(to, size):  # type: ignore[no-untyped-def]
    """A coordinate on the periodic grid; nothing moves by more than its size and a cell."""
    turn = 0.0
    if to >= size:
        turn = size
    if to >= size + size:
        turn = size + size
    if to < 0.0:
        turn = -size
    return to - turn


@inlined
def _inside(x, y, cells):  # type: ignore[no-untyped-def]
    """Whether a place is in a block's cells."""
    return x >= cells[0] and x < cells[1] and y >= cells[2] and y < cells[3]


@kernel(
    "void(uint64, uint32, float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    "int8[::1], uint64, UniTuple(float64, 9), float64, int64, uint8[::1], int64[::1], int64[::1])"
)
def _push(count, steps, x, y, vx, vy, charge, mesh, height, frame, size,
          known, owners, tally, leaving):  # type: ignore[no-untyped-def]  # fmt: skip
    n = np.uint32(_thread())  # `once` tests a 64-bit index for negative ones
    if n >= count:
        return
    at_x, at_y, mine = once(x, n), once(y, n), once(charge, n)
    by_x, by_y = once(vx, n), once(vy, n)
    for _ in range(steps):
        column = np.float64(np.uint32(at_x))  # rounds down, as none is negative
        row = np.float64(np.uint32(at_y))
        corner = np.uint64(np.uint32(_ahead(column, frame[0], size))) * height
        corner += np.uint64(np.uint32(_ahead(row, frame[8], size)))
        if corner >= np.uint64(mesh.size) - height - np.uint64(1):
            corner = np.uint64(0)  # of no number: that is lost, but first its force is computed
        beside = corner + height
        dx, dy = at_x - column, at_y - row
        ex, ey = dx - 1.0, dy - 1.0
        f00 = _pull(np.float64(mesh[corner]), dx, dy)
        f01 = _pull(np.float64(mesh[corner + np.uint64(1)]), dx, ey)
        f10 = _pull(np.float64(mesh[beside]), ex, dy)
        f11 = _pull(np.float64(mesh[beside + np.uint64(1)]), ex, ey)
        ax = mul(mine, mul(dx, f00 + f01) + mul(ex, f10 + f11))
        ay = mul(mine, mul(dy, f00 + f10) + mul(ey, f01 + f11))
        at_x = _wrapped(at_x + (by_x + mul(0.5, ax)), size)
        at_y = _wrapped(at_y + (by_y + mul(0.5, ay)), size)
        by_x += ax
        by_y += ay
    x[n], y[n], vx[n], vy[n] = at_x, at_y, by_x, by_y
    owner = _owner_of(at_x, at_y, frame, size)
    owners[n] = owner
    if owner != HERE:
        _note_leaver(n, owner, known, tally, leaving)


def push(
    count: int, steps: int, x: Any, y: Any, vx: Any, vy: Any, charge: Any, mesh: Any,
    frame: np.ndarray, size: float, known: int, owners: Any, tally: Any, leaving: Any,
) -> None:  # fmt: skip
    """Move ``count`` particles by some ``steps``, and list and count those that leave.

    As the CPU's, but the ``tally`` must be clean of leavers, as `pack` and `close_gaps` leave it,
    and those that leave are listed in no order.
    """
    if count:
        limits, height = tuple(frame.tolist()), mesh.shape[1]
        _push[*_grid(count), x.stream](
            count, steps, x, y, vx, vy, charge, flat(mesh), height, limits, size,
            known, owners, tally, leaving,
        )  # fmt: skip


# Leaving and coming ------------------------------------------------------------------------------


@kernel("void(int64[::1])")
def _forget_leavers(tally):  # type: ignore[no-untyped-def]
    tally[np.uint32(cuda.threadIdx.x)] = 0


@kernel("void(uint64, uint8[::1], int64, int64[::1], int64[::1])")
def _find_leaving(count, owners, known, tally, leaving):  # type: ignore[no-untyped-def]
    n = _thread()
    if n < count and owners[n] != HERE:
        _note_leaver(n, np.int64(owners[n]), known, tally, leaving)


def find_leaving(count: int, owners: Any, known: int, tally: Any, leaving: Any) -> None:
    """List and count again those that the last push found to leave, with more room."""
    _forget_leavers[1, LEFT + 1, tally.stream](tally)
    if count:
        launch = *_grid(count), tally.stream
        _find_leaving[launch](count, owners, known, tally, leaving)


@kernel(
    f"void(uint64, int64[::1], uint8[::1], int64[::1], {PARTICLES}, float64[::1],"
    f"UniTuple(int64, {OWNERS}))"
)
def _pack(total, leaving, owners, tally, x, y, vx, vy, charge, ids, cells, motions,
          message, starts):  # type: ignore[no-untyped-def]  # fmt: skip
    slot = _thread()
    if slot == 0:
        tally[LEFT] = 0
    if slot >= total:
        return
    n = np.uint64(leaving[slot])
    owner = np.uint32(owners[n])
    start = starts[0]
    for other in range(1, OWNERS):  # choices, as an index would put the tuple in local memory
        if owner == other:
            start = starts[other]
    row = cuda.atomic.sub(tally, owner, 1) - 1
    at = np.uint64(start) + np.uint64(8) * np.uint64(row)
    message[at], message[at + np.uint64(1)], message[at + np.uint64(2)] = x[n], y[n], vx[n]
    message[at + np.uint64(3)], message[at + np.uint64(4)] = vy[n], charge[n]
    message[at + np.uint64(5)] = from_bits(ids[n])
    message[at + np.uint64(6)] = from_bits(cells[n])
    message[at + np.uint64(7)] = from_bits(motions[n])


def pack(
    total: int, leaving: Any, owners: Any, tally: Any, arrays: tuple[Any, ...], messages: Any
) -> None:
    """Copy the first ``total`` of the ``leaving`` particles into the message of their owner's edge.

    ``messages``: a `bundle.Bundle`, keyed by edge. The tally of leavers is used up thereby, down to
    zero; rows come in no order.
    """
    if total:
        starts = [0] * OWNERS
        for edge, start in messages.starts.items():
            starts[owner_at(edge)] = start
        launch = *_grid(total), tally.stream
        _pack[launch](total, leaving, owners, tally, *arrays, messages.buffer, tuple(starts))


@kernel(
    f"void(float64[::1], UniTuple(int64, {PARTS}), UniTuple(int64, {PARTS}),"
    f"UniTuple(int64, {PARTS}), UniTuple(float64, 4), int64[::1], int64, int64, uint8[::1],"
    f"int64[::1], {PARTICLES})"
)
def _unpack(message, starts, ends, rows, cell, gaps, free, count, owners, tally,
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
        cuda.atomic.min(tally, MISPLACED, row)
    x[at], y[at], vx[at] = to_x, to_y, message[m + np.uint64(2)]
    vy[at], charge[at] = message[m + np.uint64(3)], message[m + np.uint64(4)]
    ids[at] = bits(message[m + np.uint64(5)])
    cells[at] = bits(message[m + np.uint64(6)])
    motions[at] = bits(message[m + np.uint64(7)])


def _batches(came: Mapping[Any, Any]) -> Iterable[tuple[Any, list[tuple[int, ...]]]]:
    """Buffers, and of each message in it that is not empty where it begins, rows, and first row."""
    batches: dict[int, tuple[Any, list[tuple[int, ...]]]] = {}
    first = 0
    for parcel in came.values():
        rows = parcel.shape[0]
        if rows:
            _, parts = batches.setdefault(id(parcel.bundle), (parcel.bundle.buffer, []))
            parts.append((parcel.start, rows, first))
        first += rows
    return batches.values()


def unpack(
    came: Mapping[Any, Any], frame: np.ndarray, gaps: Any, free: int, count: int, owners: Any,
    tally: Any, arrays: tuple[Any, ...],
) -> None:  # fmt: skip
    """Put messages into the first ``free`` of the ``gaps`` and, when full, behind ``count``.

    As the CPU's. ``came``: `bundle.Parcel` by edge; those in one buffer take one launch.
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
        _unpack[*_grid(threads), tally.stream](
            buffer, tuple(starts), tuple(ends), tuple(firsts), cell,
            gaps, free, count, owners, tally, *arrays,
        )  # fmt: skip


def row_of(message: Any, row: int) -> np.ndarray:
    """One row of a message, (8,) float64, on the host."""
    start = message.start + 8 * row
    return to_host(message.bundle.buffer)[start : start + 8]


# Order -------------------------------------------------------------------------------------------


@kernel("void(uint64, uint64[::1], uint64[::1])")
def _copy(count, values, copy):  # type: ignore[no-untyped-def]
    n = _thread()
    if n < count:
        copy[n] = values[n]


def grown(array: Any, used: int, room: int) -> Any:
    """A longer array that begins with the ``used`` elements of this one."""
    longer = empty(room, array.dtype, array.stream)
    if used:
        words = array.view(np.uint64), longer.view(np.uint64)
        _copy[*_grid(used), array.stream](used, *words)
    return longer


@kernel("void(uint64, uint64, uint8[::1], int64[::1], uint64[::1])")
def _list_tail(first, count, owners, tally, spare):  # type: ignore[no-untyped-def]
    n = first + _thread()
    if n == first:
        tally[LEFT] = 0
        tally[HOLES] = 0
    if n < count and owners[n] == HERE:
        spare[np.uint64(cuda.atomic.add(tally, TAIL, 1))] = n


@kernel(f"void(uint64, int64[::1], uint64, uint64, int64[::1], uint64[::1], {PARTICLES})")
def _fill_holes(kept, gaps, first, end, tally, spare,
                x, y, vx, vy, charge, ids, cells, motions):  # type: ignore[no-untyped-def]  # fmt: skip
    at = first + _thread()
    if at == first:
        tally[TAIL] = 0
    if at >= end:
        return
    to = np.uint64(gaps[at])
    if to >= kept:
        return
    n = spare[np.uint64(cuda.atomic.add(tally, HOLES, 1))]
    x[to], y[to], vx[to], vy[to], charge[to] = x[n], y[n], vx[n], vy[n], charge[n]
    ids[to], cells[to], motions[to] = ids[n], cells[n], motions[n]


def close_gaps(
    count: int, gaps: Any, first: int, end: int, owners: Any, tally: Any, spare: Any,
    arrays: tuple[Any, ...],
) -> None:  # fmt: skip
    """Move those of the last of ``count`` particles that stay into ``gaps`` [first, end) before.

    The gaps may be in any order. ``owners`` (count,): those that stay are `HERE`. Uses ``spare``
    and the ``tally``, and leaves that clean. There are as many holes before the end as particles
    behind it: both kernels hand out numbers to them, and those of one number meet.
    """
    if first >= end:
        return
    left = end - first
    launch = *_grid(left), tally.stream
    _list_tail[launch](count - left, count, owners, tally, spare)
    _fill_holes[launch](count - left, gaps, first, end, tally, spare, *arrays)


@inlined
def _run_end(n, count, x, column):  # type: ignore[no-untyped-def]
    """Behind the last of the particles from ``n`` on that are in the same column."""
    n += np.uint64(1)
    while n < count and np.uint32(x[n]) == column:
        n += np.uint64(1)
    return n


@kernel("void(int64[::1], uint64)")
def _clear(starts, count):  # type: ignore[no-untyped-def]
    n = _thread()
    if n < count:
        starts[n] = 0


@kernel("void(uint64, float64[::1], uint32, int64[::1])")
def _count_by_column(count, x, x0, starts):  # type: ignore[no-untyped-def]
    n = np.uint64(RUN) * _thread()
    end = min(n + np.uint64(RUN), count)
    while n < end:
        column, begin = np.uint32(x[n]), n
        n = _run_end(n, end, x, column)
        cuda.atomic.add(starts, column - x0, np.int64(n - begin))


@kernel("void(uint64, uint64, int64[::1], int64[::1])")
def _sum_chunks(columns, chunk, starts, sums):  # type: ignore[no-untyped-def]
    mine = np.uint64(cuda.threadIdx.x)
    total = np.int64(0)
    n = mine * chunk
    while n < min((mine + np.uint64(1)) * chunk, columns):
        total += starts[n]
        n += np.uint64(1)
    sums[mine] = total


@kernel("void(uint64, uint64, int64[::1], int64[::1])")
def _add_before(columns, chunk, starts, sums):  # type: ignore[no-untyped-def]
    mine = np.uint64(cuda.threadIdx.x)
    total = np.int64(0)
    n = np.uint64(0)
    while n < mine:
        total += sums[n]
        n += np.uint64(1)
    n = mine * chunk
    while n < min((mine + np.uint64(1)) * chunk, columns):
        here = starts[n]
        starts[n] = total
        total += here
        n += np.uint64(1)


@kernel("void(uint64, float64[::1], uint32, int64[::1], int32[::1])")
def _choose_places(count, x, x0, starts, places):  # type: ignore[no-untyped-def]
    n = np.uint64(RUN) * _thread()
    end = min(n + np.uint64(RUN), count)
    while n < end:
        column, begin = np.uint32(x[n]), n
        n = _run_end(n, end, x, column)
        place = cuda.atomic.add(starts, column - x0, np.int64(n - begin))
        while begin < n:
            places[begin] = place
            begin += np.uint64(1)
            place += 1


def places_by_column(count: int, x: Any, x0: float, starts: Any, places: Any) -> None:
    """Where each particle goes so that they lie column by column: ``places`` (count,).

    ``starts`` (width + 1,) is work space. Neighbours that are in one column are handed out places
    together, in a run, so that most atomics fall away and most neighbours remain neighbours.
    """
    columns, stream, corner = starts.shape[0], x.stream, int(x0)
    if not count:
        return
    _clear[*_grid(columns), stream](starts, columns)
    launch = *_grid(-(-count // RUN)), stream
    _count_by_column[launch](count, x, corner, starts)
    sums, chunk = empty(CHUNKS, np.int64, stream), -(-columns // CHUNKS)
    _sum_chunks[1, CHUNKS, stream](columns, chunk, starts, sums)
    _add_before[1, CHUNKS, stream](columns, chunk, starts, sums)
    _choose_places[launch](count, x, corner, starts, places)


@kernel("void(uint64, int32[::1], uint64[::1], uint64[::1])")
def _scatter(count, places, values, moved):  # type: ignore[no-untyped-def]
    n = _thread()
    if n < count:
        moved[np.uint32(places[n])] = values[n]


def reorder(count: int, places: Any, spare: Any, arrays: tuple[Any, ...]) -> None:
    """Put each of ``count`` particles into its place, one array after another."""
    if count:
        launch = *_grid(count), spare.stream
        for array in arrays:
            values = array.view(np.uint64)
            _scatter[launch](count, places, values, spare)
            _copy[launch](count, spare, values)


# Events and checks -------------------------------------------------------------------------------


@kernel(
    "void(uint64, float64[::1], float64[::1], int64[::1], UniTuple(float64, 4), uint64, uint64,"
    "uint8[::1], int64[::1], int64[::1])"
)
def _find_removed(count, x, y, ids, patch, seed, limit, owners,
                  tally, removed):  # type: ignore[no-untyped-def]  # fmt: skip
    n = _thread()
    if n >= count:
        return
    owners[n] = HERE
    if _inside(x[n], y[n], patch) and _mix(np.uint64(ids[n]) + seed) <= limit:
        owners[n] = LOST
        removed[np.uint64(cuda.atomic.add(tally, LEFT, 1))] = np.int64(n)


def find_removed(
    count: int, x: Any, y: Any, ids: Any, patch: np.ndarray, seed: np.uint64, limit: np.uint64,
    owners: Any, tally: Any, removed: Any,
) -> None:  # fmt: skip
    """List the places of the particles that a removal takes from a ``patch``, in no order.

    As the CPU's; the ``tally`` must be clean of leavers.
    """
    if count:
        cells = tuple(map(float, patch))
        launch = *_grid(count), tally.stream
        _find_removed[launch](count, x, y, ids, cells, seed, limit, owners, tally, removed)


@inlined
def _distance(at, cell, shift, edge, size):  # type: ignore[no-untyped-def]
    """How far a coordinate is from where it must be, on the periodic grid."""
    off = abs(at - (np.float64((cell + shift) % edge) + 0.5))
    return min(off, size - off)


@kernel(
    "void(uint64, float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], float64,"
    "int64[::1])"
)
def _largest_error(count, x, y, cells, motions, shifts, size, worst):  # type: ignore[no-untyped-def]
    n, edge, mine = _thread(), np.int64(size), np.int64(0)
    while n < count:
        motion = np.uint64(2) * np.uint64(motions[n])
        shift_x, shift_y = shifts[motion], shifts[motion + np.uint64(1)]
        off_x = _distance(x[n], cells[n] // edge, shift_x, edge, size)
        off_y = _distance(y[n], cells[n] % edge, shift_y, edge, size)
        off = bits(max(off_x, off_y))
        if x[n] + y[n] != x[n] + y[n]:
            off = np.int64(NAN)
        mine = max(mine, off)
        n += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.x)
    if mine > 0:
        cuda.atomic.max(worst, 0, mine)


def largest_error(
    count: int, x: Any, y: Any, cells: Any, motions: Any, shifts: Any, size: float
) -> float:
    """How far the particle that is farthest off is from where it must be, in cells; NaN for NaN.

    ``shifts`` (motions, 2). The bits of floats that are not negative have the order of integers,
    and a NaN's are above all. Waits for the device.
    """
    worst = zeros(1, np.int64, x.stream)
    launch = min(blocks(count, THREADS), MANY_BLOCKS), THREADS, x.stream
    if count:
        _largest_error[launch](count, x, y, cells, motions, flat(shifts), size, worst)
    return float(to_host(worst).view(np.float64)[0])


@kernel("void(uint64, int64[::1], uint64[::1])")
def _sums_of_ids(count, ids, sums):  # type: ignore[no-untyped-def]
    n, plain, mixed = _thread(), np.uint64(0), np.uint64(0)
    while n < count:
        plain += np.uint64(ids[n])
        mixed += _mix(np.uint64(ids[n]))
        n += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.x)
    if plain or mixed:
        cuda.atomic.add(sums, 0, plain)
        cuda.atomic.add(sums, 1, mixed)


def sums_of_ids(count: int, ids: Any) -> np.ndarray:
    """Number, sum of ids and sum of mixed ids, modulo 2^64: (3,) uint64. Waits for the device."""
    sums = zeros(2, np.uint64, ids.stream)
    if count:
        launch = min(blocks(count, THREADS), MANY_BLOCKS), THREADS, ids.stream
        _sums_of_ids[launch](count, ids, sums)
    return np.array([count, *to_host(sums)], np.uint64)
