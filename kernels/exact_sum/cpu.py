"""Exact sums on the CPU: float64 additions that make no error, in vectors, chunk after chunk.

A chunk has numbers below 2^E. Adding 1.5 * 2^(E+1) to one rounds it to a multiple of 2^(E-51), and
the bits of the result, read as an integer, are that multiple plus a constant; they are added as
integers. Subtracting again gives the rest without an error, and it is added to a smaller constant
in the same way. Of products, ``fma`` gives the rounding error, which is added too. Once per chunk
it is tested whether all numbers are below 2^E, and whether a rest is left. If the test fails, the
numbers are copied, and split by smaller and smaller constants until no rest is left; those that are
infinite, NaN, or nearly so are added one by one. docs/exact-sums.md proves each step.

Cost: 8 bytes and 10 operations per number of a sum; 16 bytes and 17 per product.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float32, float64, int64, types, uint64

from miniapps.devices.backend import Array
from miniapps.devices.cpu.compiler import njit
from miniapps.devices.cpu.prefetch import prefetch
from miniapps.devices.cpu.vectors import (
    DOUBLES,
    any_bits,
    bits,
    broadcast_line,
    doubles,
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
SPAN = 48  # the fast loop takes products from 2^(E-SPAN) on
WINDOW = 64  # as many powers of two `too_far` accepts; a power of two
HIGHEST = 1022  # of E: a constant is below 2^1024
LOWEST_OF_SUM = -972  # of E: the last constant's unit is 2^-1074
LOWEST_OF_DOT = -850  # of E: products that the loops accept have errors that are floats
SMALLEST = 2.0**-960  # a product from here on has an error that is a float
MAGNITUDE = 0x7FFFFFFFFFFFFFFF  # all bits but the sign
MASK = 0xFFFFFFFF
FOUND, NOTHING = types.UniTuple(int64, 4), (0, 0, 0, 0)  # what `dot_chunk` returns; no products
SUMS = types.UniTuple(int64, 3)  # what `sum_chunk` returns
LIMITS = types.Tuple((float64, float64, float64, int64, int64))


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


@njit("float64(int64)", cache=True, inline="always")
def one_and_a_half(power):
    """Return 1.5 * 2^power."""
    return math.ldexp(1.5, int(power))


@njit(LIMITS(int64), cache=True, nogil=True)
def limits_of(e):
    """Return m1, m2 and m3 for numbers below 2^e, and two limits for `outside_of`."""
    low, high = int64(e - SPAN + BIAS), int64(e - WINDOW + BIAS)
    constants = one_and_a_half(e + 1), one_and_a_half(e - 50), one_and_a_half(e - 102)
    return (*constants, low << (FRACTION + 1), high << (FRACTION + 1))


@njit(cache=True, forceinline=True)
def with_number(found, x, limits):
    """Add a number to the sums of the bits of m1 and m2 plus parts of numbers.

    All may be numbers or lanes. The last two of ``found`` collect bits for `sum_of_lines`.
    """
    first, second, outside, left = found
    m1, m2, _, _, _ = limits
    t = m1 + x
    first = first + bits(t)
    outside = outside | (bits(t) ^ bits(m1))
    rest = x - (t - m1)
    t = m2 + rest
    return first, second + bits(t), outside, left | bits(rest - (t - m2))


@njit(cache=True, forceinline=True)
def with_product(found, a, b, limits):
    """Do the same for a product, of which m3 adds a third part; the last is for `too_far`."""
    first, second, third, outside = found
    m1, m2, m3, _, _ = limits
    p = a * b
    error = fma(a, b, -p)
    outside = outside | outside_of(p, limits)
    t = m1 + p
    first = first + bits(t)
    t = m2 + (p - (t - m1))
    u = t + error
    second = second + bits(u)
    third = third + bits(m3 + (error - (u - t)))
    return first, second, third, outside


@njit(cache=True, forceinline=True)
def outside_of(p, limits):
    """Return how far p is above 2^(e-SPAN) and above 2^(e-WINDOW), joined by `or`, for `too_far`.

    It measures twice the difference of the bits. Both are in [0, WINDOW) powers of two only if p is
    in [2^(e-SPAN), 2^e): the first is negative below it, the second too large above it.
    """
    twice = bits(p) + bits(p)
    return (twice - limits[3]) | (twice - limits[4])


@njit("int64(int64)", cache=True, inline="always")
def too_far(outside):
    """Return not 0 if one of the products was too large or too small."""
    return outside & ~int64(WINDOW * (2 << FRACTION) - 1)


@njit(int64(float64[::1], float64[::1], uint64, uint64, LIMITS), cache=True, nogil=True)
def too_far_but_0(a, b, begin, end, limits):
    """Return the same of the products [begin, end), but let those pass that have a factor 0.

    For such a product `with_product` adds only the bits of the constants.
    """
    outside = int64(0)
    for n in range(begin, end):
        p = a[n] * b[n]
        zero = (p == 0.0) & ((a[n] == 0.0) | (b[n] == 0.0))
        outside |= int64(0) if zero else outside_of(p, limits)
    return too_far(outside)


@njit(cache=True, nogil=True, forceinline=True)
def lines_of(limits):
    """Return limits and sums that are 0, as lines."""
    m1, m2, m3, low, high = limits
    none = broadcast_line(int64(0))
    constants = broadcast_line(m1), broadcast_line(m2), broadcast_line(m3)
    return (*constants, broadcast_line(low), broadcast_line(high)), (none, none, none, none)


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


@njit(cache=True, nogil=True, forceinline=True)
def sum_of_lines(lines, rest):
    """Return the sums of `with_number`; not 0, last: a number is too large or leaves a rest."""
    a, b, outside, left = lines
    c, d, others, more = rest
    wrong = (any_bits(outside) | others) >> FRACTION | ((any_bits(left) | more) & MAGNITUDE)
    return total(a) + c, total(b) + d, wrong


@njit([SUMS(float64[::1], LIMITS), SUMS(float32[::1], LIMITS)], cache=True, nogil=True)
def sum_chunk(values, limits):
    """Return what `sum_of_lines` does of a chunk of numbers, and prefetch those behind it."""
    whole = values.size // DOUBLES * DOUBLES
    lines, found = lines_of(limits)
    rest = NOTHING
    for n in range(np.uint64(0), np.uint64(whole), np.uint64(DOUBLES)):
        prefetch(values, n + np.uint64(AHEAD))
        found = with_number(found, doubles(values, n), lines)
    for n in range(whole, values.size):
        rest = with_number(rest, float64(values[n]), limits)
    return sum_of_lines(found, rest)


@njit(SUMS(float32[::1], float32[::1], LIMITS), cache=True, nogil=True)
def sum_product_chunk(a, b, limits):
    """Do the same for products of float32, which are exact in float64."""
    whole = a.size // DOUBLES * DOUBLES
    lines, found = lines_of(limits)
    rest = NOTHING
    for n in range(np.uint64(0), np.uint64(whole), np.uint64(DOUBLES)):
        prefetch(a, n + np.uint64(AHEAD))
        prefetch(b, n + np.uint64(AHEAD))
        found = with_number(found, doubles(a, n) * doubles(b, n), lines)
    for n in range(whole, a.size):
        rest = with_number(rest, float64(a[n]) * float64(b[n]), limits)
    return sum_of_lines(found, rest)


@njit("void(int64, int64, float64, int64, int64[::1])", cache=True)
def add_multiples(total, count, m, power, words):
    """Add a sum of the bits of ``m`` plus multiples of its unit, 2^power, of ``count`` numbers."""
    add_integer(total - count * bits(m), power, words)


@njit(types.void(int64, int64, int64, LIMITS, int64, int64[::1]), cache=True)
def add_parts(first, second, count, limits, e, words):
    """Add the sums of the bits of m1 and m2 plus parts of so many numbers below 2^e."""
    add_multiples(first, count, limits[0], e - 51, words)
    add_multiples(second, count, limits[1], e - 102, words)


@njit(types.void(FOUND, int64, LIMITS, int64, int64[::1]), cache=True)
def add_found(found, count, limits, e, words):
    """Add what `dot_chunk` returns of so many products below 2^e."""
    add_parts(found[0], found[1], count, limits, e, words)
    add_multiples(found[2], count, limits[2], e - 154, words)


# Chunks of numbers of any size --------------------------------------------------------------------


@njit("int64(float64[::1])", cache=True, nogil=True)
def largest(values):
    """Return the bits of the largest magnitude."""
    top = int64(0)
    for n in range(values.size):
        top = max(top, bits(values[n]) & MAGNITUDE)
    return top


@njit("int64(int64)", cache=True, inline="always")
def power_above(top):
    """Return a power of two above a magnitude, given its bits; LOWEST_OF_SUM at least."""
    return max((top >> FRACTION) - BIAS + 1, LOWEST_OF_SUM)


@njit("int64(int64, int64)", cache=True, inline="always")
def power_after(top, lowest):
    """Return an e for the chunk that follows one: its numbers may be four times as large."""
    return max(min(power_above(top) + 2, HIGHEST), lowest)


@njit(SUMS(float64[::1], LIMITS), cache=True, nogil=True)
def split_off(values, limits):
    """Replace numbers by their rests; return the sums of `with_number` and the largest rest."""
    first = second = top = int64(0)
    for n in range(values.size):
        t = limits[0] + values[n]
        first += bits(t)
        rest = values[n] - (t - limits[0])
        t = limits[1] + rest
        second += bits(t)
        values[n] = rest - (t - limits[1])
        top = max(top, bits(values[n]) & MAGNITUDE)
    return first, second, top


@njit("int64(float64[::1], int64[::1])", cache=True, nogil=True)
def add_any(values, words):
    """Add a chunk of numbers, whatever they are, and overwrite it; return what `largest` does."""
    highest = top = largest(values)
    if power_above(top) > HIGHEST:
        add_each(values, words)
        return highest
    while top:
        e = power_above(top)
        limits = limits_of(e)
        first, second, top = split_off(values, limits)
        add_parts(first, second, values.size, limits, e, words)
    return highest


@njit("boolean(float64[::1], float64[::1], float64[::1], float64[::1])", cache=True, nogil=True)
def products_and_errors(a, b, products, errors):
    """Write products and their errors; return whether an error is no float."""
    inexact = False
    for n in range(a.size):
        p = a[n] * b[n]
        products[n], errors[n] = p, fma(a[n], b[n], -p)
        inexact |= (abs(p) < SMALLEST) & (a[n] != 0.0) & (b[n] != 0.0)
    return inexact


@njit("int64(float64[::1], float64[::1], int64[::1])", cache=True, nogil=True)
def add_any_products(a, b, words):
    """Add a chunk of products, whatever they are; return an e for the next one."""
    products, errors = np.empty(a.size), np.empty(a.size)
    inexact = products_and_errors(a, b, products, errors)
    top = largest(products)
    if inexact or power_above(top) > HIGHEST:
        add_each_product(a, b, words)
    else:
        add_any(products, words)
        add_any(errors, words)
    return power_after(top, LOWEST_OF_DOT)


# Adding arrays ------------------------------------------------------------------------------------


@njit("void(int64, int64[::1])", cache=True, inline="always")
def make_room(low, words):
    """Make an accumulator normal if the digits may be full when the chunk at ``low`` is added."""
    if low // CHUNK % CARRY_EVERY == CARRY_EVERY - 1:
        carry(words)


@njit(["void(float64[::1], int64[::1])", "void(float32[::1], int64[::1])"], cache=True, nogil=True)
def add_sum_of(values, words):
    """Add numbers."""
    e = int64(0)
    for low in range(0, values.size, CHUNK):
        make_room(low, words)
        some, limits = values[low : low + CHUNK], limits_of(e)
        first, second, wrong = sum_chunk(some, limits)
        if wrong:
            e = power_after(add_any(some.astype(np.float64), words), LOWEST_OF_SUM)
        else:
            add_parts(first, second, some.size, limits, e, words)
    carry(words)


@njit("void(float64[::1], float64[::1], int64[::1])", cache=True, nogil=True)
def dot_doubles(a, b, words):
    """Add products."""
    e = int64(0)
    for low in range(0, a.size, CHUNK):
        make_room(low, words)
        some_a, some_b, limits = a[low : low + CHUNK], b[low : low + CHUNK], limits_of(e)
        found = dot_chunk(some_a, some_b, limits)
        if found[3] and too_far_but_0(some_a, some_b, 0, some_a.size, limits):
            e = add_any_products(some_a, some_b, words)
        else:
            add_found(found, some_a.size, limits, e, words)
    carry(words)


@njit("void(float32[::1], float32[::1], int64[::1])", cache=True, nogil=True)
def dot_singles(a, b, words):
    """Add products, as numbers."""
    e = int64(0)
    for low in range(0, a.size, CHUNK):
        make_room(low, words)
        some_a, some_b, limits = a[low : low + CHUNK], b[low : low + CHUNK], limits_of(e)
        first, second, wrong = sum_product_chunk(some_a, some_b, limits)
        if wrong:
            products = some_a.astype(np.float64) * some_b
            e = power_after(add_any(products, words), LOWEST_OF_SUM)
        else:
            add_parts(first, second, some_a.size, limits, e, words)
    carry(words)


def add_sum(values: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    add_sum_of(values, words)


def add_dot(a: Array, b: Array, words: Array) -> None:
    """See `kernels.exact_sum.interface`."""
    require_alike(a, b)
    (dot_singles if a.dtype == np.float32 else dot_doubles)(a, b, words)
