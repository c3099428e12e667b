"""How steady the machine is, and how fine its clock.

A fixed piece of work is timed before, between and after the runs of a study. It never changes, so
what its times vary by is the machine's doing: other users, clock rates, a thermal limit. Means
over shuffled runs vary less, but a reader should know.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from workbench.run.record import host, versions

CELLS = 1 << 18  # 2 MiB an array: some in cache, some not, as the runs themselves
REPEATS = 600
READINGS = 2000


def sample() -> float:
    """Seconds that the fixed work takes, about a tenth of one.

    Not less: a run lasts a second or so, and its mean does not feel what disturbs a moment.
    """
    first, second = np.full(CELLS, 1.5), np.arange(CELLS, dtype=float)
    out = np.zeros(CELLS)  # touched, so that no page is met for the first time below
    before = perf_counter()
    for _ in range(REPEATS):
        np.multiply(first, second, out=out)
        np.add(out, second, out=out)
    return perf_counter() - before


def clock_tick() -> float:
    """The smallest step between two readings of the clock that differ, s."""
    readings = np.array([perf_counter() for _ in range(READINGS)])
    steps = np.diff(readings)
    return float(steps[steps > 0].min())


def noted() -> dict[str, Any]:
    """A sample, and what it is a sample of, for a campaign file."""
    around = {"versions": versions(), "host": host(), "clock_tick_s": clock_tick()}
    return around | {"seconds": sample()}


@dataclass(frozen=True)
class Noise:
    """Samples of a study in a few numbers: ``median_s``, and over it, minus 1, two others."""

    samples: int
    median_s: float
    spread: float  # from the first to the ninth tenth
    worst: float  # the slowest

    @classmethod
    def of(cls, seconds: list[float]) -> Noise:
        """Of one sample at least."""
        low, median, high = np.quantile(seconds, [0.1, 0.5, 0.9])
        spread, worst = (high - low) / median, max(seconds) / median - 1
        return cls(len(seconds), float(median), float(spread), float(worst))

    def __str__(self) -> str:
        return (
            f"machine noise: a fixed {self.median_s * 1e3:.1f} ms of work, timed {self.samples} "
            f"times, varied by {self.spread:.1%} (slowest {self.worst:+.1%})"
        )
