"""Statistics of repeated trials for scaling studies; pure functions of numbers.

The method is that of Fink et al. (ESPM2 2021, arXiv:2111.04872): the mean of about ten trials with
a bootstrapped 99 % interval, and the Mann-Whitney U test to compare two sets of trials. Times are
in seconds. A trial is one number, such as the mean step time of one run.

Intervals assume independent trials. With few trials, their coverage is below their level: if times
are lognormal with a standard deviation of 0.5 in the logarithm, a 99 % interval covers the mean in
87, 94 and 98 % of cases with 5, 10 and 30 trials.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.99
HALF = 0.5  # of the best rate
RESAMPLES = 9999  # of a bootstrap
LARGEST_EXACT = 10_000  # pairs of trials; with more, an exact test takes seconds and adds nothing
MOST_ARRANGEMENTS = 20_000  # tried by the exact test with ties: 0.1 s for 8 against 8 trials

Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Interval:
    """A value with the bounds of its confidence interval; NaN bounds if there is none."""

    value: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half the width over the magnitude of the value; infinite for a value of 0."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else math.inf

    def times(self, factor: float) -> Interval:
        """The interval of a positive multiple of the value."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


def mean_interval(values: Numbers) -> Interval:
    """The mean of ``values`` (n,) with its BCa bootstrap interval.

    Bounds are NaN for a single value, and the mean itself if all values are equal. The same
    values give the same bounds. Source: Efron, J. Am. Stat. Assoc. 82 (1987) 171. Raises
    ValueError for no values, and for a value that is not finite.
    """
    return _bca((sample_of("values", values),), np.mean)


def ratio_interval(numerator: Numbers, denominator: Numbers) -> Interval:
    """The mean of ``numerator`` (n,) over that of ``denominator`` (m,), with its BCa interval.

    The two samples are independent, not paired: they are resampled separately. Bounds are NaN if
    one of them has a single value. Raises ValueError like `mean_interval`, and for a denominator
    with a value that is not above 0.
    """
    data = (sample_of("numerator", numerator), positive("denominator", denominator))
    return _bca(data, _ratio_of_means)


def speedup(base: Numbers, times: Numbers) -> Interval:
    """How many times faster ``times`` (m,) are than ``base`` (n,), both in s, all above 0.

    Speed-ups over the same base share its error: their intervals are not independent.
    """
    return ratio_interval(positive("base", base), positive("times", times))


def efficiency_strong(base: Numbers, base_pes: int, times: Numbers, pes: int) -> Interval:
    """Speed-up of a fixed problem over the factor by which the PEs grew.

    ``base`` (n,) are times on ``base_pes`` PEs, ``times`` (m,) on ``pes`` PEs, in s.
    """
    share = pe_count("base_pes", base_pes) / pe_count("pes", pes)
    return speedup(base, times).times(share)


def karp_flatt(speedup: float, pes: int) -> float:
    """The serial fraction that a speed-up over one PE implies: (1/S - 1/p) / (1 - 1/p).

    It is 0 for linear speed-up, 1 for none, negative for superlinear speed-up, and grows with p if
    overheads do. It is not defined for a speed-up over more than one PE. Source: Karp and Flatt,
    Comm. ACM 33 (1990) 539. Raises ValueError for fewer than 2 PEs and for a speed-up that is not
    above 0.
    """
    if pes < 2:
        raise ValueError(f"pes {pes}: must be at least 2")
    if not 0 < speedup < math.inf:
        raise ValueError(f"speedup {speedup}: must be a finite number above 0")
    return (1 / speedup - 1 / pes) / (1 - 1 / pes)


@dataclass(frozen=True)
class UTest:
    """The result of a two-sided Mann-Whitney U test of two sets of trials."""

    u: float  # pairs in which the first set's trial is larger; a tie counts half
    p: float
    effect: float  # u over the number of pairs: probability that the first is larger; 0.5: equal
    significant: bool
    note: str  # why no difference could have been significant, or empty


def u_test(first: Numbers, second: Numbers) -> UTest:
    """Test whether ``first`` (n,) tends to be larger or smaller than ``second`` (m,).

    The significance level is 1 - `LEVEL`. The p value is exact, except for more than
    `LARGEST_EXACT` pairs, or for ties with more than `MOST_ARRANGEMENTS` choices of n from n + m or
    with a set of one trial: then it is the normal approximation. With n and m trials p is at least
    2 / C(n + m, n); ``note`` states if that is too large for significance.

    Source of the effect: McGraw and Wong, Psych. Bull. 111 (1992) 361; ties as in Vargha and
    Delaney, J. Educ. Behav. Stat. 25 (2000) 101. Raises ValueError like `mean_interval`.
    """
    one, two = sample_of("first", first), sample_of("second", second)
    limit = round(1 - LEVEL, 12)  # 1 - 0.99 is more than 0.01
    least = 2 / math.comb(one.size + two.size, one.size)
    u, p = stats.mannwhitneyu(one, two, alternative="two-sided", method=_test_method(one, two))
    p = max(float(p), least)  # the approximation can be below any possible p
    note = ""
    if least >= limit:
        note = (
            f"{one.size} against {two.size} trials cannot reach p < {limit:g}: "
            f"the least is {least:.2g}"
        )
    return UTest(float(u), p, float(u) / (one.size * two.size), p < limit, note)


def _test_method(one: np.ndarray, two: np.ndarray) -> Any:
    """The method by which the U test computes p: the exact distribution if that is cheap."""
    if np.unique(np.concatenate([one, two])).size == one.size + two.size:
        return "exact" if one.size * two.size <= LARGEST_EXACT else "asymptotic"
    arrangements = math.comb(one.size + two.size, one.size)
    if min(one.size, two.size) > 1 and arrangements <= MOST_ARRANGEMENTS:
        return stats.PermutationMethod(n_resamples=MOST_ARRANGEMENTS)
    return "asymptotic"


def crossing(lengths: Numbers, efficiencies: Numbers) -> Interval:
    """The step length in s at which efficiency falls below `HALF` as steps get shorter.

    ``lengths`` (n,) are step lengths in s, all different, in any order; ``efficiencies`` (n,) are
    fractions of the best rate. Between two lengths the efficiency is linear in log(length). The
    bounds are the measured lengths on both sides: 0 and the shortest one if it is never below, the
    longest one and infinity if it is always below. The value is NaN in these cases, and if the
    efficiency crosses a half more than once; then the bounds enclose all crossings. Source:
    METG(50 %) of Slaughter et al., Task Bench, SC 2020. Raises ValueError for lengths that are
    equal or not above 0, and for arrays of different sizes.
    """
    steps, shares = positive("lengths", lengths), sample_of("efficiencies", efficiencies)
    check_same_size("lengths", steps, "efficiencies", shares)
    if np.unique(steps).size < steps.size:
        raise ValueError("lengths: must all be different")
    order = np.argsort(steps)
    steps, shares = steps[order], shares[order]
    below = shares < HALF
    (found,) = np.nonzero(below[:-1] != below[1:])
    if not found.size:
        low, high = (steps[-1], math.inf) if below.all() else (0.0, steps[0])
        return Interval(math.nan, float(low), float(high))
    low, high = float(steps[found[0]]), float(steps[found[-1] + 1])
    if found.size > 1 or not below[0]:
        return Interval(math.nan, low, high)
    ends = [found[0], found[0] + 1]
    value = float(np.exp(np.interp(HALF, shares[ends], np.log(steps[ends]))))
    return Interval(value, low, high)


def sample_of(name: str, values: Numbers) -> np.ndarray:
    """Values as an array (n,); raises ValueError for none, and for one that is not finite."""
    array = np.asarray(values, float)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} of shape {array.shape}: must be one row of at least one number")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} {array[~np.isfinite(array)][0]}: must be finite")
    return array


def positive(name: str, values: Numbers) -> np.ndarray:
    """Values as an array (n,), all of them above 0."""
    array = sample_of(name, values)
    if array.min() <= 0:
        raise ValueError(f"{name} {array.min()}: must be above 0")
    return array


def pe_count(name: str, pes: float) -> int:
    """A number of PEs as int; raises ValueError if it is not a positive integer."""
    if pes < 1 or pes != int(pes):
        raise ValueError(f"{name} {pes}: must be a positive whole number")
    return int(pes)


def check_same_size(name: str, array: np.ndarray, other_name: str, other: np.ndarray) -> None:
    """Raise ValueError if two arrays differ in size."""
    if array.size != other.size:
        raise ValueError(f"{name}, {other_name}: {array.size} and {other.size} must be the same")


def _ratio_of_means(numerator: np.ndarray, denominator: np.ndarray, axis: int = -1) -> Any:
    return numerator.mean(axis) / denominator.mean(axis)


def _bca(data: tuple[np.ndarray, ...], statistic: Callable[..., Any]) -> Interval:
    """A statistic of independent samples with its BCa interval.

    If all values are equal up to rounding, BCa divides 0 by 0; the interval is then that of
    percentiles.
    """
    low, high = bootstrap_bounds(data, statistic, "BCa")
    if np.isnan([low, high]).any():
        low, high = bootstrap_bounds(data, statistic, "percentile")
    return Interval(float(statistic(*data)), float(low), float(high))


def bootstrap_bounds(
    data: Sequence[np.ndarray], statistic: Callable[..., Any], method: str
) -> tuple[Any, Any]:
    """Lower and upper bounds of a statistic, in its shape, by a bootstrap over all samples.

    NaN if a sample has a single value, or if the method has no bounds.
    """
    value = statistic(*data)
    if min(sample.size for sample in data) < 2:
        return value * math.nan, value * math.nan
    if all(np.ptp(sample) == 0 for sample in data):
        return value, value  # exactly, so that no bound is on the wrong side by rounding
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        low, high = stats.bootstrap(
            data,
            statistic,
            confidence_level=LEVEL,
            n_resamples=RESAMPLES,
            method=method,
            vectorized=True,
            rng=np.random.default_rng(0),
        ).confidence_interval
    return low, high
