"""Exact sums on the GPU, with the bits of the CPU.

A thread adds a chunk of products in registers as `kernels.exact_sum.cpu` does: float64 additions
that make no error split each product into three multiples of fixed units, which are added as
integers. If a product is too large or too fine for these units, the thread takes others; if none
fits, it adds products one by one to the accumulator of the thread block, in shared memory. At the
end the thread block adds up its threads' sums, and then its accumulator to the one in global
memory. A sum of numbers is one of their products with 1.

Cost: 8 bytes per number, 16 per product, and 44 instructions, of which 18 are of float64.
"""

from __future__ import annotations

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import (
    Kernel,
    bits,
    blocks,
    cuda,
    fma,
    from_bits,
    inlined,
    kernel,
    mul,
    ported,
)
from miniapps.devices.cuda.primitives import THREADS, thread_index
from miniapps.kernels.exact_sum import DIGITS, LOWEST, WORDS, cpu, require_alike
from miniapps.kernels.exact_sum.cpu import BIAS, FRACTION, HIGHEST, LOWEST_OF_DOT, MAGNITUDE, MASK

CHUNK = 8  # products that a thread adds before it looks whether all of them fitted
MOST = 2048  # products whose multiples, below 2^51, an int64 can add
ROOM = 6  # powers of two by which later products may be larger than the first ones
UNIT_BITS = 51  # the units are 2^(E - 51), 2^(E - 102) and 2^(E - 153)
HALVES = 6  # of three sums: a lower one of 32 bits and an upper one
AT_A_TIME = 3  # thread blocks of a multiprocessor: so they have 80 registers a thread
MANY_BLOCKS = 2 * AT_A_TIME * 132  # of a launch: twice what the 132 multiprocessors of an H200 run
AT_ONCE = 1 << 28  # numbers whose digits an int64 can add
REALS = "float64", "float32"
digits_of, split = ported(cpu.digits_of), ported(cpu.split)
special, product_parts = ported(cpu.special), ported(cpu.product_parts)


# Adding integers ---------------------------------------------------------------------------------


@inlined
def add_integer(value, power, mine):  # type: ignore[no-untyped-def]
    """Add value * 2^power to the accumulator of a thread block."""
    k = (power - LOWEST) >> 5
    low, middle, high = digits_of(value, (power - LOWEST) & 31)
    cuda.atomic.add(mine, k, low)
    cuda.atomic.add(mine, k + 1, middle)
    cuda.atomic.add(mine, k + 2, high)


@inlined
def add_product(x, y, mine):  # type: ignore[no-untyped-def]
    """Add a product, whatever it is, to the accumulator of a thread block."""
    if special(x) or special(y):
        cuda.atomic.add(mine, special(mul(x, y)), np.int64(1))
    else:
        whole_x, power_x = split(bits(x))
        whole_y, power_y = split(bits(y))
        low, middle, high = product_parts(whole_x, whole_y)
        add_integer(low, power_x + power_y, mine)
        add_integer(middle, power_x + power_y + 27, mine)
        add_integer(high, power_x + power_y + 54, mine)


# Adding chunks -----------------------------------------------------------------------------------


@inlined
def factors(a, b, pairs, n, end):  # type: ignore[no-untyped-def]
    """Return the factors of a product, 1 in place of the second without ``pairs``; 0 at the end."""
    x, y = 0.0, 0.0
    if n < end:
        x, y = np.float64(a[n]), 1.0
        if pairs:
            y = np.float64(b[n])
    return x, y


@inlined
def one_and_a_half(power):  # type: ignore[no-untyped-def]
    """Return 1.5 * 2^power."""
    return from_bits(((power + BIAS) << FRACTION) | (np.int64(1) << (FRACTION - 1)))


@inlined
def constants(e):  # type: ignore[no-untyped-def]
    """Return the numbers whose last bits are the units for products below 2^e."""
    coarse = one_and_a_half(e + 1)
    return coarse, one_and_a_half(e + 1 - UNIT_BITS), one_and_a_half(e + 1 - 2 * UNIT_BITS)


@inlined
def chunk(a, b, pairs, at, step, end, e):  # type: ignore[no-untyped-def]
    """Return the sums of the bits of three constants plus parts of products; last, what is wrong.

    The products at ``at``, ``at + step`` and so on. Wrong are those that are not below 2^e, that
    are not multiples of the units, and that have become 0 without a factor that is 0.
    """
    m1, m2, m3 = constants(e)
    first = second = third = outside = left = np.int64(0)
    for k in range(CHUNK):
        x, y = factors(a, b, pairs, at + np.uint64(k) * step, end)
        p = mul(x, y)
        error = fma(x, y, -p)
        t = m1 + p
        first += bits(t)
        outside |= bits(t) ^ bits(m1)
        rest = p - (t - m1)
        t = m2 + rest
        left |= bits(rest - (t - m2))
        u = t + error
        second += bits(u)
        rest = error - (u - t)
        t = m3 + rest
        third += bits(t)
        left |= bits(rest - (t - m3))
        if p == 0.0 and x != 0.0 and y != 0.0:
            left |= np.int64(1)
    return first, second, third, (outside >> FRACTION) | (left & MAGNITUDE)


@inlined
def power_above(a, b, pairs, at, step, end):  # type: ignore[no-untyped-def]
    """Return an e for products such as those of a chunk."""
    top = np.int64(0)
    for k in range(CHUNK):
        x, y = factors(a, b, pairs, at + np.uint64(k) * step, end)
        top = max(top, bits(mul(x, y)) & MAGNITUDE)
    return min(max((top >> FRACTION) - BIAS + ROOM, np.int64(LOWEST_OF_DOT)), np.int64(HIGHEST))


@inlined
def multiples(e, first, second, third, count):  # type: ignore[no-untyped-def]
    """Return the sums of multiples of the units, given those with the bits of the constants."""
    m1, m2, m3 = constants(e)
    return first - count * bits(m1), second - count * bits(m2), third - count * bits(m3)


@inlined
def add_totals(e, first, second, third, count, mine):  # type: ignore[no-untyped-def]
    """Add a thread's sums to the accumulator of its thread block."""
    first, second, third = multiples(e, first, second, third, count)
    add_integer(first, e - UNIT_BITS, mine)
    add_integer(second, e - 2 * UNIT_BITS, mine)
    add_integer(third, e - 3 * UNIT_BITS, mine)


@inlined
def add_chunk(a, b, pairs, at, step, end, e, first, second, third, count, mine):  # type: ignore[no-untyped-def]
    """Add a chunk to a thread's sums; return e, the sums, and how many products they have."""
    one, two, three, wrong = chunk(a, b, pairs, at, step, end, e)
    if wrong or count + CHUNK > MOST:
        add_totals(e, first, second, third, count, mine)
        first = second = third = count = np.int64(0)
    if wrong:
        e = power_above(a, b, pairs, at, step, end)
        one, two, three, wrong = chunk(a, b, pairs, at, step, end, e)
    if wrong:
        for k in range(CHUNK):
            x, y = factors(a, b, pairs, at + np.uint64(k) * step, end)
            add_product(x, y, mine)
        return e, first, second, third, count
    return e, first + one, second + two, third + three, count + CHUNK


# A thread block ----------------------------------------------------------------------------------


@inlined
def in_block():  # type: ignore[no-untyped-def]
    """Return the number of this thread in its thread block, and how many there are."""
    wide = np.int64(cuda.blockDim.x)
    thread = np.int64(cuda.threadIdx.y) * wide + np.int64(cuda.threadIdx.x)
    return thread, wide * np.int64(cuda.blockDim.y)


@inlined
def clear(mine):  # type: ignore[no-untyped-def]
    """Set the accumulator of a thread block to zero."""
    k, threads = in_block()
    while k < WORDS:
        mine[k] = 0
        k += threads
    cuda.syncthreads()


@inlined
def add_block(e, common, first, second, third, count, sums, mine):  # type: ignore[no-untyped-def]
    """Add all threads' sums to the accumulator; ``sums``: (HALVES, THREADS) int64, shared.

    ``common``: the e of almost all threads. Others add their sums by themselves.
    """
    k, threads = in_block()
    if e != common:
        add_totals(e, first, second, third, count, mine)
        first = second = third = count = np.int64(0)
    first, second, third = multiples(e, first, second, third, count)
    sums[0, k], sums[1, k] = first & MASK, first >> 32
    sums[2, k], sums[3, k] = second & MASK, second >> 32
    sums[4, k], sums[5, k] = third & MASK, third >> 32
    half = THREADS // 2
    while half > 0:
        cuda.syncthreads()
        if k < half and k + half < threads:
            for n in range(HALVES):
                sums[n, k] += sums[n, k + half]
        half //= 2
    cuda.syncthreads()
    while k < HALVES:
        add_integer(sums[k, 0], common - UNIT_BITS * (k // 2 + 1) + 32 * (k % 2), mine)
        k += threads


@inlined
def flush(mine, words, begin):  # type: ignore[no-untyped-def]
    """Add the accumulator of a thread block to the one that begins there in global memory."""
    cuda.syncthreads()
    k, threads = in_block()
    while k < WORDS:
        if mine[k] != 0:
            cuda.atomic.add(words, begin + k, mine[k])
        k += threads


@inlined
def add_products(a, b, pairs, at, step, stride, end, words, begin):  # type: ignore[no-untyped-def]
    """Add the products of all threads, at most `THREADS` of a thread block.

    A thread has chunks of products: at ``at``, and ``stride`` farther as long as that is before
    ``end``. Those of a chunk are ``step`` apart. ``begin``: of the accumulator in ``words``.
    """
    mine = cuda.shared.array(WORDS, "int64")
    sums = cuda.shared.array((HALVES, THREADS), "int64")
    common = cuda.shared.array(1, "int64")
    common[0] = LOWEST_OF_DOT
    clear(mine)
    cuda.atomic.max(common, 0, power_above(a, b, pairs, at, step, end))
    cuda.syncthreads()
    e = common[0]
    one = two = three = count = np.int64(0)
    while at < end:
        e, one, two, three, count = add_chunk(
            a, b, pairs, at, step, end, e, one, two, three, count, mine
        )
        at += stride
    add_block(e, common[0], one, two, three, count, sums, mine)
    flush(mine, words, begin)


# Kernels -----------------------------------------------------------------------------------------


def _adding(real: str) -> Kernel:
    """Return the kernel that adds the numbers or products [first, end) of a type."""

    @kernel(
        f"void(uint64, uint64, {real}[::1], {real}[::1], uint32, int64[::1])",
        launch_bounds=(THREADS, AT_A_TIME),
    )
    def add(first, end, a, b, pairs, words):  # type: ignore[no-untyped-def]
        step = np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.x)
        stride = np.uint64(CHUNK) * step
        add_products(a, b, pairs, first + thread_index(), step, stride, end, words, 0)

    return add


ADD = tuple(map(_adding, REALS))


@kernel("void(int64[::1])")
def carry(words):  # type: ignore[no-untyped-def]
    """Make an accumulator normal per thread block, whose first thread has all to do."""
    mine = cuda.shared.array(WORDS, "int64")
    begin, k = np.int64(cuda.blockIdx.x) * WORDS, cuda.threadIdx.x
    while k < DIGITS:
        mine[k] = words[begin + k]
        k += cuda.blockDim.x
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        over = np.int64(0)
        for k in range(DIGITS - 1):
            digit = mine[k] + over
            mine[k] = digit & MASK
            over = digit >> 32
        mine[DIGITS - 1] += over
    cuda.syncthreads()
    k = cuda.threadIdx.x
    while k < DIGITS:
        words[begin + k] = mine[k]
        k += cuda.blockDim.x


def _add(a: Array, b: Array, pairs: int, words: Array) -> None:
    """Launch for so many numbers at a time that no digit overflows, and make the words normal."""
    chosen, stream = ADD[REALS.index(str(a.dtype))], words.stream
    for first in range(0, a.size, AT_ONCE):
        end = min(first + AT_ONCE, a.size)
        launch = min(blocks(end - first, CHUNK * THREADS), MANY_BLOCKS), THREADS, stream
        chosen[launch](first, end, a, b, pairs, words)
        carry[1, THREADS, stream](words)


def add_sum(values: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    _add(values, values, 0, words)


def add_dot(a: Array, b: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    require_alike(a, b)
    _add(a, b, 1, words)
