"""LeanMD's atoms and ghosts that go from block to block, on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.buffers import MessageView
from miniapps.devices.cuda.compiler import blocks, cuda, inlined, kernel
from miniapps.devices.cuda.memory import PinnedCopy, PinnedNumber, empty, flat
from miniapps.devices.cuda.primitives import CHUNK, FEW_THREADS, fill, launch, scan
from miniapps.kernels.leanmd.gpu.arrays import triple
from miniapps.kernels.leanmd.gpu.interactions import WIDTH
from miniapps.kernels.leanmd.units import FAR


@inlined
def _groups(value, below, above):  # type: ignore[no-untyped-def]
    """Return whether a value is less than ``below``, from ``above`` on, or neither."""
    under, over = value < below, value >= above
    return under, over, not (under or over)


CHOOSE = tuple(
    f"void(uint32, {kind}[::1], float64, float64, uint32, int64[::1]{{}})"
    for kind in ("float64", "uint32")
)


@kernel(*(signature.format("") for signature in CHOOSE))
def _count_groups(count, values, below, above, chunks, counts):  # type: ignore[no-untyped-def]
    chunk = np.uint64(cuda.grid(1))
    if chunk < chunks:
        low = high = rest = np.int64(0)
        for n in range(chunk * np.uint64(CHUNK), (chunk + np.uint64(1)) * np.uint64(CHUNK)):
            if n < count:
                under, over, neither = _groups(values[n], below, above)
                low += np.int64(under)
                high += np.int64(over)
                rest += np.int64(neither)
        counts[chunk] = low
        counts[chunks + chunk] = high
        counts[np.uint64(2) * chunks + chunk] = rest


@kernel(*(signature.format(", uint32[::1], int64[::1]") for signature in CHOOSE))
def _number_groups(  # type: ignore[no-untyped-def]
    count, values, below, above, chunks, counts, which, sizes
):
    chunk = np.uint64(cuda.grid(1))
    if chunk < chunks:
        a = counts[chunk]
        b = counts[chunks + chunk]
        c = counts[np.uint64(2) * chunks + chunk]
        for n in range(chunk * np.uint64(CHUNK), (chunk + np.uint64(1)) * np.uint64(CHUNK)):
            if n < count:
                under, over, neither = _groups(values[n], below, above)
                if under:
                    which[a] = n
                    a += 1
                if over:
                    which[b] = n
                    b += 1
                if neither:
                    which[c] = n
                    c += 1
        if chunk + np.uint64(1) == chunks:
            sizes[0], sizes[1], sizes[2] = a, b - a, c - b


def choose(count: int, values: Array, below: float, above: float, which: Array) -> Any:
    """Count the groups of each chunk of values, scan, and number chunk by chunk."""
    if count == 0:
        return 0, 0, 0
    chunks = blocks(count, CHUNK)
    counts = empty((3 * chunks,), np.int64, which.stream)
    sizes = empty((3,), np.int64, which.stream)
    what = count, values, below, above, chunks, counts
    _count_groups[launch(chunks, which.stream, FEW_THREADS)](*what)
    scan(counts)
    _number_groups[launch(chunks, which.stream, FEW_THREADS)](*what, which, sizes)
    return PinnedCopy.begun(sizes)


@kernel(
    "void(uint32, uint32, uint32, float64[:, ::1], uint32[::1], uint32, float64, float64,"
    "float64[::1], int64, int64)"
)
def _gather(  # type: ignore[no-untyped-def]
    height, low, high, rows, which, axis, over_low, over_high, buffer, start_low, start_high
):
    thread = np.int64(cuda.grid(1))
    if thread >= np.int64(low) + np.int64(high):
        return
    is_low = thread < low
    into = start_low + thread if is_low else start_high + thread - low
    over, size = (over_low, np.int64(low)) if is_low else (over_high, np.int64(high))
    atom = which[thread]
    for row in range(height):
        value = rows[row, atom]
        buffer[into] = value + over if row == axis else value
        into += size


def gather(
    rows: Array, which: Array, sizes: Sequence[int], axis: int, over: Sequence[float],
    messages: Sequence[Any],
) -> None:  # fmt: skip
    """Launch one thread per atom for both messages, which are in one message buffer."""
    (buffer, low), (_, high) = (message.memory for message in messages)
    if sum(sizes):
        _gather[launch(sum(sizes), rows.stream, FEW_THREADS)](
            messages[0].shape[0], *sizes, rows, which, axis, *map(float, over), buffer, low, high
        )


PLACE = tuple(
    f"void(uint32, {kind}[:, ::1], uint32, uint32, {kind}[::1], int64, uint32, {kind}[::1], int64)"
    for kind in ("float64", "int64")
)


@kernel(*PLACE)
def _place(height, rows, first, size_a, a, start_a, size_b, b, start_b):  # type: ignore[no-untyped-def]
    thread = np.int64(cuda.grid(1))
    column = np.int64(first) + thread
    if thread < size_a:
        for row in range(np.int64(height)):
            rows[row, column] = a[start_a + row * size_a + thread]
    elif thread < np.int64(size_a) + np.int64(size_b):
        for row in range(np.int64(height)):
            rows[row, column] = b[start_b + row * size_b + thread - size_a]


def _source(part: Any) -> tuple[int, Any, int]:
    """Return the columns of an array or a message, its flat memory, and where it begins there."""
    memory, start = part.memory if isinstance(part, MessageView) else (flat(part), 0)
    return part.shape[1], memory, start


def place(rows: Array, first: int, parts: Sequence[Any]) -> None:
    """Launch one thread per column for both parts."""
    size = sum(part.shape[1] for part in parts)
    if size:
        sources = [_source(part) for part in (*parts, *parts)[:2]]
        if len(parts) == 1:
            sources[1] = 0, *sources[1][1:]
        height = parts[0].shape[0]
        _place[launch(size, rows.stream, FEW_THREADS)](
            height, rows, first, *sources[0], *sources[1]
        )


@kernel("void(uint32, uint32, float64[:, ::1], uint32[::1], float64[:, ::1])")
def _arrange(first, count, rows, order, into):  # type: ignore[no-untyped-def]
    n = np.uint64(cuda.grid(1))
    if n < count:
        atom = order[np.uint64(first) + n]
        for row in range(into.shape[0]):
            into[row, n] = rows[row, atom]


def arrange(first: int, count: int, rows: Array, order: Array, into: Array) -> None:
    """Launch one thread per column."""
    if count:
        _arrange[launch(count, into.stream, FEW_THREADS)](first, count, rows, order, into)


@kernel("void(float64[:, ::1], uint32)")
def _end_here(position, total):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < WIDTH:
        for axis in range(3):
            position[axis, np.int64(total) + n] = FAR * (n + 1)


def end_here(position: Array, total: int) -> None:
    """Launch `WIDTH` threads."""
    _end_here[launch(WIDTH, position.stream, FEW_THREADS)](position, total)


@kernel("void(uint32, float64[:, ::1], UniTuple(float64, 3), UniTuple(float64, 3), int64[::1])")
def _first_outside(count, position, low, high, first):  # type: ignore[no-untyped-def]
    i = np.int64(cuda.grid(1))
    if i < count:
        for axis in range(3):
            x = position[axis, i]
            if x < low[axis] or x >= high[axis]:
                cuda.atomic.min(first, 0, i)


def first_outside(count: int, position: Array, low: np.ndarray, high: np.ndarray) -> Any:
    """Launch one thread per atom; one outside costs an atomic."""
    if count == 0:
        return count
    first = empty((1,), np.int64, position.stream)
    fill(1, first, count)
    box = triple(low), triple(high)
    _first_outside[launch(count, position.stream, FEW_THREADS)](count, position, *box, first)
    return PinnedNumber.begun(first)
