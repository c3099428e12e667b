"""AMR on the GPU, with the bits of the CPU; `kernels.amr.interface` gives the formulas.

One launch makes a sweep. Thread blocks run in any order, so the grown values go to a second array:
another thread may still need the old ones. A thread marches along x through a column, of which it
keeps five values in registers. Its neighbours in the row come from L1, as the threads beside it
load them too.

Cost from memory, in bytes a point in float64: `sweep` 32, as ``u`` is read, ``new`` written, and
``sums`` both; and 2 or less for the 4 rows that thread blocks share, of 64 or more of the march.
`interpolate` 8 a point of ``u``. `check` 16.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import Kernel, blocks, cuda, kernel, mul, once
from miniapps.devices.cuda.memory import PinnedArray, PinnedCopy, flat, sent, zeros
from miniapps.kernels.halo.interface import Region, shape_of

IN_PLACE = False
WIDE = 128  # points of a row that a thread block sweeps or checks
ACROSS, DOWN = 32, 8  # threads of one that interpolates
MARCHES = 64, 32, 16, 8  # rows of a march: the most that leave `MANY` thread blocks
MANY = 4096  # about two times as many as a GPU runs at once
BOUNDS = ", ".join(["uint64"] * 4)


@kernel("void(int64[::1], int64[::1], uint64)")
def _put(numbers, message, start):  # type: ignore[no-untyped-def]
    """Copy numbers to a place in the memory of messages."""
    n = np.uint64(cuda.threadIdx.x)
    message[start + n] = numbers[n]


def _sweeping(real: str) -> Kernel:
    """Return the kernel that sweeps arrays of a type."""
    arrays, numbers = ", ".join([f"{real}[::1]"] * 3), ", ".join([real] * 3)

    @kernel(f"void({arrays}, {numbers}, uint64, uint64, {BOUNDS}, {BOUNDS})")
    def sweep(  # type: ignore[no-untyped-def]
        u, new, sums, near, far, one, row, march, x0, x1, y0, y1, low, high, left, right
    ):
        next_, second = np.uint64(1), np.uint64(2)
        j = left + np.uint64(cuda.blockIdx.x) * np.uint64(WIDE) + np.uint64(cuda.threadIdx.x)
        if j < right:
            i = low + np.uint64(cuda.blockIdx.y) * march
            end, inside = min(i + march, high), j >= y0 and j < y1
            at = i * row + j
            below, before, here, behind = u[at - row - row], u[at - row], u[at], u[at + row]
            while i < end:
                above, total = u[at + row + row], once(sums, at)
                if inside and i >= x0 and i < x1:
                    beside = (behind - before) + (u[at + next_] - u[at - next_])
                    beyond = (above - below) + (u[at + second] - u[at - second])
                    sums[at] = total + (mul(near, beside) + mul(far, beyond))
                new[at] = here + one
                below, before, here, behind = before, here, behind, above
                i += next_
                at += row

    return sweep


def _interpolating(real: str) -> Kernel:
    """Return the kernel that interpolates arrays of a type."""
    array = f"{real}[::1]"

    @kernel(
        f"void({array}, uint64, uint64, {array}, uint64, {real}, uint64, uint64, uint64, {BOUNDS})"
    )
    def interpolate(  # type: ignore[no-untyped-def]
        coarse, rows, columns, u, row, part, level, first_x, first_y, x0, x1, y0, y1
    ):
        next_ = np.uint64(1)
        i = np.uint64(cuda.blockIdx.y) * np.uint64(DOWN) + np.uint64(cuda.threadIdx.y)
        j = np.uint64(cuda.blockIdx.x) * np.uint64(ACROSS) + np.uint64(cuda.threadIdx.x)
        if i < x1 - x0 and j < y1 - y0:
            inside = (next_ << level) - next_
            x, y = (first_x & inside) + i, (first_y & inside) + j
            # Small integers are exact in float32, and become numbers of the arrays' type by `part`.
            right, up = mul(part, np.float32(x & inside)), mul(part, np.float32(y & inside))
            one = mul(part, np.float32(next_ << level))
            low, here = (x >> level) * columns, y >> level
            high = min((x >> level) + next_, rows - next_) * columns
            there = min(here + next_, columns - next_)
            before = mul(coarse[high + here], right) + mul(coarse[low + here], one - right)
            behind = mul(coarse[high + there], right) + mul(coarse[low + there], one - right)
            u[(x0 + i) * row + y0 + j] = mul(behind, up) + mul(before, one - up)

    return interpolate


def _checking(real: str) -> Kernel:
    """Return the kernel that checks arrays of a type."""
    arrays, numbers = f"{real}[::1], {real}[::1]", ", ".join(["float64"] * 4)

    @kernel(f"void({arrays}, float64[::1], {numbers}, uint64, uint64, {BOUNDS}, {BOUNDS})")
    def check(  # type: ignore[no-untyped-def]
        u, sums, found, first_x, first_y, spacing, due, row, march, x0, x1, y0, y1,
        low, high, left, right
    ):  # fmt: skip
        mine = cuda.shared.array((2, WIDE), "float64")
        next_, thread = np.uint64(1), np.uint64(cuda.threadIdx.x)
        column = np.uint64(cuda.blockIdx.x) * np.uint64(WIDE) + thread
        before, norm, wrong = np.uint64(cuda.blockIdx.y) * march, 0.0, 0.0
        if column < right - left:
            i, j = low + before, left + column
            end, inside = min(i + march, high), j >= y0 and j < y1
            x = first_x + mul(spacing, np.float64(before))
            y, at = first_y + mul(spacing, np.float64(column)), i * row + j
            while i < end:
                value, total, wanted = once(u, at), np.float64(once(sums, at)), 0.0
                if inside and i >= x0 and i < x1:
                    norm, wanted = norm + abs(total), due
                if value != x + y:
                    wrong += 1.0
                if total != wanted:
                    wrong += 1.0
                x += spacing
                i += next_
                at += row
        mine[0, thread], mine[1, thread] = norm, wrong
        cuda.syncthreads()
        if thread < np.uint64(2):  # the first adds up the norms, the second the wrong numbers
            added = 0.0
            for n in range(WIDE):
                added += mine[thread, n]
            cuda.atomic.add(found, thread, added)

    return check


_sweep64, _sweep32 = _sweeping("float64"), _sweeping("float32")
_interpolate64, _interpolate32 = _interpolating("float64"), _interpolating("float32")
_check64, _check32 = _checking("float64"), _checking("float32")


def _marches(own: Region) -> tuple[tuple[int, int], int]:
    """Return the grid of thread blocks for a region, and the rows of a march."""
    rows, columns = shape_of(own)
    across = blocks(columns, WIDE)
    enough = (march for march in MARCHES if across * blocks(rows, march) >= MANY)
    march = next(enough, MARCHES[-1])
    return (across, blocks(rows, march)), march


def sweep(u: Array, new: Array, sums: Array, scale: int, active: Region, own: Region) -> None:
    """Launch a thread for each column of each march."""
    grid, march = _marches(own)
    chosen, real = (_sweep64, _sweep32)[u.dtype.itemsize == 4], u.dtype.type
    chosen[grid, WIDE, new.stream](
        flat(u), flat(new), flat(sums), real(scale / 4), real(scale / 8), real(1),
        u.shape[1], march, *active, *own,
    )  # fmt: skip


def interpolate(coarse: Array, u: Array, level: int, first: tuple[int, int], own: Region) -> None:
    """Launch a thread for each point."""
    rows, columns = shape_of(own)
    where = (blocks(columns, ACROSS), blocks(rows, DOWN)), (ACROSS, DOWN), u.stream
    chosen = (_interpolate64, _interpolate32)[u.dtype.itemsize == 4]
    part = u.dtype.type(0.5**level)
    chosen[where](flat(coarse), *coarse.shape, flat(u), u.shape[1], part, level, *first, *own)


def check(
    u: Array, sums: Array, first: tuple[float, float], spacing: float, due: float,
    active: Region, own: Region,
) -> Any:  # fmt: skip
    """Launch a thread for each column of each march; a thread block adds what it found at once."""
    grid, march = _marches(own)
    found = zeros(2, np.float64, u.stream)
    chosen = (_check64, _check32)[u.dtype.itemsize == 4]
    chosen[grid, WIDE, u.stream](
        flat(u), flat(sums), found, *first, spacing, due, u.shape[1], march, *active, *own
    )
    return PinnedCopy.begun(found)


def report(row: np.ndarray, message: Any) -> None:
    """Copy the numbers to the device, and there into the message."""
    memory, start = message.memory
    _put[1, row.size, memory.stream](sent(row, memory.stream), memory, start)


def reported(message: Any) -> Any:
    """Begin to copy the message."""
    message.begin_reading()
    return PinnedArray.begun(message.array)
