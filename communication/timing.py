"""Loops that time iterations, and what the times of all ranks give together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from miniapps.communication.actions import Function, Split
from miniapps.communication.catalogue import LATENCY, OVERLAP, PAIRS, Benchmark
from miniapps.communication.movement import leads, partner

CHUNK = 100  # iterations between two readings of the clock, where each is not timed by itself
MICRO = 1e6  # us in a second, bytes in a MB
NUMBERS = 64  # of the arrays that are multiplied while communication is under way
CALIBRATED = 200  # multiplications that are timed to learn how long one takes


@dataclass(frozen=True)
class Times:
    """Seconds that iterations took: the mean, and those of single ones, or of chunks of them."""

    mean_s: float
    each_s: np.ndarray


@dataclass(frozen=True)
class Overlap:
    """Mean seconds of a non-blocking collective alone and of computing alone; both at once.

    ``begin_s`` and ``wait_s``: of its two calls, when both are done at once.
    """

    pure_s: float
    compute_s: float
    overall: Times
    begin_s: float
    wait_s: float


@dataclass(frozen=True)
class Sample:
    """What one rank has measured in one trial of one size.

    ``touch_s``: what touching took in an iteration, where it happened; ``clock_s``: what the calls
    and the clock around it add.
    """

    times: Times
    touch_s: float = 0.0
    clock_s: float = 0.0
    overlap: Overlap | None = None

    @property
    def each_s(self) -> np.ndarray:
        """Seconds of single iterations, as their mean is reported."""
        return (self.overlap.overall if self.overlap else self.times).each_s


def timed(
    functions: Sequence[Function],
    iterations: int,
    chunk: int,
    between: Function | None,
    heartbeat: Function,
) -> Times:
    """Time iterations, each of which calls all functions.

    The clock is read around each ``chunk`` of iterations; ``between`` is called between chunks.
    """
    clock = perf_counter
    total, each = 0.0, []
    for first in range(0, iterations, chunk):
        count = min(chunk, iterations - first)
        begin = clock()
        for _ in range(count):
            for function in functions:
                function()
        passed = clock() - begin
        total += passed
        each.append(passed / count)
        heartbeat()
        if between is not None:
            between()
    return Times(total / max(1, iterations), np.array(each))


class Work:
    """Computation of about a wanted length, which communication may overlap."""

    def __init__(self) -> None:
        self.values, self.factors = np.ones(NUMBERS), np.full(NUMBERS, 1.0)
        self.count = CALIBRATED

    def __call__(self) -> None:
        """Compute."""
        for _ in range(self.count):
            np.multiply(self.values, self.factors, out=self.values)

    def last(self, seconds: float) -> None:
        """Take about so long from now on."""
        self.count = CALIBRATED
        self()
        begin = perf_counter()
        self()
        one_s = (perf_counter() - begin) / CALIBRATED
        self.count = max(1, round(seconds / one_s))


def overlapped(
    split: Split, work: Work, iterations: int, between: Function, heartbeat: Function
) -> tuple[Times, float, float]:
    """Times of starting a collective, computing and waiting; mean seconds of the first and last."""
    clock = perf_counter
    begin_s = wait_s = 0.0
    each = []
    start, wait = split.start, split.wait
    for _ in range(iterations):
        begin = clock()
        handle = start()
        started = clock()
        work()
        computed = clock()
        wait(handle)
        end = clock()
        each.append(end - begin)
        begin_s += started - begin
        wait_s += end - computed
        heartbeat()
        between()
    overall = Times(float(np.mean(each)), np.array(each))
    return overall, begin_s / iterations, wait_s / iterations


def overlap_percent(pure: float, compute: float, overall: float) -> float:
    """The share of the shorter of communication and computation that the longer one hides, %."""
    least = min(pure, compute)
    hidden = (pure + compute - overall) / least if least > 0 else 0.0
    return 100 * max(0.0, min(1.0, hidden))


def measures(benchmark: Benchmark, rank: int, ranks: int) -> bool:
    """Whether a rank's time counts: of pairs the first rank's, else every rank's."""
    return benchmark.ranks != PAIRS or leads(rank, ranks)


def joined(
    benchmark: Benchmark, size: int, window: int, samples: Sequence[Sample], asked: Sequence[float]
) -> dict[str, Any]:
    """One trial's result for one size, from what all ranks have measured.

    ``value`` is in us or MB/s; ``least`` and ``most`` are over ranks, as in OMB; ``percentiles``
    are of single iterations, in us. ``touch_us`` is what was taken off each message's time.
    """
    ranks = range(len(samples))
    mine = [rank for rank in ranks if measures(benchmark, rank, len(samples))]
    not_communication = np.array([_touching(benchmark, samples, rank) for rank in mine])
    means = np.array([samples[rank].times.mean_s for rank in mine]) - not_communication
    messages = benchmark.trips if benchmark.measures == LATENCY else window * benchmark.directions
    found: dict[str, Any] = {"touch_us": _touch_s(benchmark, samples) * MICRO / messages}
    if benchmark.measures == OVERLAP:
        found |= _overlap(samples)
    elif benchmark.measures == LATENCY:
        us = means * MICRO / benchmark.trips
        found |= {"value": float(us.mean()), "least": float(us.min()), "most": float(us.max())}
    else:
        found |= _rate(means, size, messages)
    if asked:
        each = np.concatenate(
            [samples[r].each_s - t for r, t in zip(mine, not_communication, strict=True)]
        )
        found["percentiles"] = list(np.percentile(each * MICRO / benchmark.trips, asked))
    return found


def _rate(means: np.ndarray, size: int, messages: int) -> dict[str, Any]:
    """MB/s and messages/s of all pairs together."""
    per_s = messages / means if (means > 0).all() else np.full(means.shape, np.nan)
    rates = per_s * size / MICRO
    found = {"least": float(rates.min()), "most": float(rates.max())}
    return found | {"value": float(rates.sum()), "messages_per_s": float(per_s.sum())}


def _overlap(samples: Sequence[Sample]) -> dict[str, Any]:
    """The columns of non-blocking collectives, in us, as means over ranks."""
    rows = [sample.overlap for sample in samples if sample.overlap is not None]
    mean = {
        name: float(np.mean([getattr(row, f"{name}_s") for row in rows]) * MICRO)
        for name in ("compute", "pure", "begin", "wait")
    }
    overall = [row.overall.mean_s * MICRO for row in rows]
    value = float(np.mean(overall))
    percent = overlap_percent(mean["pure"], mean["compute"], value)
    named = {f"{name}_us": us for name, us in mean.items()}
    spread = {"value": value, "least": min(overall), "most": max(overall)}
    return spread | named | {"overlap_percent": percent}


def _touch_s(benchmark: Benchmark, samples: Sequence[Sample]) -> float:
    """Seconds of touching in an iteration: of both ranks of a pair together, else of one rank."""
    mean = float(np.mean([sample.touch_s for sample in samples]))
    return 2 * mean if benchmark.ranks == PAIRS else mean


def _touching(benchmark: Benchmark, samples: Sequence[Sample], rank: int) -> float:
    """Seconds of touching in a rank's time of an iteration, with what timing it adds.

    In a ping-pong the partner's touching delays this rank, too. In other benchmarks data are
    touched while the clock does not run.
    """
    if benchmark.touched_between:
        return 0.0
    pair = (samples[rank], samples[partner(rank, len(samples))])
    return sum(one.touch_s + one.clock_s for one in pair)


def cost_of(function: Callable[[], Any], times: int) -> float:
    """Mean seconds of a call."""
    begin = perf_counter()
    for _ in range(times):
        function()
    return (perf_counter() - begin) / times
