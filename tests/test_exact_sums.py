"""Exact sums: every bit against fractions, for hostile numbers in any order, and wrong programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import examples

from miniapps import kernels
from miniapps.contract import EXACT, AllReduce
from miniapps.drivers.engine import Transport
from miniapps.drivers.job import RunError
from miniapps.drivers.reduction import packed_value, result_of
from miniapps.kernels import exact_sum
from miniapps.kernels.exact_sum import DIGITS, LOWEST, accumulated, accumulator, cpu, rounded

KERNELS: Any = kernels.load("exact_sum", "cpu")
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SPECIAL = st.sampled_from([math.nan, math.inf, -math.inf])
HOSTILE = (
    [1e308, 1e308, -1e308, -1e308, 5e-324],
    [1e16, 1.0, -1e16] * 3,
    [5e-324] * 7,
    [-0.0, -0.0],
    [0.1] * 10,
    [1.0, 2.0**-53, 2.0**-1074],  # above the middle of two floats by the least number
    [1.0, 2.0**-53],  # the middle: to even, down
    [1 + 2.0**-52, 2.0**-53],  # to even, up
    [2.0**1023, 2.0**1023 - 2.0**970, 2.0**969],  # rounds beyond the largest float
    [2.0**1023, 2.0**1023 - 2.0**970, 2.0**969, -(2.0**-1074)],  # just does not
    [2.0**k * (-1) ** k for k in range(-1074, 1023, 31)],
)


def exact(words: np.ndarray) -> Fraction:
    """The finite sum in an accumulator."""
    return exact_sum.exact(words) * Fraction(2) ** LOWEST


def sum_of(values: np.ndarray) -> np.ndarray:
    """An accumulator of numbers, by the kernel."""
    words = accumulator()
    KERNELS.add_sum(np.ascontiguousarray(values), words)
    return words


def dot_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """An accumulator of products, by the kernel."""
    words = accumulator()
    KERNELS.add_dot(np.ascontiguousarray(a), np.ascontiguousarray(b), words)
    return words


def fractions_sum(values: np.ndarray) -> Fraction:
    """The sum in Python's fractions."""
    return sum(map(Fraction, values.tolist()), Fraction(0))


def fractions_dot(a: np.ndarray, b: np.ndarray) -> Fraction:
    """The dot product in Python's fractions."""
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))


def nearest(value: Fraction, dtype: Any) -> Any:
    """A number rounded to float64, or to float32, by comparing it with both neighbours."""
    if dtype is np.float64:
        try:
            return np.float64(value.numerator / value.denominator)
        except OverflowError:
            return np.float64(math.inf if value > 0 else -math.inf)
    beyond = Fraction(2) ** 128
    with np.errstate(over="ignore"):
        start = np.float32(float(max(min(value, beyond), -beyond)))
        near = [start, *(np.nextafter(start, np.float32(end)) for end in (-np.inf, np.inf))]

    def off(one: np.float32) -> tuple[Fraction, int]:
        whole = Fraction(float(one)) if np.isfinite(one) else beyond * int(np.sign(one))
        return abs(whole - value), int(one.view(np.int32)) & 1

    return min(near, key=off)


# Few numbers, rounding and special values ---------------------------------------------------------


def check_few(values: Sequence[float]) -> None:
    """Check the sum of few numbers, one accumulator each, against `math.fsum` and fractions."""
    array = np.array(values, np.float64)
    words = accumulated(array).sum(axis=0)
    right = fractions_sum(array)
    assert exact(words) == right
    for dtype in (np.float64, np.float32):
        found = rounded(words, dtype)
        assert found.dtype == dtype and found == nearest(right, dtype), dtype
        assert found != 0 or not np.signbit(found) or right < 0
    try:
        assert rounded(words) == math.fsum(values)
    except OverflowError:  # of a partial sum
        pass


@pytest.mark.parametrize("values", HOSTILE)
def test_hostile_numbers(values: Sequence[float]) -> None:
    """Catches rounding to odd, up or twice, a lost carry or sticky bit, and an early overflow."""
    check_few(values)
    assert np.array_equal(normal(accumulated(np.array(values)).sum(0)), sum_of(np.array(values)))


@examples(60)
@given(st.lists(FLOATS, max_size=12))
def test_few_numbers(values: list[float]) -> None:
    """Catches an addend that is not exact, and a sum that is not the nearest float."""
    check_few(values)


def normal(words: np.ndarray) -> np.ndarray:
    """An accumulator that a kernel has made normal."""
    made = words.copy()
    KERNELS.add_sum(np.zeros(0), made)
    return made


@examples(40)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=9))
@example([1.0, 2.0**-24, 2.0**-60])  # rounded to float64 first, it would be the middle
@example([2.0**127, 2.0**127])
@example([2.0**-149, 2.0**-149])
def test_float32_is_rounded_once(values: list[float]) -> None:
    """Catches additions in float32, and a sum that is rounded to float64 and then to float32."""
    array = np.array(values, np.float32)
    words = accumulated(array).sum(axis=0)
    found, right = rounded(words, np.float32), fractions_sum(array)
    assert found.dtype == np.float32 and found == nearest(right, np.float32)
    assert np.array_equal(normal(words), sum_of(array))
    assert exact(dot_of(array, array)) == fractions_dot(array, array)


def total_of(values: Sequence[float]) -> float:
    """What NaN and inf add up to, in words of docs/exact-sums.md."""
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= {*values}:
        return math.nan
    infinite = [value for value in values if math.isinf(value)]
    return infinite[0] if infinite else math.fsum(values)


@examples(40)
@given(st.lists(st.one_of(SPECIAL, st.floats(-1, 1)), min_size=1, max_size=9))
@example([math.nan, 1.0])
@example([math.inf, -math.inf])
@example([1e308, -math.inf, 1e308])
def test_nan_and_inf(values: list[float]) -> None:
    """Catches a NaN or inf that is ignored, or that depends on the order."""
    right = total_of(values)
    for order in (values, values[::-1]):
        array = np.array(order)
        for words in (accumulated(array).sum(0), sum_of(array), dot_of(array, np.ones(len(array)))):
            assert np.array_equal(rounded(words), right, equal_nan=True)
    if not all(map(math.isfinite, values)):
        zeros = np.array([0.0 if math.isinf(value) else 1.0 for value in values])
        assert np.isnan(rounded(dot_of(np.array(values), zeros)))  # inf times 0


# Long arrays ------------------------------------------------------------------------------------


def numbers(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Numbers that take one of the paths through the kernels, or all in turn."""
    plain = rng.standard_normal(count)
    powers = {
        "plain": (0, 1),
        "wide": (-60, 60),
        "all": (-1073, 1023),
        "fine": (-1073, -1015),
        "large": (1000, 1022),
    }
    if kind == "zeros":
        return plain * (rng.random(count) > 0.5)
    if kind == "grows":  # beyond what the bins of the chunks before hold
        return np.ldexp(plain, np.arange(count) // 300 - 4)
    if kind == "equal":
        return np.full(count, plain[0] if count else 0.0)
    if kind == "half":  # dot products underflow here
        return np.ldexp(plain, rng.integers(-560, -480, count))
    return np.ldexp(plain, rng.integers(*powers[kind], count))


KINDS = "plain", "wide", "all", "fine", "large", "zeros", "grows", "equal", "half"


@pytest.mark.parametrize("count", [1, 2048, 4500])
@pytest.mark.parametrize("kind", KINDS)
def test_long_arrays(kind: str, count: int) -> None:
    """Catches a bin that moves too late, a part that is too fine for it, and a lost error."""
    rng = np.random.default_rng(count)
    a, b = numbers(rng, kind, count), numbers(rng, kind, count)
    total, dot = sum_of(a), dot_of(a, b)
    assert exact(total) == fractions_sum(a) and exact(dot) == fractions_dot(a, b)
    check_any_order(rng, a, b, total, dot)


def check_any_order(rng: Any, a: Any, b: Any, total: np.ndarray, dot: np.ndarray) -> None:
    """Check that any order of the numbers, and any split of them, gives the same bits."""
    order = rng.permutation(len(a))
    assert np.array_equal(sum_of(a[order]), total)
    assert np.array_equal(dot_of(b[order], a[order]), dot)
    places = np.sort(rng.integers(0, len(a) + 1, 3))
    parts = [sum_of(part) for part in np.split(a, places)]
    for one in (parts, parts[::-1]):
        assert np.array_equal(normal(np.sum(one, axis=0)), total)


@pytest.mark.parametrize("kind", ["plain", "wide", "zeros"])
def test_long_arrays_of_float32(kind: str) -> None:
    """Catches products or sums that are rounded to float32."""
    rng = np.random.default_rng(2)
    a, b = (numbers(rng, kind, 3000).astype(np.float32) for _ in range(2))
    assert exact(sum_of(a)) == fractions_sum(a) and exact(dot_of(a, b)) == fractions_dot(a, b)


@pytest.mark.parametrize("power", range(-56, -42, 2))
def test_errors_of_products_are_finer_than_products(power: int) -> None:
    """Catches the error of a product that is too fine for the last bin, though the product is not.

    (1 + 2^-52)^2 is 1 + 2^-51, which the bins hold, and 2^-104, which they do not.
    """
    one = 1 + 2.0**-52
    a, b = np.array([1.0, math.ldexp(one, power), 0.0]), np.array([1.0, one, 1.0])
    assert exact(dot_of(a, b)) == fractions_dot(a, b)
    assert exact(dot_of(np.tile(a, 900), np.tile(b, 900))) == 900 * fractions_dot(a, b)


def test_error_of_a_product_underflows() -> None:
    """Catches an error that is no float64, 2^-1075, though the product fits into the bins."""
    one = 1 + 2.0**-52
    a, b = np.array([2.0**-480, one * 2.0**-485]), np.array([2.0**-480, one * 2.0**-486])
    assert exact(dot_of(a, b)) == fractions_dot(a, b)


@pytest.mark.parametrize("power", [*range(-480, 512, 15), 511])
def test_products_of_one_size(power: int) -> None:
    """Catches a chunk that is taken although its products are beyond what the bins hold.

    At the end a product is -1.5 times 2^1022, which is too large for the largest bins.
    """
    a = np.ldexp([1.5, -1.25, 1.75, -1.5], power)
    b = np.ldexp([1.0, 1.5, 1.25, 1.0], power)
    for some in (slice(3), slice(3, 4)):
        assert exact(dot_of(a[some], b[some])) == fractions_dot(a[some], b[some])
    assert exact(sum_of(np.ldexp(a, power))) == fractions_sum(np.ldexp(a, power))


@pytest.mark.parametrize("power", range(-1070, -830, 8))
def test_small_numbers_in_a_later_chunk(power: int) -> None:
    """Catches bins so small that the error of a product, or a rest, is no float64 in them."""
    one, count = 1 + 2.0**-52, 2 * cpu.CHUNK + 9
    a, b = math.ldexp(one, power // 2), math.ldexp(one, power - power // 2)
    assert exact(dot_of(np.full(count, a), np.full(count, b))) == count * Fraction(a) * Fraction(b)
    number = math.ldexp(one, power)
    assert exact(sum_of(np.full(count, number))) == count * Fraction(number)


def test_numbers_that_fill_the_bins() -> None:
    """Catches an int64 that overflows: numbers are as large as a later chunk's bins allow."""
    count, largest = 1 << 14, math.ldexp(2 - 2.0**-52, 4)
    for sign in (1.0, -1.0):
        values = np.repeat([sign * largest, 4 * sign * largest], count)
        right = count * (Fraction(values[0]) + Fraction(values[-1]))
        assert exact(sum_of(values)) == exact(dot_of(values, np.ones(2 * count))) == right
        more = np.append(values, 2.0**-40)  # the last chunk takes the loop for products of any size
        assert exact(dot_of(more, np.ones(2 * count + 1))) == right + Fraction(1, 1 << 40)


def slow_calls(
    kernel: str, slow: str, arrays: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> int:
    """How often a kernel calls a slower one, which is still called."""
    function, called = getattr(cpu, kernel), []
    function, right = getattr(function, "py_func", function), getattr(cpu, slow)

    def counted(*arguments: Any) -> Any:
        called.append(arguments)
        return right(*arguments)

    with monkeypatch.context() as patch:
        patch.setitem(function.__globals__, slow, counted)
        function(*map(np.asarray, arrays), accumulator())
    return len(called)


def far_products(a: list[float], b: list[float], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a chunk is added by the loop for products of any size."""
    return bool(slow_calls("dot_doubles", "add_any_products", (a, b), monkeypatch))


def test_products_that_are_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches zeros that make a chunk slow, and products that are not 0 but taken for it."""
    for zero in (0.0, -0.0):
        for a, b in (([zero] * 3, [1.0, 2.0, zero]), ([0.5, zero, -0.5], [-0.5, -1.0, 0.25])):
            assert not far_products(a, b, monkeypatch) and not far_products(b, a, monkeypatch)
            assert exact(dot_of(np.array(a), np.array(b))) == fractions_dot(*map(np.array, (a, b)))
    for one, other in ((2.0**-600, 2.0**-600), (0.0, math.inf), (0.0, math.nan)):
        a, b = [0.5, 0.0, one], [0.5, 1.0, other]
        assert far_products(a, b, monkeypatch) and far_products(b, a, monkeypatch)
    a, b = np.array([0.5, 0.0, 2.0**-600]), np.array([0.5, 1.0, 2.0**-600])
    assert exact(dot_of(a, b)) == fractions_dot(a, b)


def test_which_products_the_fast_loop_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a loop whose limits are not those of docs/exact-sums.md: 2^(E-48) and 2^E."""
    for sign in (1.0, -1.0):
        for p in (2.0**-48, 1 - 2.0**-53, 2.0**-20):
            assert not far_products([sign * p], [1.0], monkeypatch)
        for p in (2.0**-48 - 2.0**-101, 2.0**-64, 2.0**-65, 1.0, 2.0**15, 2.0**16, 2.0**1023):
            assert far_products([sign * p], [1.0], monkeypatch)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_which_numbers_the_fast_loop_takes(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches loops that refuse numbers without need, and products of singles that are sums."""
    for size in (1, 7, 8, 100):
        values = np.resize(np.array([0.75, 0.0, -0.0, -0.5, 2.0**-30], dtype), size)
        assert not slow_calls("add_sum_of", "add_any", [values], monkeypatch)
        assert slow_calls("add_sum_of", "add_any", [values * 2], monkeypatch)
        singles = values.astype(np.float32)
        assert not slow_calls("dot_singles", "add_any", [singles, singles], monkeypatch)
        assert exact(dot_of(singles, singles)) == fractions_dot(singles, singles)
    assert slow_calls("add_sum_of", "add_any", [np.array([0.5, 2.0**-130], dtype)], monkeypatch)


@pytest.mark.parametrize("power", [-500, -200, 500])
def test_a_chunk_like_the_one_before_is_fast(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a loop that does not learn from a chunk how large numbers are."""
    values = np.ldexp(np.random.default_rng(1).uniform(0.5, 1, 3 * cpu.CHUNK), power)
    values[cpu.CHUNK :] *= 4
    assert slow_calls("add_sum_of", "add_any", [values], monkeypatch) == 1
    ones = np.ones_like(values)
    assert slow_calls("dot_doubles", "add_any_products", [values, ones], monkeypatch) == 1


def test_which_products_are_added_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches products that are slow without need, and errors that are no floats."""
    for one, other, slow in (
        (2.0**-480, 2.0**-480, False), (2.0**-480, 2.0**-481, True), (2.0**-600, 2.0**-600, True),
        (2.0**-600, 0.0, False), (0.0, 1.0, False), (2.0**1021, 1.0, False), (2.0**1022, 1.0, True),
    ):  # fmt: skip
        for a, b in (([1.0, one], [1.0, other]), ([1.0, other], [1.0, one])):
            found = slow_calls("add_any_products", "add_each_product", (a, b), monkeypatch)
            assert bool(found) == slow, (one, other)
    for one, slow in ((2.0**1021, False), (2.0**1022, True), (math.inf, True), (math.nan, True)):
        assert slow_calls("add_any", "add_each", [[1.0, one]], monkeypatch) == slow


def test_digits_get_room_again() -> None:
    """Catches digits that overflow: those of an accumulator are as full as they may be."""
    full = accumulator()
    full[: DIGITS - 1] = (1 << 62) - 1
    before, values = exact(full), np.random.default_rng(1).standard_normal(5000)
    KERNELS.add_sum(values, full)
    assert exact(full) == before + fractions_sum(values)
    assert ((full[: DIGITS - 1] >= 0) & (full[: DIGITS - 1] < 1 << 32)).all()


def test_room_is_made_in_time() -> None:
    """Catches digits that overflow in a sum too long for a test: they may after 2^16 chunks."""
    for chunk, made in ((0, 0), (65534, 0), (65535, 1), (65536, 0), (2 * 65536 - 1, 1)):
        words = accumulator()
        words[0] = 1 << 40
        cpu.make_room(chunk * cpu.CHUNK, words)
        assert (words[0] < 1 << 32) == made


@pytest.mark.parametrize("name", ["add_sum_of", "dot_doubles", "dot_singles"])
def test_room_is_made_for_each_chunk(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a kernel that never makes room."""
    kernel, seen = getattr(cpu, name), []
    function = getattr(kernel, "py_func", kernel)
    monkeypatch.setitem(function.__globals__, "make_room", lambda low, words: seen.append(low))
    ones = np.ones(2 * cpu.CHUNK + 1, np.float32 if "single" in name else np.float64)
    function(*[ones] * (2 if "dot" in name else 1), accumulator())
    assert seen == [0, cpu.CHUNK, 2 * cpu.CHUNK]


def test_arrays_that_are_not_alike_are_refused() -> None:
    """Catches a kernel that reads beyond the end of an array."""
    with pytest.raises(ValueError, match="must be alike"):
        dot_of(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="must be alike"):
        dot_of(np.ones(3), np.ones(3, np.float32))


# Reductions -------------------------------------------------------------------------------------


def reduced(values: Sequence[Any]) -> list[Any]:
    """What each block is answered by an AllReduce of values, one by each."""
    packed = [packed_value(AllReduce(value, EXACT).value, EXACT) for value in values]
    total = Transport().all_reduce(np.sum(packed, axis=0), "sum")
    return [result_of(total, value, EXACT) for value in values]


def test_blocks_give_numbers_arrays_or_accumulators() -> None:
    """Catches a result of another shape or type, and blocks that are answered differently."""
    values = np.array([0.1, 1e17, -1e17, 0.2])
    right = math.fsum(values)
    forms: tuple[Callable[[float], Any], ...] = (
        float,
        lambda value: accumulated(value),
        lambda value: sum_of(np.array([value])),
    )
    for form in forms:
        assert {*map(float, reduced([form(value) for value in values]))} == {right}
    mixed = reduced([0.1, accumulated(1e17), np.float64(-1e17), sum_of(np.array([0.2]))])
    assert {*map(float, mixed)} == {right}
    (first, _) = reduced([np.full((2, 3), 0.1), np.full((2, 3), -0.1)])
    assert first.shape == (2, 3) and first.dtype == np.float64 and not first.any()
    (single, _) = reduced([np.float32(0.1), np.float32(0.2)])
    assert single.dtype == np.float32
    assert reduced([np.ones(0)])[0].shape == (0,)


@pytest.mark.parametrize(
    "values", [(1.0, np.float32(1)), (np.float32(1), np.float32(1), accumulator())]
)
def test_blocks_that_sum_other_types(values: Sequence[Any]) -> None:
    """Catches a sum of float32 that some blocks take for one of float64."""
    with pytest.raises(RunError, match="different operations, sizes or types"):
        reduced(values)
    with pytest.raises(RunError, match="different operations, sizes or types"):
        result_of(packed_value(np.zeros(exact_sum.WORDS, np.int64), "sum"), 1.0, EXACT)


@pytest.mark.parametrize("value", [1, np.arange(3), True, "x", 1j, np.float16(1), np.longdouble(1)])
def test_what_has_no_exact_sum_is_refused(value: Any) -> None:
    """Catches integers that are taken for digits, and floats that lose bits."""
    with pytest.raises(TypeError, match="an exact sum is of float64, float32 or accumulators"):
        packed_value(value, EXACT)
