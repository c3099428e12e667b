"""Exact sums on the GPU, with the bits of the CPU: every number is added as an integer.

A thread block has an accumulator in shared memory, to which its threads add three digits per
number, nine per product, by atomics; it is added to the one in global memory once. The digits are
the same in every order. Cost: 8 bytes per number, 16 per product, and these atomics.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import Kernel, bits, blocks, cuda, inlined, kernel, ported
from miniapps.devices.cuda.primitives import THREADS, thread_index
from miniapps.kernels.exact_sum import DIGITS, LOWEST, WORDS, cpu, require_alike

MANY_BLOCKS = 1024  # enough to fill a GPU, where threads take many numbers each
AT_ONCE = 1 << 28  # numbers whose digits an int64 can add
REALS = "float64", "float32"
digits_of, split = ported(cpu.digits_of), ported(cpu.split)
special, product_parts = ported(cpu.special), ported(cpu.product_parts)


@inlined
def add_integer(value, power, mine):  # type: ignore[no-untyped-def]
    """Add value * 2^power to the accumulator of a thread block."""
    k = (power - LOWEST) >> 5
    low, middle, high = digits_of(value, (power - LOWEST) & 31)
    cuda.atomic.add(mine, k, low)
    cuda.atomic.add(mine, k + 1, middle)
    cuda.atomic.add(mine, k + 2, high)


@inlined
def add_number(x, mine):  # type: ignore[no-untyped-def]
    """Add a number to the accumulator of a thread block."""
    which = special(x)
    if which:
        cuda.atomic.add(mine, which, np.int64(1))
    else:
        whole, power = split(bits(x))
        add_integer(whole, power, mine)


@inlined
def add_product(x, y, mine):  # type: ignore[no-untyped-def]
    """Add a product to the accumulator of a thread block."""
    if special(x) or special(y):
        cuda.atomic.add(mine, special(x * y), np.int64(1))
    else:
        whole_x, power_x = split(bits(x))
        whole_y, power_y = split(bits(y))
        low, middle, high = product_parts(whole_x, whole_y)
        add_integer(low, power_x + power_y, mine)
        add_integer(middle, power_x + power_y + 27, mine)
        add_integer(high, power_x + power_y + 54, mine)


@inlined
def clear(mine):  # type: ignore[no-untyped-def]
    """Set the accumulator of a thread block to zero."""
    k = cuda.threadIdx.x
    while k < WORDS:
        mine[k] = 0
        k += cuda.blockDim.x
    cuda.syncthreads()


@inlined
def flush(mine, words):  # type: ignore[no-untyped-def]
    """Add the accumulator of a thread block to the one in global memory."""
    cuda.syncthreads()
    k = cuda.threadIdx.x
    while k < WORDS:
        if mine[k] != 0:
            cuda.atomic.add(words, k, mine[k])
        k += cuda.blockDim.x


def _summing(real: str) -> Kernel:
    """Return the kernel that adds the numbers [first, end) of a type."""

    @kernel(f"void(uint64, uint64, {real}[::1], int64[::1])")
    def add(first, end, values, words):  # type: ignore[no-untyped-def]
        mine = cuda.shared.array(WORDS, "int64")
        clear(mine)
        n = first + thread_index()
        while n < end:
            add_number(np.float64(values[n]), mine)
            n += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.x)
        flush(mine, words)

    return add


def _multiplying(real: str) -> Kernel:
    """Return the kernel that adds the products [first, end) of a type."""

    @kernel(f"void(uint64, uint64, {real}[::1], {real}[::1], int64[::1])")
    def add(first, end, a, b, words):  # type: ignore[no-untyped-def]
        mine = cuda.shared.array(WORDS, "int64")
        clear(mine)
        n = first + thread_index()
        while n < end:
            add_product(np.float64(a[n]), np.float64(b[n]), mine)
            n += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.x)
        flush(mine, words)

    return add


SUM, DOT = tuple(map(_summing, REALS)), tuple(map(_multiplying, REALS))


@kernel("void(int64[::1])")
def carry(words):  # type: ignore[no-untyped-def]
    """Make an accumulator normal, in one thread."""
    over = np.int64(0)
    for k in range(DIGITS - 1):
        digit = words[k] + over
        words[k] = digit & 0xFFFFFFFF
        over = digit >> 32
    words[DIGITS - 1] += over


def _add(kernels: tuple[Kernel, ...], arrays: tuple[Any, ...], words: Array) -> None:
    """Launch for so many numbers at a time that no digit overflows, and make the words normal."""
    chosen, stream = kernels[REALS.index(str(arrays[0].dtype))], words.stream
    for first in range(0, arrays[0].size, AT_ONCE):
        end = min(first + AT_ONCE, arrays[0].size)
        launch = min(blocks(end - first, THREADS), MANY_BLOCKS), THREADS, stream
        chosen[launch](first, end, *arrays, words)
        carry[1, 1, stream](words)


def add_sum(values: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    _add(SUM, (values,), words)


def add_dot(a: Array, b: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    require_alike(a, b)
    _add(DOT, (a, b), words)
