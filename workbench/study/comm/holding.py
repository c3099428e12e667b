"""Whether what a paper has published holds here, by one rule for all claims.

The effect of a number is its distance from "no difference": from 1 for a ratio, from 0 otherwise.
Another machine changes effects, so half to twice a published effect is taken to be the same. `RULE`
says so to readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from miniapps.workbench.study.comm.series import Measured, Result, quantities
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.table import NONE

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be tested here"
FACTOR = 2  # by which the effect on another machine may differ
RATIO = "ratio"
RULE = f"""The last column says whether a claim holds, by its 99 % interval. The effect of a
published ratio is its distance from 1, that of another number the number itself. Processors differ,
so the allowed range is from half the smallest published effect to {FACTOR} times the largest one.
Where values are published for sizes, the ratio to the first line at each size is compared with the
range of all published ratios of that line.
*{HOLDS.capitalize()}*: the interval is inside of the allowed range.
*{FAILS.capitalize()}*: it is outside.
*{OPEN.capitalize()}*: it is partly inside, or there is none, or two cores cannot test the claim.
A claim with several values holds if all do, and does not hold if one does not."""


def allowed(published: Any, take: str) -> tuple[float, float] | None:
    """The range of values that agree with a published number or range; None without a number."""
    numbers = published if isinstance(published, list) else [published]
    if not numbers or not all(isinstance(number, int | float) for number in numbers):
        return None
    neutral = 1.0 if take == RATIO else 0.0
    effects = [number - neutral for number in numbers]
    ends = [effect * factor for effect in effects for factor in (1 / FACTOR, FACTOR)]
    return neutral + min(ends), neutral + max(ends)


def compared(value: Interval | None, limits: tuple[float, float]) -> str:
    """Whether one measured value holds, in words."""
    if value is None or not (math.isfinite(value.low) and math.isfinite(value.high)):
        return OPEN
    low, high = limits
    if low <= value.low and value.high <= high:
        return HOLDS
    return FAILS if value.high < low or value.low > high else OPEN


def of_quantity(measured: Measured) -> str | None:
    """Whether a quantity holds, in words; None if no number is published."""
    limits = allowed(measured.quantity["published"], measured.quantity["take"])
    return None if limits is None else compared(measured.value, limits)


def of_claim(result: Result, testable: bool) -> str:
    """Whether a claim holds, in words, and how many values do; ``testable``: by two cores."""
    every = quantities(result)
    able = [one for one in every if one.quantity.get("reason") is None]
    found = [word for word in map(of_quantity, able) if word is not None]
    found += of_series(result)
    if not found:
        return NONE if len(able) == len(every) else OPEN
    if not testable or result.oversubscribed:
        return OPEN
    word = combined(found)
    return word if len(found) == 1 else f"{word} ({found.count(HOLDS)} of {len(found)} values hold)"


def combined(found: Sequence[str]) -> str:
    """The result of several values together."""
    if FAILS in found:
        return FAILS
    return OPEN if OPEN in found else HOLDS


def of_series(result: Result) -> Iterator[str]:
    """The result of each line with published ratios and each size, or of a missing line."""
    base = result.lines[0] if result.lines else None
    for name in [one for one in result.claim["series"] if base is None or one != base.name]:
        line = result.line(name)
        published = {} if base is None or line is None else line.published_ratios(base)
        limits = allowed([*published.values()], RATIO)
        if base is None or line is None or limits is None:
            yield OPEN
            continue
        yield from (compared(ratio, limits) for ratio in line.ratios(base).values())
