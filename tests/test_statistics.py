"""Statistics of repeated trials: against cases worked out by hand, SciPy, and known truths."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from miniapps.workbench.study import laws, statistics
from miniapps.workbench.study.statistics import Interval

pytestmark = pytest.mark.filterwarnings("error")  # none may leak, not even where BCa is 0/0

TIMES = [1.0, 2.0, 3.0, 5.0, 9.0]
OTHERS = [2.0, 2.5, 4.5]
PES = np.repeat([1, 2, 4, 8, 16], 10)


def direct(*data: Any, statistic: Callable[..., Any]) -> Any:
    """The interval that SciPy gives when asked without this project."""
    rng = np.random.default_rng(0)
    return stats.bootstrap(data, statistic, confidence_level=0.99, rng=rng).confidence_interval


def noisy(times: np.ndarray, deviation: float = 0.03) -> np.ndarray:
    """Times with relative noise, each with its own."""
    return times * np.random.default_rng(5).lognormal(0, deviation, times.size)


def test_half_width_is_a_share_of_the_value() -> None:
    """Catches a whole width, a share of a bound, a sign, and a division by zero."""
    assert Interval(4.0, 3.0, 6.0).relative_half_width == 0.375  # 3 / 2 / 4
    assert Interval(-4.0, -6.0, -3.0).relative_half_width == 0.375
    assert Interval(0.0, -1.0, 1.0).relative_half_width == math.inf


def test_mean_interval_is_that_of_scipy() -> None:
    """Catches another level or method than it says, and a seed that is not used."""
    expected = Interval(4.0, *direct(TIMES, statistic=np.mean))
    assert statistics.mean_interval(TIMES) == statistics.mean_interval(TIMES) == expected


def test_mean_interval_of_two_values() -> None:
    """Catches a one-sided interval: a quarter of all resamples has each value twice."""
    assert statistics.mean_interval([1.0, 3.0]) == Interval(2.0, 1.0, 3.0)


def test_mean_interval_where_bca_is_undefined() -> None:
    """Catches NaN or a warning for equal values, and bounds for a single one."""
    assert statistics.mean_interval([2.0, 2.0, 2.0]) == Interval(2.0, 2.0, 2.0)
    almost = statistics.mean_interval([1.0] * 9 + [np.nextafter(1.0, 2.0)])
    assert almost.low <= almost.value <= almost.high == pytest.approx(1.0)
    single = statistics.mean_interval([2.0])
    assert single.value == 2.0 and math.isnan(single.low) and math.isnan(single.high)
    assert math.isnan(single.relative_half_width)


@pytest.mark.slow
def test_mean_interval_covers_the_mean() -> None:
    """Catches bounds that are too narrow, of 90 % and not 99 %, and bounds that cover all."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        found = statistics.mean_interval(rng.lognormal(0, 0.5, 10))
        covered += found.low <= math.exp(0.5**2 / 2) <= found.high
    assert 0.91 <= covered / 300 <= 0.97


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "values of shape"),
        ([[1.0, 2.0]], "values of shape"),
        ([1.0, math.nan], "values nan: must be finite"),
        ([1.0, math.inf], "values inf: must be finite"),
    ],
)
def test_values_that_are_none(values: Any, message: str) -> None:
    """Catches a mean of nothing and a NaN that spreads into a table."""
    with pytest.raises(ValueError, match=message):
        statistics.mean_interval(values)


def test_ratio_interval_is_that_of_scipy() -> None:
    """Catches a mean of ratios, paired samples (they differ in size), an upside-down ratio."""
    expected = direct(
        TIMES, OTHERS, statistic=lambda x, y, axis: np.mean(x, axis) / np.mean(y, axis)
    )
    found = statistics.ratio_interval(TIMES, OTHERS)
    assert found == Interval(4.0 / 3.0, *expected)  # 20/5 over 9/3


def test_ratio_interval_at_its_edges() -> None:
    """Catches NaN where one sample is constant, bounds of a single value, a division by zero."""
    assert statistics.ratio_interval([1.0, 1.0], [4.0, 4.0, 4.0]) == Interval(0.25, 0.25, 0.25)
    constant = statistics.ratio_interval([0.7] * 10, [0.7] * 7)
    assert constant.low == constant.value == constant.high  # a figure wants no bound beyond it
    # the mean of [2, 3] is 2 or 3 in a quarter of the resamples each
    assert statistics.ratio_interval([6.0, 6.0], [2.0, 3.0]) == Interval(2.4, 2.0, 3.0)
    assert math.isnan(statistics.ratio_interval([1.0, 2.0], [4.0]).low)
    assert math.isnan(statistics.ratio_interval([1.0], [4.0, 5.0]).high)
    with pytest.raises(ValueError, match="denominator 0.0: must be above 0"):
        statistics.ratio_interval([1.0, 2.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="numerator nan: must be finite"):
        statistics.ratio_interval([math.nan, 2.0], [1.0])


def test_speedup_and_efficiencies() -> None:
    """Catches base and times that are swapped, and PE counts too."""
    # Means 10 and 2.5 s: 4 times faster. Extremes, likelier than 1 %: 8/3 and 12/2.
    assert statistics.speedup([8.0, 12.0], [2.0, 3.0]) == Interval(4.0, 8 / 3, 6.0)
    # Of 2 and 16 PEs: 4 of 8 times, so a half.
    strong = statistics.efficiency_strong([8.0, 12.0], 2, [2.0, 3.0], 16)
    assert strong == Interval(0.5, 8 / 3 / 8, 0.75)
    # 2 s on one PE, 2.5 s on many.
    assert statistics.speedup([1.0, 3.0], [2.0, 3.0]) == Interval(0.8, 1 / 3, 1.5)


def test_speedup_refuses_what_is_no_time() -> None:
    """Catches a run that took no time, or was not on a number of PEs."""
    with pytest.raises(ValueError, match="base 0.0: must be above 0"):
        statistics.speedup([0.0, 1.0], [1.0])
    with pytest.raises(ValueError, match="times -1.0: must be above 0"):
        statistics.speedup([1.0], [-1.0, 1.0])
    with pytest.raises(ValueError, match="base_pes 0: must be a positive whole number"):
        statistics.efficiency_strong([1.0], 0, [1.0], 2)
    with pytest.raises(ValueError, match="pes 1.5: must be a positive whole number"):
        statistics.efficiency_strong([1.0], 1, [1.0], 1.5)  # type: ignore[arg-type]


def test_karp_flatt() -> None:
    """Catches p in place of p - 1, and a fraction that is turned over."""
    assert statistics.karp_flatt(4.0, 8) == pytest.approx(1 / 7)  # (1/4 - 1/8) / (7/8)
    assert statistics.karp_flatt(8.0, 8) == 0.0
    assert statistics.karp_flatt(1.0, 8) == 1.0
    amdahl = 1 / (0.3 + 0.7 / 5)
    assert statistics.karp_flatt(amdahl, 5) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="pes 1: must be at least 2"):
        statistics.karp_flatt(1.0, 1)
    with pytest.raises(ValueError, match="speedup 0.0: must be"):
        statistics.karp_flatt(0.0, 2)
    with pytest.raises(ValueError, match="speedup inf: must be"):
        statistics.karp_flatt(math.inf, 2)


def test_compare_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches the other set's U, a one-sided p, and an effect over another number of pairs."""
    # 3 beats 1 and 2; 5 and 6 beat all: 8 of 9 pairs. Of the C(6, 3) = 20 ways to choose the
    # first set one has U = 9 and one U = 8: 2/20 on this side, as many on the other.
    monkeypatch.setattr(statistics, "LEVEL", 0.75)
    found = statistics.u_test([3.0, 5.0, 6.0], [1.0, 2.0, 4.0])
    assert (found.u, found.effect) == (8.0, 8 / 9)
    assert found.p == pytest.approx(0.2)
    assert found.significant and found.note == ""
    monkeypatch.setattr(statistics, "LEVEL", 0.85)
    turned = statistics.u_test([1.0, 2.0, 4.0], [3.0, 5.0, 6.0])
    assert (turned.u, turned.effect) == (1.0, 1 / 9)
    assert turned.p == pytest.approx(0.2) and not turned.significant
    uneven = statistics.u_test([1.0, 2.0], [3.0, 4.0, 5.0, 6.0])
    assert uneven.p == pytest.approx(2 / 15)  # C(6, 2)


def test_compare_says_when_trials_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches "no difference" where none could have been found, and the reverse."""
    few = statistics.u_test([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert few.note == "3 against 3 trials cannot reach p < 0.01: the least is 0.1"
    assert few.p == pytest.approx(0.1) and not few.significant
    five = statistics.u_test(range(5), range(5, 10))
    assert five.p == pytest.approx(2 / 252)
    assert five.significant and five.note == ""
    # 2 / C(200, 1) is 0.01 and not below it, whatever 1 - 0.99 is in binary
    edge = statistics.u_test(range(199), [1000.0])
    assert edge.note and not edge.significant
    monkeypatch.setattr(statistics, "LEVEL", 0.995)
    strict = statistics.u_test(range(5), range(5, 10))
    assert strict.note == "5 against 5 trials cannot reach p < 0.005: the least is 0.0079"
    assert not strict.significant


def test_compare_is_exact_with_ten_trials() -> None:
    """Catches the normal approximation, which SciPy takes by itself from 9 trials on."""
    rng = np.random.default_rng(3)
    one, two = rng.normal(0, 1, 10), rng.normal(1, 1, 10)
    found = statistics.u_test(one, two)
    assert found.p == stats.mannwhitneyu(one, two, method="exact").pvalue
    assert found.p != stats.mannwhitneyu(one, two, method="asymptotic").pvalue


def test_where_the_exact_test_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an approximation for as many pairs or arrangements as the exact test can take."""
    for limit, pairs in ((9, True), (8, False)):
        monkeypatch.setattr(statistics, "LARGEST_EXACT", limit)
        found = statistics.u_test([3.0, 5.0, 6.0], [1.0, 2.0, 4.0])
        assert (found.p == pytest.approx(0.2)) == pairs
    for limit, arrangements in ((20, True), (19, False)):
        monkeypatch.setattr(statistics, "MOST_ARRANGEMENTS", limit)
        found = statistics.u_test([3.0, 3.0, 4.0], [1.0, 2.0, 3.0])
        assert (found.p == pytest.approx(0.3)) == arrangements
    # Of the 10 ways to choose two of 1, 2, 3, 3, 3 three have two of the 3s, and the largest u.
    assert statistics.u_test([3.0, 3.0], [1.0, 2.0, 3.0]).p == pytest.approx(2 * 3 / 10)


def test_one_trial_with_ties() -> None:
    """Catches SciPy's refusal to permute a sample of one."""
    found = statistics.u_test([2.0], [2.0, 3.0, 2.0])
    assert 2 / 4 <= found.p <= 1 and not found.significant and found.effect == 2 / 6


def test_compare_with_ties() -> None:
    """Catches an approximation that finds a p no five trials can reach."""
    found = statistics.u_test([1.0] * 5, [2.0] * 5)
    assert stats.mannwhitneyu([1.0] * 5, [2.0] * 5).pvalue < 0.005
    assert found.p == pytest.approx(2 / 252)
    same = statistics.u_test([1.0] * 5, [1.0] * 5)
    assert (same.p, same.effect, same.significant) == (1.0, 0.5, False)
    # Of the 20 ways to choose three of 1, 2, 3, 3, 3, 4 the three with 3, 3, 4 have the largest u:
    # 2.5 for each 3, and 3 for the 4. So p = 2 x 3/20; SciPy's "exact" takes no notice of ties.
    mixed = statistics.u_test([3.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    assert (mixed.u, mixed.effect) == (8.0, 8 / 9)
    assert mixed.p == pytest.approx(0.3)
    assert stats.mannwhitneyu([3.0, 3.0, 4.0], [1.0, 2.0, 3.0], method="exact").pvalue < 0.25


def test_compare_of_many_trials() -> None:
    """Catches an approximate p below the least, and an exact test that never ends."""
    found = statistics.u_test([1.0] * 3, [2.0] * 60)
    assert stats.mannwhitneyu([1.0] * 3, [2.0] * 60).pvalue < 1e-9
    assert found.p == pytest.approx(2 / math.comb(63, 3))
    one, two = np.arange(0.0, 2000.0, 2.0), np.arange(1.0, 2001.0, 2.0)
    many = statistics.u_test(one, two)
    assert many.p == stats.mannwhitneyu(one, two, method="asymptotic").pvalue


def test_compare_refuses_nan() -> None:
    """Catches a failed trial that is compared."""
    with pytest.raises(ValueError, match="second nan: must be finite"):
        statistics.u_test([1.0], [math.nan])


def amdahl(pes: np.ndarray) -> np.ndarray:
    """10 s on one PE, of which a tenth is serial: 10, 5.5, 3.25, 2.125, 1.5625 s."""
    return 1.0 + 9.0 / pes


def gustafson(pes: np.ndarray) -> np.ndarray:
    """2 s on one PE; a quarter is serial: on 4 PEs 4 - 0.25 x 3 = 3.25 times the work."""
    return 2.0 * pes / (pes - 0.25 * (pes - 1))


def usl(pes: np.ndarray) -> np.ndarray:
    """8 s on one PE, sigma 0.1, kappa 0.01: on 4 PEs 8 (1 + 0.3 + 0.12) / 4 = 2.84 s."""
    return 8.0 * (1 + 0.1 * (pes - 1) + 0.01 * pes * (pes - 1)) / pes


CASES = [
    (laws.fit_amdahl, amdahl, {"t1_s": 10.0, "serial_part": 0.1}, 3.25),
    (laws.fit_gustafson, gustafson, {"t1_s": 2.0, "serial_part": 0.25}, 8 / 3.25),
    (laws.fit_usl, usl, {"t1_s": 8.0, "sigma": 0.1, "kappa": 0.01}, 2.84),
    (  # the same with p times the work on p PEs
        partial(laws.fit_usl, weak=True), lambda pes: pes * usl(pes),
        {"t1_s": 8.0, "sigma": 0.1, "kappa": 0.01}, 11.36,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fit", "law", "truth", "on_four"), CASES)
def test_fit_finds_the_law_without_noise(fit, law, truth, on_four):
    """Catches a wrong formula, p in place of p - 1, and a law of another kind of scaling."""
    for unit in (1.0, 1e-7):  # microseconds must not be lost in a tolerance
        found = fit(PES, law(PES) * unit)
        assert list(found.parameters) == list(truth)
        for name, value in truth.items():
            right = pytest.approx(value * (unit if name == "t1_s" else 1.0), rel=1e-9, abs=0)
            interval = found.parameters[name]
            assert interval.value == interval.low == interval.high == right
        assert found.predict(4) == pytest.approx(on_four * unit)
        assert found.predict([1, 32]) == pytest.approx(law(np.array([1, 32])) * unit)
        assert found.residual < 1e-9 and found.note == ""


@pytest.mark.slow
@pytest.mark.parametrize(("fit", "law", "truth", "on_four"), CASES)
def test_fit_finds_the_law_in_noise(fit, law, truth, on_four):
    """Catches intervals that miss the truth, or are as wide as anything."""
    times = noisy(law(PES))
    found = fit(PES, times)
    for name, value in truth.items():
        interval = found.parameters[name]
        assert interval.low < value < interval.high
        assert interval.low < interval.value < interval.high
        assert interval.high - interval.low < {"t1_s": 0.1 * value, "kappa": 0.01}.get(name, 0.06)
    assert 1e-4 < found.residual < 0.03
    assert found.predict(4) == pytest.approx(on_four, rel=0.03)
    assert fit(PES, times) == found


def test_fit_is_the_best_one_of_relative_errors() -> None:
    """Catches plain squares of seconds, and PE counts that weigh the same with fewer trials."""
    pes = np.repeat([1, 2, 8, 32], [2, 5, 3, 10])
    times = noisy(amdahl(pes), 0.3)
    means = {p: times[pes == p].mean() for p in np.unique(pes)}
    mean = np.array([means[p] for p in pes])

    def errors(unknown: np.ndarray) -> np.ndarray:
        return unknown[0] * (unknown[1] + (1 - unknown[1]) / pes) / mean - 1

    best = optimize.least_squares(
        errors, [5.0, 0.5], bounds=([0, 0], [np.inf, 1]), xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    found = laws.fit_amdahl(pes, times)
    assert [i.value for i in found.parameters.values()] == pytest.approx(best.x, rel=1e-6)
    assert found.residual == pytest.approx(np.abs(errors(best.x)).max(), rel=1e-6)


def test_fit_of_gustafson_weighs_relative_errors() -> None:
    """Catches rates that are fitted as they are, where small ones count little."""
    pes, times = np.array([1, 4, 16, 64]), np.array([1.0, 1.5, 9.0, 12.0])

    def errors(unknown: np.ndarray) -> np.ndarray:
        return times / (unknown[0] * pes / (pes - unknown[1] * (pes - 1))) - 1

    best = optimize.least_squares(
        errors, [1.0, 0.5], bounds=([0, 0], [np.inf, 1]), xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    found = laws.fit_gustafson(pes, times)
    assert [i.value for i in found.parameters.values()] == pytest.approx(best.x, rel=1e-6)


def test_fit_resamples_the_trials_of_each_pe_count() -> None:
    """Catches trials that are resampled across PE counts, and a one-sided interval."""
    # serial = 2 t(2) / t(1) - 1; each of the 16 pairs of resamples is likelier than 1 %
    found = laws.fit_amdahl([2, 1, 1, 2], [0.6, 1.0, 1.1, 0.7])
    t1, serial = found.parameters["t1_s"], found.parameters["serial_part"]
    assert (t1.value, t1.low, t1.high) == pytest.approx((1.05, 1.0, 1.1))
    wanted = (2 * 0.65 / 1.05 - 1, 2 * 0.6 / 1.1 - 1, 2 * 0.7 / 1.0 - 1)
    assert (serial.value, serial.low, serial.high) == pytest.approx(wanted)


def test_fit_stays_within_bounds() -> None:
    """Catches a negative serial part where scaling is better than perfect, or none at all."""
    better = laws.fit_amdahl([1, 2, 4], [8.0, 3.0, 1.0])
    # t = a/p, and relative errors a/8 - 1, a/6 - 1, a/4 - 1: least squares at a = 312/61
    assert better.parameters["serial_part"].value == 0.0
    assert better.parameters["t1_s"].value == pytest.approx(312 / 61)
    assert better.residual == pytest.approx(1 - 312 / 61 / 8)  # the first, which is below 0
    worse = laws.fit_amdahl([1, 2, 4], [1.0, 2.0, 3.0])
    assert worse.parameters["serial_part"].value == 1.0
    linear = laws.fit_usl(PES, noisy(10.0 / PES))
    for name in ("sigma", "kappa"):
        assert linear.parameters[name].low == 0.0 <= linear.parameters[name].value < 0.01


def test_fit_says_what_was_not_measured() -> None:
    """Catches a fit through as many points as parameters that passes for a test of the law."""
    exact = laws.fit_amdahl([1, 1, 4, 4], [10.0, 10.2, 3.2, 3.3])
    assert exact.note == ("2 numbers of PEs determine 2 parameters, so they do not test the law")
    assert exact.parameters["serial_part"].low < exact.parameters["serial_part"].high
    single = laws.fit_amdahl([1, 1, 2, 4], [10.0, 10.2, 5.5, 3.2])
    assert single.note == "one trial on 2 PEs, 4 PEs: no intervals"
    assert all(math.isnan(i.low) and math.isnan(i.high) for i in single.parameters.values())
    both = laws.fit_usl([1, 2, 4], [10.0, 5.5, 3.3])
    assert "3 numbers of PEs determine 3 " in both.note and "one trial on 1 PE, 2 PEs" in both.note


@pytest.mark.parametrize(
    ("fit", "pes", "times", "message"),
    [
        (laws.fit_amdahl, [4, 4], [1.0, 1.1], "Amdahl needs at least 2 numbers of PEs"),
        (laws.fit_usl, [1, 2, 2], [2.0, 1.0, 1.1], "USL needs at least 3 numbers of PEs"),
        (laws.fit_usl, [1, 2, 3], [1000.0, 1.0, 4.0], "USL takes no time on one PE"),
        (laws.fit_amdahl, [1, 2], [1.0], "pes, times: 2 and 1 must be the same"),
        (laws.fit_amdahl, [0, 2], [2.0, 1.0], "pes 0.0: must be a positive whole"),
        (laws.fit_amdahl, [1.5, 2], [2.0, 1.0], "pes 1.5: must be a positive whole"),
        (laws.fit_gustafson, [1, 2], [2.0, 0.0], "times 0.0: must be above 0"),
        (laws.fit_gustafson, [1, 2], [2.0, math.nan], "times nan: must be finite"),
    ],
)
def test_fit_refuses(fit: Any, pes: list[float], times: list[float], message: str) -> None:
    """Catches more parameters than points, and trials that are none."""
    with pytest.raises(ValueError, match=message):
        fit(pes, times)


def test_fit_can_be_kept() -> None:
    """Catches a function inside a fit that cannot be pickled."""
    found = laws.fit_usl(PES, noisy(usl(PES)))
    again = pickle.loads(pickle.dumps(found))
    assert again == found and np.array_equal(again.predict(PES), found.predict(PES))


@pytest.mark.parametrize(
    ("efficiencies", "exponent", "low", "high"),
    [
        ([0.9, 0.8, 0.3, 0.1], -1.6, 0.01, 0.1),  # 0.5 is 3/5 of the way from 0.8 to 0.3
        ([0.9, 0.5, 0.3, 0.1], -1.0, 0.01, 0.1),  # 0.5 itself is not below
        ([0.9, 0.5, 0.9, 0.2], -2 - 4 / 7, 0.001, 0.01),  # it touches 0.5 and rises again
        ([0.9, 0.4, 0.7, 0.2], math.nan, 0.001, 1.0),  # falls twice
        ([0.3, 0.7, 0.3, 0.1], math.nan, 0.01, 1.0),  # the longest step is below too
        ([0.3, 0.2, 0.6, 0.7], math.nan, 0.01, 0.1),  # only rises
        ([0.9, 0.8, 0.7, 0.6], math.nan, 0.0, 0.001),  # never below
        ([0.4, 0.3, 0.2, 0.1], math.nan, 1.0, math.inf),  # always below
    ],
)
def test_crossing(efficiencies: list[float], exponent: float, low: float, high: float) -> None:
    """Catches a length that is not interpolated in its logarithm, and one that is no crossing."""
    lengths = [1.0, 0.1, 0.01, 0.001]
    found = statistics.crossing(lengths, efficiencies)
    assert found.value == pytest.approx(10**exponent, nan_ok=True)
    assert (found.low, found.high) == (low, high)
    again = statistics.crossing(lengths[::-1], efficiencies[::-1])
    assert dataclasses.astuple(again) == pytest.approx(dataclasses.astuple(found), nan_ok=True)


def test_input_that_has_no_crossing() -> None:
    """Catches a length for steps that are none."""
    with pytest.raises(ValueError, match="lengths: must all be different"):
        statistics.crossing([1.0, 1.0], [0.9, 0.4])
    with pytest.raises(ValueError, match="lengths, efficiencies: 2 and 1"):
        statistics.crossing([1.0, 0.1], [0.9])
    with pytest.raises(ValueError, match="lengths 0.0: must be above 0"):
        statistics.crossing([1.0, 0.0], [0.9, 0.4])
    with pytest.raises(ValueError, match="efficiencies nan"):
        statistics.crossing([1.0, 0.1], [0.9, math.nan])
