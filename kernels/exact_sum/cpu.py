"""Exact sums on the CPU: float64 additions that make no error, in vectors, chunk after chunk.

A chunk has numbers below 2^E. Adding 1.5 * 2^(E+1) to one rounds it to a multiple of 2^(E-51), and
the bits of the result, read as an integer, are that multiple plus a constant; they are added as
integers. Subtracting again gives the rest without an error, and it is added to a smaller constant
in the same way. What the last constant would round away is an error, so that is tested, once per
chunk: then E is found anew, and at last numbers are added one by one, as integers. Of products,
``fma`` gives the rounding error, which is added too. docs/exact-sums.md proves each step.

Cost: 8 bytes and 12 operations per number of a sum; 16 bytes and 17 per product. A chunk has no
branches, so LLVM vectorises the loops: sums of integers have no order.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64, types, uint64

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import DISTINCT, njit
from miniapps.devices.cpu.prefetch import prefetch
from miniapps.devices.cpu.vectors import (
    any_bits,
    bits,
    broadcast_line,
    fma,
    line,
    line_width,
    total,
)
from miniapps.kernels.exact_sum import DIGITS, LOWEST, MINUS, NAN, PLUS, require_alike

CHUNK = 2048  # numbers whose multiples, below 2^51, an int64 can add
AHEAD = 512  # numbers from those that are multiplied to those that are prefetched
CARRY_EVERY = 1 << 16  # chunks after which digits have room again
BIAS, FRACTION = 1023, 52  # of a float64
SPAN = 32  # the fast loop takes products from 2^(E-SPAN) on; a power of two
HIGHEST = 1022  # of E: a constant is below 2^1024
LOWEST_OF_SUM = -971  # of E: the last constant's unit is 2^-1074
LOWEST_OF_DOT = -850  # of E: products that the loops accept have errors that are floats
MAGNITUDE = 0x7FFFFFFFFFFFFFFF  # all bits but the sign
MASK = 0xFFFFFFFF
FOUND, NOTHING = types.UniTuple(int64, 4), (0, 0, 0, 0)  # what `dot_chunk` returns; no products
LIMITS = types.Tuple((float64, float64, float64, int64))


# Adding integers ----------------------------------------------------------------------------------


@njit("UniTuple(int64, 3)(int64, int64)", cache=True, inline="always")
def digits_of(value, shift):
    """Return value * 2^shift as three digits, of which the last has the sign; shift in [0, 32)."""
    low, high = (value & MASK) << shift, (value >> 32) << shift
    return low & MASK, ((low >> 32) & MASK) + (high & MASK), high >> 32


@njit("void(int64, int64, int64[::1])", cache=True)
def add_integer(value, power, words):
    """Add value * 2^power; power >= LOWEST."""
    k = (power - LOWEST) >> 5
    low, middle, high = digits_of(value, (power - LOWEST) & 31)
    words[k] += low
    words[k + 1] += middle
    words[k + 2] += high


@njit("void(int64[::1])", cache=True)
def carry(words):
    """Make an accumulator normal."""
    over = int64(0)
    for k in range(DIGITS - 1):
        digit = words[k] + over
        words[k] = digit & MASK
        over = digit >> 32
    words[DIGITS - 1] += over


@njit("UniTuple(int64, 2)(int64)", cache=True, inline="always")
def split(number):
    """Return a finite number, given its bits, as an integer, with its sign, times 2^power."""
    magnitude = number & MAGNITUDE
    exponent = magnitude >> FRACTION
    whole = magnitude & int64((1 << FRACTION) - 1)
    if exponent:
        whole |= int64(1 << FRACTION)
    else:
        exponent = int64(1)
    return (whole if number >= 0 else -whole), exponent - (BIAS + FRACTION)


@njit("int64(float64)", cache=True, inline="always")
def special(x):
    """Return the word that counts numbers such as x; 0 if x is finite."""
    if x - x == 0.0:
        return int64(0)
    return int64(NAN if x != x else PLUS if x > 0.0 else MINUS)


@njit("UniTuple(int64, 3)(int64, int64)", cache=True, inline="always")
def product_parts(a, b):
    """Return the product of two integers below 2^53 as parts in units of 1, 2^27 and 2^54."""
    a0, a1, b0, b1 = a & 0x7FFFFFF, a >> 27, b & 0x7FFFFFF, b >> 27
    return a0 * b0, a0 * b1 + a1 * b0, a1 * b1


@njit("void(float64[::1], int64[::1])", cache=True, nogil=True)
def add_each(values, words):
    """Add numbers one by one, whatever they are."""
    for n in range(values.size):
        which = special(values[n])
        if which:
            words[which] += 1
        else:
            whole, power = split(bits(values[n]))
            add_integer(whole, power, words)


@njit("void(float64[::1], float64[::1], int64[::1])", cache=True, nogil=True)
def add_each_product(a, b, words):
    """Add products one by one, whatever they are."""
    for n in range(a.size):
        if special(a[n]) or special(b[n]):
            words[special(a[n] * b[n])] += 1
            continue
        whole_a, power_a = split(bits(a[n]))
        whole_b, power_b = split(bits(b[n]))
        low, middle, high = product_parts(whole_a, whole_b)
        add_integer(low, power_a + power_b, words)
        add_integer(middle, power_a + power_b + 27, words)
        add_integer(high, power_a + power_b + 54, words)


# Adding chunks ------------------------------------------------------------------------------------


@njit("UniTuple(int64, 3)(float64[::1], float64, float64)", cache=True, nogil=True, **DISTINCT)
def sum_chunk(values, m1, m2):
    """Return the sums of the bits of m1 and m2 plus parts of numbers; not 0, last: what is wrong.

    Numbers are too large if m1 plus one is in another binade, too fine if something is left.
    """
    first = second = outside = left = int64(0)
    unit = bits(m1)
    for n in range(values.size):
        x = values[n]
        t = m1 + x
        first += bits(t)
        outside |= bits(t) ^ unit
        rest = x - (t - m1)
        t = m2 + rest
        second += bits(t)
        left |= bits(rest - (t - m2))
    return first, second, (outside >> FRACTION) | (left & MAGNITUDE)


@njit("float64(int64)", cache=True, inline="always")
def one_and_a_half(power):
    """Return 1.5 * 2^power."""
    return math.ldexp(1.5, int(power))


@njit(LIMITS(int64), cache=True, nogil=True)
def limits_of(e):
    """Return m1, m2 and m3 for products below 2^e, and twice the bits of the smallest allowed."""
    least = (e - SPAN + BIAS) << (FRACTION + 1)
    return one_and_a_half(e + 1), one_and_a_half(e - 50), one_and_a_half(e - 102), least


@njit(cache=True, forceinline=True)
def with_product(found, a, b, limits):
    """Add a product to the sums of the bits of m1, m2 and m3 plus parts of products.

    All may be numbers or lanes. The last of ``found`` collects bits for `too_far`.
    """
    first, second, third, outside = found
    m1, m2, m3, least = limits
    p = a * b
    error = fma(a, b, -p)
    outside = outside | (bits(p) + bits(p) - least)
    t = m1 + p
    first = first + bits(t)
    t = m2 + (p - (t - m1))
    u = t + error
    second = second + bits(u)
    third = third + bits(m3 + (error - (u - t)))
    return first, second, third, outside


@njit("int64(int64)", cache=True, inline="always")
def too_far(outside):
    """Return not 0 if one of the products was too large or too small."""
    return outside & ~int64(SPAN * (2 << FRACTION) - 1)


@njit(int64(float64[::1], float64[::1], uint64, uint64, LIMITS), cache=True, nogil=True)
def too_far_but_0(a, b, begin, end, limits):
    """Return the same of the products [begin, end), but let those pass that have a factor 0.

    For such a product `with_product` adds only the bits of the constants.
    """
    least, outside = limits[3], int64(0)
    for n in range(begin, end):
        p = a[n] * b[n]
        zero = (p == 0.0) & ((a[n] == 0.0) | (b[n] == 0.0))
        outside |= int64(0) if zero else bits(p) + bits(p) - least
    return too_far(outside)


@njit(cache=True, nogil=True, forceinline=True)
def lines_of(limits):
    """Return limits and sums that are 0, as lines."""
    m1, m2, m3, least = limits
    none = broadcast_line(int64(0))
    lines = broadcast_line(m1), broadcast_line(m2), broadcast_line(m3), broadcast_line(least)
    return lines, (none, none, none, none)


@njit(cache=True, nogil=True, forceinline=True)
def joined(lines, rest):
    """Return the sums of `with_product`, given those of lines and those of the rest.

    Not 0, last: a product is too large or too small.
    """
    a, b, c, outside = lines
    d, e, f, others = rest
    return total(a) + d, total(b) + e, total(c) + f, too_far(any_bits(outside) | others)


@njit(FOUND(float64[::1], float64[::1], LIMITS), cache=True, nogil=True)
def dot_chunk(a, b, limits):
    """Return what `joined` does of a chunk, and prefetch numbers behind it."""
    width = line_width(a)
    whole = a.size // width * width
    lines, found = lines_of(limits)
    rest = NOTHING
    for n in range(np.uint64(0), np.uint64(whole), width):
        prefetch(a, n + np.uint64(AHEAD))
        prefetch(b, n + np.uint64(AHEAD))
        found = with_product(found, line(a, n), line(b, n), lines)
    for n in range(whole, a.size):
        rest = with_product(rest, a[n], b[n], limits)
    return joined(found, rest)


@njit(FOUND(float64[::1], float64[::1], LIMITS), cache=True, nogil=True, **DISTINCT)
def wide_dot_chunk(a, b, limits):
    """Return such sums of products of any size, as `sum_chunk` does."""
    m1, m2, m3, _ = limits
    first = second = third = outside = left = int64(0)
    unit = bits(m1)
    for n in range(a.size):
        p = a[n] * b[n]
        error = fma(a[n], b[n], -p)
        t = m1 + p
        first += bits(t)
        outside |= bits(t) ^ unit
        rest = p - (t - m1)
        t = m2 + rest
        left |= bits(rest - (t - m2))
        u = t + error
        second += bits(u)
        rest = error - (u - t)
        t = m3 + rest
        third += bits(t)
        left |= bits(rest - (t - m3))
    return first, second, third, (outside >> FRACTION) | (left & MAGNITUDE)


@njit("int64(float64[::1])", cache=True, nogil=True)
def power_above(values):
    """Return a power of two that is above the magnitude of all numbers, and four times as large.

    So the next chunk may have somewhat larger ones.
    """
    top = int64(0)
    for n in range(values.size):
        top = max(top, bits(values[n]) & MAGNITUDE)
    return (top >> FRACTION) - BIAS + 3


@njit("Tuple((int64, int64))(float64[::1], float64[::1])", cache=True, nogil=True)
def power_above_products(a, b):
    """Return the same of products; not 0, last, if one that is not 0 has become 0."""
    top = lost = int64(0)
    for n in range(a.size):
        p = a[n] * b[n]
        top = max(top, bits(p) & MAGNITUDE)
        lost |= int64(p == 0.0) & int64(a[n] != 0.0) & int64(b[n] != 0.0)
    return (top >> FRACTION) - BIAS + 3, lost


@njit("void(int64, int64, float64, int64, int64[::1])", cache=True)
def add_multiples(total, count, m, power, words):
    """Add a sum of the bits of ``m`` plus multiples of its unit, 2^power, of ``count`` numbers."""
    add_integer(total - count * bits(m), power, words)


@njit("boolean(float64[::1], int64, int64[::1])", cache=True, nogil=True)
def added(values, e, words):
    """Add a chunk of numbers below 2^e, unless some are not or are too fine."""
    m1, m2 = one_and_a_half(e + 1), one_and_a_half(e - 51)
    first, second, wrong = sum_chunk(values, m1, m2)
    if wrong:
        return False
    add_multiples(first, values.size, m1, e - 51, words)
    add_multiples(second, values.size, m2, e - 103, words)
    return True


@njit(types.void(FOUND, int64, LIMITS, int64, int64[::1]), cache=True)
def add_found(found, count, limits, e, words):
    """Add what `dot_chunk` returns of so many products below 2^e."""
    first, second, third, _ = found
    m1, m2, m3, _ = limits
    add_multiples(first, count, m1, e - 51, words)
    add_multiples(second, count, m2, e - 102, words)
    add_multiples(third, count, m3, e - 154, words)


@njit("int64(float64[::1], int64, int64[::1])", cache=True, nogil=True)
def add_chunk(values, e, words):
    """Add a chunk, of numbers below 2^e it is hoped; return an e for the next one."""
    if added(values, e, words):
        return e
    e = min(max(power_above(values), LOWEST_OF_SUM), HIGHEST)
    if not added(values, e, words):
        add_each(values, words)
    return e


@njit("int64(float64[::1], float64[::1], int64[::1])", cache=True, nogil=True)
def add_any_products(a, b, words):
    """Add a chunk of products, whatever they are; return an e for the next one."""
    e, lost = power_above_products(a, b)
    e = min(max(e, LOWEST_OF_DOT), HIGHEST)
    limits = limits_of(e)
    found = wide_dot_chunk(a, b, limits)
    if lost or found[3]:
        add_each_product(a, b, words)
    else:
        add_found(found, a.size, limits, e, words)
    return e


@njit("int64(float64[::1], float64[::1], int64, int64[::1])", cache=True, nogil=True)
def add_products(a, b, e, words):
    """Add a chunk of products, below 2^e it is hoped; return an e for the next one."""
    limits = limits_of(e)
    found = dot_chunk(a, b, limits)
    if found[3] and too_far_but_0(a, b, 0, a.size, limits):
        return add_any_products(a, b, words)
    add_found(found, a.size, limits, e, words)
    return e


# Adding arrays ------------------------------------------------------------------------------------


@njit("void(int64, int64[::1])", cache=True, inline="always")
def make_room(low, words):
    """Make an accumulator normal if the digits may be full when the chunk at ``low`` is added."""
    if low // CHUNK % CARRY_EVERY == CARRY_EVERY - 1:
        carry(words)


@njit("void(float64[::1], int64[::1])", cache=True, nogil=True)
def sum_doubles(values, words):
    """Add numbers."""
    e = int64(0)
    for low in range(0, values.size, CHUNK):
        make_room(low, words)
        e = add_chunk(values[low : low + CHUNK], e, words)
    carry(words)


@njit("void(float32[::1], float64[::1])", cache=True, nogil=True, **DISTINCT)
def widen(values, wide):
    """Write numbers as float64."""
    for n in range(values.size):
        wide[n] = float64(values[n])


@njit("void(float32[::1], float32[::1], float64[::1])", cache=True, nogil=True, **DISTINCT)
def multiply(a, b, wide):
    """Write products as float64, which holds them exactly."""
    for n in range(a.size):
        wide[n] = float64(a[n]) * float64(b[n])


@njit("void(float32[::1], int64[::1])", cache=True, nogil=True)
def sum_singles(values, words):
    """Add numbers as float64."""
    e, wide = int64(0), np.empty(CHUNK, np.float64)
    for low in range(0, values.size, CHUNK):
        make_room(low, words)
        some = values[low : low + CHUNK]
        widen(some, wide)
        e = add_chunk(wide[: some.size], e, words)
    carry(words)


@njit("void(float64[::1], float64[::1], int64[::1])", cache=True, nogil=True)
def dot_doubles(a, b, words):
    """Add products."""
    e = int64(0)
    for low in range(0, a.size, CHUNK):
        make_room(low, words)
        e = add_products(a[low : low + CHUNK], b[low : low + CHUNK], e, words)
    carry(words)


@njit("void(float32[::1], float32[::1], int64[::1])", cache=True, nogil=True)
def dot_singles(a, b, words):
    """Add products."""
    e, wide = int64(0), np.empty(CHUNK, np.float64)
    for low in range(0, a.size, CHUNK):
        make_room(low, words)
        some = a[low : low + CHUNK]
        multiply(some, b[low : low + CHUNK], wide)
        e = add_chunk(wide[: some.size], e, words)
    carry(words)


def add_sum(values: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    (sum_singles if values.dtype == np.float32 else sum_doubles)(values, words)


def add_dot(a: Array, b: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    require_alike(a, b)
    (dot_singles if a.dtype == np.float32 else dot_doubles)(a, b, words)
