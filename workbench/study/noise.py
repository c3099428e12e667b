"""Measures the noise of the machine and the resolution of its clock.

A fixed piece of work is timed before, between and after the runs of a study. The work never
changes, so all variation of its time comes from the machine: other users, clock rates, thermal
limits. Means over shuffled runs vary less; the report shows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from miniapps.workbench.run.record import host
from miniapps.workbench.run.versions import versions

CELLS = 1 << 18  # 2 MiB per array: partly in cache, like the runs themselves
REPEATS = 600
READINGS = 2000
NOISY = 0.25  # longer than its shortest time: the cores of a virtual machine differ by less


def sample() -> float:
    """Seconds that the fixed work takes: about 0.1.

    Shorter work would also measure disturbances too brief to affect a run of a second.
    """
    first, second = np.full(CELLS, 1.5), np.arange(CELLS, dtype=float)
    out = np.zeros(CELLS)
    before = perf_counter()
    for _ in range(REPEATS):
        np.multiply(first, second, out=out)
        np.add(out, second, out=out)
    return perf_counter() - before


def clock_tick() -> float:
    """The smallest difference between two differing readings of the clock, s."""
    readings = np.array([perf_counter() for _ in range(READINGS)])
    steps = np.diff(readings)
    return float(steps[steps > 0].min())


def noted() -> dict[str, Any]:
    """A noise sample with versions, host and clock tick, for a campaign file."""
    around = {"versions": versions(), "host": host(), "clock_tick_s": clock_tick()}
    return around | {"seconds": sample()}


@dataclass(frozen=True)
class Noise:
    """A summary of noise samples: their median, and two measures relative to the median."""

    samples: int
    median_s: float
    spread: float  # 90 % quantile minus 10 % quantile, over the median
    worst: float  # slowest over median, minus 1

    @classmethod
    def of(cls, seconds: list[float]) -> Noise:
        """Summarise one or more samples."""
        low, median, high = np.quantile(seconds, [0.1, 0.5, 0.9])
        spread, worst = (high - low) / median, max(seconds) / median - 1
        return cls(len(seconds), float(median), float(spread), float(worst))

    def __str__(self) -> str:
        return (
            f"machine noise: a fixed {self.median_s * 1e3:.1f} ms of work, timed {self.samples} "
            f"times, varied by {self.spread:.1%} (slowest {self.worst:+.1%})"
        )
