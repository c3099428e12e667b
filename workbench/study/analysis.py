"""Results of a campaign: the numbers of each point, and comparisons between points.

The time of a trial is the wall time of all its timed steps over their number. A *configuration* is
a driver with its ODF and its balancer settings, without the number of PEs: one line in a figure.
Points with more PEs than cores have results, but take no part in scaling and comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np

from miniapps.workbench import plural
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.record import DISTURBED, disturbed
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.laws import Fit, fit_amdahl, fit_gustafson, fit_usl
from miniapps.workbench.study.plan import case_of
from miniapps.workbench.study.revalidation import answer_key
from miniapps.workbench.study.statistics import (
    Interval,
    UTest,
    crossing,
    efficiency_strong,
    karp_flatt,
    mean_interval,
    ratio_interval,
    speedup,
    u_test,
)
from miniapps.workbench.study.validation import mean_step_s

LEAST_GAIN = 0.01  # that a balancer could bring; a share of less says nothing


@dataclass(frozen=True)
class Result:
    """A point of the matrix and the records of its trials, at least one."""

    number: int
    case: Case
    problem: dict[str, Any]
    records: tuple[dict[str, Any], ...]

    @property
    def configuration(self) -> str:
        """The configuration, such as "charm ODF 4 Greedy, every 30 steps"."""
        return self.case.configuration

    @property
    def pes(self) -> int:
        """Number of PEs."""
        return self.case.pes

    @property
    def pe_count(self) -> str:
        """Number of PEs in words, such as "2 PEs"."""
        return plural.counted(self.pes, "PE")

    @property
    def oversubscribed(self) -> bool:
        """Whether there were more PEs than cores in any trial."""
        return any(record["oversubscribed"] for record in self.records)

    @property
    def hosts(self) -> int:
        """The number of hosts that had PEs."""
        return max(len(record.get("hosts", [])) or 1 for record in self.records)

    @property
    def disturbed(self) -> int:
        """The number of trials that other programs disturbed."""
        return sum(disturbed(record) > DISTURBED for record in self.records)

    @cached_property
    def times(self) -> np.ndarray:
        """Seconds per step of each trial: (trials,)."""
        return np.array([mean_step_s(record) for record in self.records])

    @cached_property
    def step(self) -> Interval:
        """Mean seconds per step."""
        return mean_interval(self.times)

    def mean(self, key: str) -> float:
        """The mean over trials of a key of the records."""
        return float(np.mean([record[key] for record in self.records]))

    @cached_property
    def rate(self) -> float:
        """Mean work of a step over its mean time, in the unit of the records.

        The mean of the rates would be larger, and would contradict the ratios of times.
        """
        work = [record["rate"]["value"] * mean_step_s(record) for record in self.records]
        return float(np.mean(work) / self.times.mean())

    @cached_property
    def parts(self) -> dict[str, float]:
        """Mean seconds of a PE per step: "compute", "balance" and "wait"."""
        compute, balance = [], []
        for record in self.records:
            compute.append(record["compute_s"] / record["pes"] / record["steps"])
            balance.append(sum(entry["seconds"] for entry in record["lb"]) / record["steps"])
        busy, moving = float(np.mean(compute)), float(np.mean(balance))
        waiting = max(0.0, float(self.times.mean()) - busy - moving)
        return {"compute": busy, "balance": moving, "wait": waiting}


def results(campaign: Campaign) -> list[Result]:
    """The results of all points that have runs, in the order of the matrix."""
    points = campaign.head["points"]
    return [
        Result(number, case_of(points[number]), points[number]["problem"], tuple(records))
        for number, records in sorted(campaign.records.items())
    ]


def comparable(found: list[Result]) -> list[Result]:
    """The results with a core for each PE; times of the others cannot be compared."""
    return [result for result in found if not result.oversubscribed]


def by_configuration(found: list[Result]) -> dict[str, list[Result]]:
    """Results by configuration, each list in ascending order of PEs."""
    groups: dict[str, list[Result]] = {}
    for result in found:
        groups.setdefault(result.configuration, []).append(result)
    return {
        configuration: sorted(mine, key=lambda result: result.pes)
        for configuration, mine in groups.items()
    }


# Strong and weak scaling --------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """A result compared with that of the same configuration on the fewest PEs."""

    result: Result
    base: Result
    speedup: Interval  # in weak scaling, of the work per second
    efficiency: Interval
    serial_fraction: float | None  # of Karp and Flatt; in strong scaling from one PE only


def scaling(found: list[Result], weak: bool) -> list[Scaling]:
    """The scaling of each configuration, over the points with a core for each PE."""
    rows = []
    for mine in by_configuration(comparable(found)).values():
        rows += [_scaled(mine[0], result, weak) for result in mine]
    return rows


def _scaled(base: Result, result: Result, weak: bool) -> Scaling:
    growth = result.pes / base.pes
    if result is base:
        return Scaling(result, base, Interval(1, 1, 1), Interval(1, 1, 1), None)
    if weak:
        efficiency = speedup(base.times, result.times)  # of a problem that grew with the PEs
        gain = efficiency.times(growth)
    else:
        efficiency = efficiency_strong(base.times, base.pes, result.times, result.pes)
        gain = speedup(base.times, result.times)
    serial = None
    if result.pes > base.pes == 1 and not weak:
        serial = karp_flatt(gain.value, result.pes)
    return Scaling(result, base, gain, efficiency, serial)


def fits(found: list[Result], weak: bool) -> list[tuple[str, Fit | str]]:
    """Configurations and the scaling law fitted to each, or the reason why none could be."""
    usl = partial(fit_usl, weak=weak)
    rows: list[tuple[str, Fit | str]] = []
    for configuration, mine in by_configuration(comparable(found)).items():
        pes = np.concatenate([np.full(len(result.times), result.pes) for result in mine])
        times = np.concatenate([result.times for result in mine])
        for law in (fit_gustafson if weak else fit_amdahl, usl):
            try:
                rows.append((configuration, law(pes, times)))
            except ValueError as error:
                rows.append((configuration, str(error)))
    return rows


# Pairwise comparisons -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PairwiseComparison:
    """Two configurations that ran the same problem on the same number of PEs."""

    first: Result
    second: Result
    ratio: Interval  # time of the second over time of the first
    test: UTest


def pairwise_comparisons(found: list[Result]) -> list[PairwiseComparison]:
    """For each problem and number of PEs, the first configuration against every other one.

    Points with more PEs than cores are left out.
    """
    rows = []
    for _, group in groupby(sorted(comparable(found), key=_problem_key), _problem_key):
        first, *others = sorted(group, key=lambda result: result.number)
        for other in others:
            ratio = ratio_interval(other.times, first.times)
            rows.append(PairwiseComparison(first, other, ratio, u_test(other.times, first.times)))
    return sorted(rows, key=lambda row: row.second.number)


def _problem_key(result: Result) -> tuple[int, str]:
    return result.pes, repr(answer_key(result.records[0]))


# Load balancing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gain:
    """A result with load balancing compared with a baseline without."""

    balanced: Result
    other: Result
    gain: Interval  # time of the baseline over time of the balanced result
    ideal: float  # the gain of a perfect balancer without cost: the baseline's max/mean compute
    test: UTest  # of the baseline's times against the balanced ones

    @property
    def fraction_achieved(self) -> float:
        """(gain - 1) / (ideal gain - 1): negative for a loss; NaN if there is nothing to gain."""
        possible = self.ideal - 1
        return (self.gain.value - 1) / possible if possible >= LEAST_GAIN else math.nan


def gains(found: list[Result]) -> list[Gain]:
    """Every balanced result against its baselines on the same PEs: unbalanced at its ODF, and mpi.

    They have the same problem; that of mpi may be distributed in other ways, with the same answer.
    Points with more PEs than cores are left out.
    """
    counted = comparable(found)
    plain = [result for result in counted if not result.case.balancer]
    return [
        _gain(result, other)
        for result in counted
        if result.case.balancer
        for other in plain
        if other.pes == result.pes and _is_baseline(other, result)
    ]


def _gain(balanced: Result, other: Result) -> Gain:
    gain = ratio_interval(other.times, balanced.times)
    test = u_test(other.times, balanced.times)
    return Gain(balanced, other, gain, other.mean("imbalance"), test)


def _is_baseline(other: Result, balanced: Result) -> bool:
    """Whether a result without balancing is a baseline of a balanced one."""
    same = other.case.driver == balanced.case.driver and other.case.odf == balanced.case.odf
    fixed = not (other.case.can.one_process or other.case.can.over_decomposition)
    if answer_key(other.records[0]) != answer_key(balanced.records[0]):
        return False
    return fixed or (same and other.problem == balanced.problem)


# Granularity --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GranularityPoint:
    """A result of one problem size in a study of granularity."""

    result: Result
    efficiency: float  # rate per PE over the best rate per PE of all results
    block_step_s: float  # time per step of a PE, divided by its blocks


@dataclass(frozen=True)
class Granularity:
    """The efficiency of one configuration over the length of a step."""

    configuration: str
    points: tuple[GranularityPoint, ...]
    metg_s: Interval  # METG(50 %): the step length at which the efficiency is one half


def granularity(found: list[Result]) -> list[Granularity]:
    """Efficiency and METG of each configuration (Slaughter et al., Task Bench, SC 2020)."""
    counted = comparable(found)
    best = max((result.rate / result.pes for result in counted), default=0) or math.inf
    rows = []
    for configuration, mine in _configurations_on_pes(counted):
        points = tuple(
            GranularityPoint(
                result, result.rate / result.pes / best, result.step.value / result.case.odf
            )
            for result in mine
        )
        lengths = [point.result.step.value for point in points]
        half = crossing(lengths, [point.efficiency for point in points])
        rows.append(Granularity(configuration, points, half))
    return rows


def _configurations_on_pes(found: list[Result]) -> Iterator[tuple[str, list[Result]]]:
    for configuration, mine in by_configuration(found).items():
        for pes, group in groupby(mine, lambda result: result.pes):
            yield f"{configuration}, {plural.counted(pes, 'PE')}", list(group)
