"""What a campaign says, in numbers: results of points, and what follows from several of them.

The time of a trial is the wall of all its timed steps over their number. A *way* is how a problem
is run, PEs aside: a driver, its ODF, its balancing; a line in a figure. Points with more PEs than
cores are results too, but nothing here that is called scaling is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np

from workbench.run.cases import Case
from workbench.study.campaign import Campaign
from workbench.study.plan import case_of
from workbench.study.statistics import (
    Comparison,
    Fit,
    Interval,
    compare,
    crossing,
    efficiency_strong,
    efficiency_weak,
    fit_amdahl,
    fit_gustafson,
    fit_usl,
    karp_flatt,
    mean_interval,
    ratio_interval,
    speedup,
)
from workbench.study.validation import answer_key, mean_step_s


@dataclass(frozen=True)
class Result:
    """A point of the matrix and the records of its trials, one at least."""

    number: int
    case: Case
    problem: dict[str, Any]
    records: tuple[dict[str, Any], ...]

    @property
    def way(self) -> str:
        """How the problem is run, PEs aside."""
        return self.case.way

    @property
    def pes(self) -> int:
        """PEs."""
        return self.case.pes

    @property
    def oversubscribed(self) -> bool:
        """Whether there were more PEs than cores in any trial."""
        return any(record["oversubscribed"] for record in self.records)

    @cached_property
    def times(self) -> np.ndarray:
        """Seconds per step of each trial: (trials,)."""
        return np.array([mean_step_s(record) for record in self.records])

    @cached_property
    def step(self) -> Interval:
        """Mean seconds per step."""
        return mean_interval(self.times)

    def mean(self, key: str) -> float:
        """The mean of a number of the records."""
        return float(np.mean([record[key] for record in self.records]))

    @cached_property
    def rate(self) -> float:
        """Mean work of a step over its mean time, per second, in the unit of the records.

        Not the mean of the rates: that is larger, and would contradict the ratios of times.
        """
        work = [record["rate"]["value"] * mean_step_s(record) for record in self.records]
        return float(np.mean(work) / self.times.mean())

    @cached_property
    def parts(self) -> dict[str, float]:
        """Where a PE's time of a step goes, on average: seconds computing, balancing, waiting."""
        compute, balance = [], []
        for record in self.records:
            compute.append(record["compute_s"] / record["pes"] / record["steps"])
            balance.append(sum(entry["seconds"] for entry in record["lb"]) / record["steps"])
        busy, moving = float(np.mean(compute)), float(np.mean(balance))
        waiting = max(0.0, float(self.times.mean()) - busy - moving)
        return {"compute": busy, "balance": moving, "wait": waiting}


def results(campaign: Campaign) -> list[Result]:
    """The points that have runs, in the order of the matrix."""
    records: dict[int, list[dict[str, Any]]] = {}
    for run in campaign.of("run"):
        records.setdefault(run["point"], []).append(run["record"])
    points = campaign.head["points"]
    return [
        Result(number, case_of(points[number]), points[number]["problem"], tuple(records[number]))
        for number in sorted(records)
    ]


def by_way(found: list[Result]) -> dict[str, list[Result]]:
    """Results by way, each with its PEs ascending."""
    ways: dict[str, list[Result]] = {}
    for result in found:
        ways.setdefault(result.way, []).append(result)
    return {way: sorted(mine, key=lambda result: result.pes) for way, mine in ways.items()}


# Strong and weak scaling --------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """A result against that of the same way on the fewest PEs."""

    result: Result
    base: Result
    speedup: Interval  # weak: of the work done per second
    efficiency: Interval
    serial_share: float | None  # Karp and Flatt's, in strong scaling from one PE


def scaling(found: list[Result], weak: bool) -> list[Scaling]:
    """How each way scales, over the points that have a core for each PE."""
    rows = []
    for mine in by_way([result for result in found if not result.oversubscribed]).values():
        rows += [_scaled(mine[0], result, weak) for result in mine]
    return rows


def _scaled(base: Result, result: Result, weak: bool) -> Scaling:
    growth = result.pes / base.pes
    if result is base:
        return Scaling(result, base, Interval(1, 1, 1), Interval(1, 1, 1), None)
    if weak:
        efficiency = efficiency_weak(base.times, result.times)
        gain = Interval(
            efficiency.value * growth, efficiency.low * growth, efficiency.high * growth
        )
    else:
        efficiency = efficiency_strong(base.times, base.pes, result.times, result.pes)
        gain = speedup(base.times, result.times)
    serial = None
    if base.pes == 1 and result.pes > 1 and not weak:
        serial = karp_flatt(gain.value, result.pes)
    return Scaling(result, base, gain, efficiency, serial)


def fits(found: list[Result], weak: bool) -> list[tuple[str, Fit | str]]:
    """Scaling laws fitted to each way, or why one cannot be."""
    usl = partial(fit_usl, weak=weak)
    rows: list[tuple[str, Fit | str]] = []
    for way, mine in by_way([result for result in found if not result.oversubscribed]).items():
        pes = np.concatenate([np.full(len(result.times), result.pes) for result in mine])
        times = np.concatenate([result.times for result in mine])
        for law in (fit_gustafson if weak else fit_amdahl, usl):
            try:
                rows.append((way, law(pes, times)))
            except ValueError as error:
                rows.append((way, str(error)))
    return rows


# Ways against each other --------------------------------------------------------------------------


@dataclass(frozen=True)
class Contest:
    """Two ways of running the same problem on the same PEs."""

    first: Result
    second: Result
    ratio: Interval  # time of the second over the first's
    test: Comparison


def contests(found: list[Result]) -> list[Contest]:
    """The first way of each problem and number of PEs against every other one.

    Points with more PEs than cores are left out: their times compare nothing.
    """
    rows = []
    counted = [result for result in found if not result.oversubscribed]
    for _, group in groupby(sorted(counted, key=_contest_key), _contest_key):
        first, *others = sorted(group, key=lambda result: result.number)
        for other in others:
            ratio = ratio_interval(other.times, first.times)
            rows.append(Contest(first, other, ratio, compare(other.times, first.times)))
    return sorted(rows, key=lambda row: row.second.number)


def _contest_key(result: Result) -> tuple[int, str]:
    return result.pes, repr(answer_key(result.records[0]))


# Balancing ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gain:
    """A balanced result against one that was not, which promises max/mean of its compute."""

    balanced: Result
    other: Result
    gain: Interval  # time of the other over the balanced one's
    promise: float
    test: Comparison  # of the other's times with the balanced one's

    @property
    def share_of_promise(self) -> float:
        """How much of the promise was kept."""
        return self.gain.value / self.promise


def gains(found: list[Result]) -> list[Gain]:
    """Every balanced result against the unbalanced ones of its PEs: of its ODF, and under mpi.

    Points with more PEs than cores are left out.
    """
    counted = [result for result in found if not result.oversubscribed]
    plain = [result for result in counted if not result.case.balancer]
    return [
        _gain(result, other)
        for result in counted
        if result.case.balancer
        for other in plain
        if other.pes == result.pes and _promises(other, result)
    ]


def _gain(balanced: Result, other: Result) -> Gain:
    gain = ratio_interval(other.times, balanced.times)
    test = compare(other.times, balanced.times)
    return Gain(balanced, other, gain, other.mean("imbalance"), test)


def _promises(other: Result, balanced: Result) -> bool:
    """Whether a result without balancing is what a balanced one is measured against."""
    same = other.case.driver == balanced.case.driver and other.case.odf == balanced.case.odf
    return other.case.driver == "mpi" or same


# Granularity --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grain:
    """A result of a shrinking problem: how long a step is, and what share of the best rate."""

    result: Result
    efficiency: float  # rate over the best rate of all results
    block_step_s: float  # a PE's time per step and block


@dataclass(frozen=True)
class Granularity:
    """How one way bears ever shorter steps."""

    way: str
    grains: tuple[Grain, ...]
    half_at_s: float | None  # step length at which half of the best rate is left: METG(50 %)


def granularity(found: list[Result]) -> list[Granularity]:
    """METG of each way (Slaughter et al., Task Bench, SC 2020)."""
    counted = [result for result in found if not result.oversubscribed]
    best = max((result.rate / result.pes for result in counted), default=0.0)
    rows = []
    for way, mine in _ways_on_pes(counted):
        grains = tuple(
            Grain(result, result.rate / result.pes / best, result.step.value / result.case.odf)
            for result in mine
        )
        lengths = [grain.result.step.value for grain in grains]
        half = crossing(lengths, [grain.efficiency for grain in grains])
        rows.append(Granularity(way, grains, half))
    return rows


def _ways_on_pes(found: list[Result]) -> Iterator[tuple[str, list[Result]]]:
    for way, mine in by_way(found).items():
        for pes, group in groupby(mine, lambda result: result.pes):
            yield f"{way} on {pes} PE", list(group)
