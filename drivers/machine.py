"""What else the machine did while a PE made its timed steps.

A PE that is ready to run and has no core waits in the system's queue: other programs use the cores.
*Steal* is the time that a virtual machine's host gave to others. Linux counts both.
"""

from __future__ import annotations

import resource
import time
from time import perf_counter
from typing import NamedTuple

from miniapps.devices import system

STEAL, FIELDS = 7, 8  # in the first line of /proc/stat: its place, and the fields that make a total


class Reading(NamedTuple):
    """The counters at one moment."""

    now_s: float
    second_s: float  # by another clock, which goes on while the machine sleeps
    queued_s: float  # of this PE, since it was started
    switches: int  # involuntary context switches of this PE
    steal: int  # of all cores of the host, in ticks
    ticks: int  # of all cores of the host


class Disturbance(NamedTuple):
    """What disturbed a PE between two moments."""

    waited: float  # share of the time that it was ready to run and had no core
    switches_per_s: float  # involuntary context switches
    steal: float  # share of the time of all cores of the host


def reading() -> Reading:
    """The counters now; 0 where the system has none."""
    ticks = [int(word) for word in _words("/proc/stat")[1 : 1 + FIELDS] if word.isdigit()]
    queued = _words("/proc/self/schedstat")[1:2]
    return Reading(
        perf_counter(),
        second_clock(),
        int(queued[0]) * 1e-9 if queued else 0.0,
        resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
        ticks[STEAL] if len(ticks) == FIELDS else 0,
        sum(ticks),
    )


def second_clock() -> float:
    """The seconds since the system was started; elsewhere than on Linux without those asleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def disturbance(before: Reading, after: Reading) -> Disturbance:
    """What disturbed this PE between two readings."""
    passed = max(after.now_s - before.now_s, 1e-9)
    ticks = max(after.ticks - before.ticks, 1)
    return Disturbance(
        _share((after.queued_s - before.queued_s) / passed),
        max(0.0, (after.switches - before.switches) / passed),
        _share((after.steal - before.steal) / ticks),
    )


def _share(value: float) -> float:
    """A share of some time; containers may show counters that go back or belong to others."""
    return min(1.0, max(0.0, value))


def _words(path: str) -> list[str]:
    """The words of the first line of a file of the system; none if it does not exist."""
    return system.text(path).partition("\n")[0].split()
