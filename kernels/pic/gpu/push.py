"""Particles among fixed charges on the GPU, with the bits of the CPU.

`kernels.pic.interface` gives formula and arrays. A thread pushes one particle and does all that the
CPU does in several loops: force, push, owner, and if the particle leaves, a place in the list of
emigrants. Places in the list and rows of messages are handed out by atomic counters, so particles
may lie in another order in another run; no result depends on the order. Every product that is added
to something is rounded first (`mul`).

Cost of a push: 72 bytes of a particle (x, y, vx, vy both ways, the charge) and a byte of owner,
coalesced: 17 us per million particles at 4.3 TB/s. Four bytes of mesh are gathered; they come from
L1 while particles are sorted by column, otherwise from L2 (36 MB for 6000 x 6000 cells). 4 square
roots and 4 divisions are about 60 instructions in float64, and there are about 50 others: at 64 per
clock and multiprocessor they take half as long as the memory. To hide the latency of memory, a
thread loads all of its particle before it computes, and registers suffice for 4 blocks of 256
threads: 40 KB in flight per multiprocessor, where 25 KB are enough. Nothing is in local memory. In
the second and later steps of a launch there is no memory to wait for, and arithmetic is the limit.

Emigrants are few, a column in hundreds: three atomics for each cost little. No step waits for the
device: how many particles will leave in the next round is counted one round ahead, from the moves
of the problem, of those that stay by the push and of those that arrive by `unpack`. That costs few
instructions for a particle that is far from a side, and 8 bytes if there are several motions. The
messages of all edges are packed by one launch and unpacked by another; closing the remaining gaps
takes two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import cuda, inlined, kernel, mul, once, ported
from miniapps.devices.cuda.memory import address, flat
from miniapps.devices.cuda.primitives import launch, thread_index
from miniapps.devices.cuda.tasks import TABLE, launch_each_for_all, task_here
from miniapps.devices.cuda.unbranched import reciprocal, root
from miniapps.kernels.pic.counters import COUNTERS, FIRST_LOST, FORESEEN, HERE, LEFT
from miniapps.kernels.pic.cpu.push import ahead, owner_of
from miniapps.kernels.pic.gpu.tables import (
    CHARGE,
    COUNTERS_AT,
    MORE,
    MOTIONS,
    OWNERS_AT,
    ROOM,
    VX,
    VY,
    X,
    Y,
    bits_of,
    bytes_at,
    charges_at,
    first_words,
    floats_at,
    numbers_at,
    words_of,
)

# Words of a task of `push_all`, behind the first ones.
COUNT, STEPS, MESH, MESH_ROOM, HEIGHT, LEAVING, LEAVING_ROOM, SHIFTS, SHIFTS_ROOM, KNOWN, SIZE = (
    range(MORE, MORE + 11)
)
FRAME = MORE + 11
_ahead, _owner_of = ported(ahead), ported(owner_of, takes_arrays=True)


@inlined
def _note_emigrant(n, owner, known, counters, leaving):  # type: ignore[no-untyped-def]
    """Count a particle that leaves, and list its place if there is room."""
    if not (known >> owner) & 1:
        cuda.atomic.min(counters, FIRST_LOST, np.int64(n))
        return
    cuda.atomic.add(counters, np.uint32(owner), 1)
    slot = cuda.atomic.add(counters, LEFT, 1)
    if slot < leaving.size:
        leaving[np.uint64(slot)] = np.int64(n)


@inlined
def _pull(charge, dx, dy):  # type: ignore[no-untyped-def]
    """Return a corner's charge, a power of two, over the cubed distance."""
    square = mul(dx, dx) + mul(dy, dy)
    return mul(charge, reciprocal(mul(square, root(square))))


@inlined
def _wrapped(to, size):  # type: ignore[no-untyped-def]
    """Return a coordinate on the periodic grid; a move is at most the grid's size plus one cell."""
    turn = 0.0
    if to >= size:
        turn = size
    if to >= size + size:
        turn = size + size
    if to < 0.0:
        turn = -size
    return to - turn


@inlined
def inside(x, y, cells):  # type: ignore[no-untyped-def]
    """Return whether a position is in a block's cells."""
    return x >= cells[0] and x < cells[1] and y >= cells[2] and y < cells[3]


@inlined
def foresee(x, y, motion, shifts, frame, size, counters):  # type: ignore[no-untyped-def]
    """Count a particle for the block in which it will be after the next round, if it leaves."""
    at = np.uint64(2) * np.uint64(motion)
    if at >= np.uint64(shifts.size):  # of a particle that is not right
        at = np.uint64(0)
    to_x, to_y = x + shifts[at], y + shifts[at + np.uint64(1)]
    if inside(to_x, to_y, frame):  # nearly all: no warp goes on
        return
    owner = _owner_of(_wrapped(to_x, size), _wrapped(to_y, size), frame, size)
    if owner != HERE:
        cuda.atomic.add(counters, np.uint32(FORESEEN + owner), 1)


@inlined
def _push_one(count, steps, x, y, vx, vy, charge, mesh, height, frame, size,
              known, owners, counters, leaving, motions, shifts):  # type: ignore[no-untyped-def]  # fmt: skip
    """Push this thread's particle of a block."""
    n = np.uint32(thread_index())  # `once` tests a 64-bit index for a negative one
    if n >= count:
        return
    at_x, at_y, mine = once(x, n), once(y, n), once(charge, n)
    by_x, by_y = once(vx, n), once(vy, n)
    for _ in range(steps):
        column = np.float64(np.uint32(at_x))  # rounds down, as no coordinate is negative
        row = np.float64(np.uint32(at_y))
        corner = np.uint64(np.uint32(_ahead(column, frame[0], size))) * height
        corner += np.uint64(np.uint32(_ahead(row, frame[8], size)))
        if corner >= np.uint64(mesh.size) - height - np.uint64(1):
            corner = np.uint64(0)  # of NaN: the particle is lost, once its force is computed
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
    if owner != HERE:
        _note_emigrant(n, owner, known, counters, leaving)
        if shifts.size > 0 and not (known >> owner) & 1:
            owner = HERE
            vx[n], vy[n], charge[n] = 0.0, 0.0, 0.0
            motions[n] = -1
    elif shifts.size > 0 and known:
        motion = np.int64(0)
        if shifts.size > 2:
            motion = motions[n]
        foresee(at_x, at_y, motion, shifts, frame, size, counters)
    owners[n] = owner


@kernel(
    "void(uint64, uint32, float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    "int8[::1], uint64, UniTuple(float64, 9), float64, int64, uint8[::1], int64[::1], int64[::1],"
    "int64[::1], float64[::1])"
)
def _push(count, steps, x, y, vx, vy, charge, mesh, height, frame, size,
          known, owners, counters, leaving, motions, shifts):  # type: ignore[no-untyped-def]  # fmt: skip
    _push_one(
        count, steps, x, y, vx, vy, charge, mesh, height, frame, size,
        known, owners, counters, leaving, motions, shifts,
    )  # fmt: skip


@kernel(f"void({TABLE})", max_registers=64)  # so that four thread blocks fit, as of `_push`
def _push_all(count, tasks):  # type: ignore[no-untyped-def]
    at, mine = task_here(count, tasks)
    if mine:
        reals = tasks.view(np.float64)
        room = np.int64(tasks[at, ROOM])
        x = floats_at(np.int64(tasks[at, X]), room)
        y = floats_at(np.int64(tasks[at, Y]), room)
        vx = floats_at(np.int64(tasks[at, VX]), room)
        vy = floats_at(np.int64(tasks[at, VY]), room)
        charge = floats_at(np.int64(tasks[at, CHARGE]), room)
        mesh = charges_at(np.int64(tasks[at, MESH]), np.int64(tasks[at, MESH_ROOM]))
        owners = bytes_at(np.int64(tasks[at, OWNERS_AT]), room)
        counters = numbers_at(np.int64(tasks[at, COUNTERS_AT]), COUNTERS)
        leaving = numbers_at(np.int64(tasks[at, LEAVING]), np.int64(tasks[at, LEAVING_ROOM]))
        motions = numbers_at(np.int64(tasks[at, MOTIONS]), room)
        shifts = floats_at(np.int64(tasks[at, SHIFTS]), np.int64(tasks[at, SHIFTS_ROOM]))
        _push_one(
            tasks[at, COUNT], np.uint32(tasks[at, STEPS]), x, y, vx, vy, charge, mesh,
            tasks[at, HEIGHT], reals[at, FRAME:], reals[at, SIZE],
            np.int64(tasks[at, KNOWN]), owners, counters, leaving, motions, shifts,
        )  # fmt: skip


def push_all(tasks: Sequence[tuple[Any, ...]]) -> None:
    """Do `push` for many blocks in one stream by one launch; tasks are its arguments."""
    tasks = [task for task in tasks if task[0]]
    if len(tasks) == 1:
        push(*tasks[0])
    elif tasks:
        rows = [(task[0], _words(*task)) for task in tasks]
        launch_each_for_all(tasks[0][2].stream, ([_push_all], rows))


def _words(
    count: int, steps: int, x: Array, y: Array, vx: Array, vy: Array, charge: Array, mesh: Array,
    frame: np.ndarray, size: float, known: int, owners: Array, counters: Array, leaving: Array,
    motions: Array, shifts: Array,
) -> list[int]:  # fmt: skip
    """Return the words of a task, given the arguments of `push`."""
    arrays = x, y, vx, vy, charge, None, None, motions
    return [
        *first_words(arrays, owners, counters), count, steps, address(mesh), mesh.size,
        mesh.shape[1], *words_of(leaving), *words_of(shifts), known, *bits_of(size, *frame),
    ]  # fmt: skip


def push(
    count: int, steps: int, x: Array, y: Array, vx: Array, vy: Array, charge: Array, mesh: Array,
    frame: np.ndarray, size: float, known: int, owners: Array, counters: Array, leaving: Array,
    motions: Array = None, shifts: Array = None,
) -> None:  # fmt: skip
    """Launch one thread per particle."""
    if shifts is None:
        motions, shifts = counters, x[:0]
    if count:
        limits, height = tuple(frame.tolist()), mesh.shape[1]
        _push[launch(count, x.stream)](
            count, steps, x, y, vx, vy, charge, flat(mesh), height, limits, size,
            known, owners, counters, leaving, motions, shifts,
        )  # fmt: skip


@kernel("void(int64[::1])")
def _forget_emigrants(counters):  # type: ignore[no-untyped-def]
    counters[np.uint32(cuda.threadIdx.x)] = 0


@kernel("void(uint64, uint8[::1], int64, int64[::1], int64[::1])")
def _find_leaving(count, owners, known, counters, leaving):  # type: ignore[no-untyped-def]
    n = thread_index()
    if n < count and owners[n] != HERE:
        _note_emigrant(n, np.int64(owners[n]), known, counters, leaving)


def find_leaving(count: int, owners: Array, known: int, counters: Array, leaving: Array) -> None:
    """Reset the counters, then launch one thread per particle."""
    _forget_emigrants[1, LEFT + 1, counters.stream](counters)
    if count:
        _find_leaving[launch(count, counters.stream)](count, owners, known, counters, leaving)
