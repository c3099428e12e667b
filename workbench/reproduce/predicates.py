"""Whether what has been published holds here: one rule for applications and messages.

A claim compares lines of a study. Its interval is that of the trials, as in studies. The range of
values that agree with the published one follows from the claim's rule:

``effect``  half to twice the published effect, which is the distance from 1 of a ratio and the
            number itself otherwise: another processor changes effects
``same``    the published number, up to a tolerance: "no difference", "stays the same"
``above``   more than the published number

`RULE` says so to readers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miniapps.workbench.reproduce.papers import (
    ABOVE,
    DIFFERENCE,
    EFFICIENCY,
    GROWTH,
    RATIO,
    RATIOS,
    SAME,
    Claim,
    as_list,
)
from miniapps.workbench.run.record import DISTURBED, disturbed
from miniapps.workbench.study.comm.series import Line
from miniapps.workbench.study.statistics import Interval, mean_interval, ratio_interval

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
FACTOR = 2  # by which an effect on another machine may differ
NEUTRAL = (RATIO, GROWTH, EFFICIENCY)  # takes without a difference at 1
RULE = f"""A claim *{HOLDS}* if the measured 99 % interval is inside the range of values that agree
with the published one, and *{FAILS}* if it is outside. A claim is *{OPEN}* if the interval is
partly inside, if no number is published, if this machine lacks what the claim is about, or if other
programs took more than {DISTURBED:.0%} of a PE's time in most of the runs. The range depends on the
kind of claim. For an effect (such as "2.6 times as fast") it is half to {FACTOR} times the
published effect, because processors differ; the effect of a ratio is its distance from 1. For "no
difference" it is the published number plus or minus the tolerance in the table. For "there is a
gain" it is everything above the published number. A claim about several sizes holds if it holds at
each of them, and does not hold if it fails at one."""
Range = tuple[float, float]


@dataclass(frozen=True)
class Outcome:
    """What was measured of a claim, and whether it holds.

    ``values``: by bytes or PEs if the claim is about each of them, else one at the last of ``at``;
    ``agrees``: the range of values that agree, None without a published number; ``model``: the
    wrong program of which this is told, None for the right one.
    """

    claim: Claim
    word: str
    reason: str = ""
    values: Mapping[int, Interval] | None = None
    unit: str = ""
    at: tuple[int, ...] = ()
    agrees: Range | None = None
    published: Any = None
    model: str | None = None

    @property
    def said(self) -> str:
        """The result in words."""
        if self.word == OPEN:
            return f"{self.word}: {self.reason}"
        return f"{self.word} ({self.reason})" if self.reason else self.word

    @property
    def numbers(self) -> list[float]:
        """The published numbers: one, the two ends of a range, or none."""
        return [one for one in as_list(self.published) if isinstance(one, int | float)]


def agreeing(published: Any, claim: Claim) -> Range | None:
    """The range of values that agree with a published number or range; None without a number."""
    numbers = as_list(published)
    if not numbers or not all(isinstance(number, int | float) for number in numbers):
        return None
    if claim.rule == ABOVE:
        return max(numbers), math.inf
    if claim.rule == SAME:
        return min(numbers) - claim.tolerance, max(numbers) + claim.tolerance
    neutral = 1.0 if claim.take in NEUTRAL else 0.0
    effects = [number - neutral for number in numbers]
    ends = [effect * factor for effect in effects for factor in (1 / FACTOR, FACTOR)]
    return neutral + min(ends), neutral + max(ends)


def compared(value: Interval, limits: Range) -> str:
    """Whether one measured value holds, in words."""
    low, high = limits
    if not (math.isfinite(value.low) and math.isfinite(value.high)):
        return OPEN
    if low <= value.low and value.high <= high:
        return HOLDS
    return FAILS if value.high < low or value.low > high else OPEN


def combined(words: Sequence[str]) -> str:
    """The result of several values together."""
    if FAILS in words:
        return FAILS
    return OPEN if OPEN in words else HOLDS


def outcome(claim: Claim, lines: Mapping[str, Line], model: str | None = None) -> Outcome:
    """Whether a claim holds of some lines, by name."""
    published = _published(claim, lines)
    limits = agreeing(published, claim)
    plain = Outcome(claim, OPEN, agrees=limits, published=published, model=model)
    if claim.of is None:
        return replace(plain, reason=str(claim.reason))
    missing = [name for name in (claim.of, claim.to) if name is not None and name not in lines]
    if missing:
        reason = claim.reason or f"{' and '.join(missing)} was not measured"
        return replace(plain, reason=reason)
    mine, base = lines[claim.of], lines.get(str(claim.to))
    if mine.oversubscribed or (base is not None and base.oversubscribed):
        return replace(plain, reason="there were more PEs than cores")
    at = _positions(claim, mine, base)
    if not at:
        return replace(plain, reason="nothing in its range was measured")
    values = measured(claim, mine, base, at)
    unit = "" if claim.take in NEUTRAL else mine.unit
    made = replace(plain, values=values, unit=unit, at=tuple(at))
    records = [*mine.records, *(base.records if base else ())]
    pes = at[-1] if _is_by_pes(mine) else max(int(record["pes"]) for record in records)
    return _told(made, records, pes, limits)


def _told(
    made: Outcome, records: Sequence[Mapping[str, Any]], pes: int, limits: Range | None
) -> Outcome:
    """A measured outcome with its result. ``records``: those of its runs; ``pes``: the most."""
    others = [disturbed(dict(record)) for record in records]
    if made.claim.reason is not None or limits is None:
        return replace(made, reason=made.claim.reason or "no number is published")
    if pes < made.claim.needs_pes:
        least = made.claim.needs_pes
        return replace(made, reason=f"published on {least} PEs and more, measured on {pes}")
    if sum(share > DISTURBED for share in others) > len(others) / 2:
        said = f"other programs took up to {max(others):.0%} of a PE's time"
        return replace(made, reason=f"the machine was busy: {said}")
    assert made.values is not None
    words = [compared(value, limits) for value in made.values.values()]
    word = combined(words)
    count = f"{words.count(HOLDS)} of {len(words)} values hold" if len(words) > 1 else ""
    if word == OPEN:
        single = any(math.isnan(value.low) for value in made.values.values())
        why = "one trial has no interval" if single else "the interval is on both sides of a limit"
        return replace(made, reason=f"{why}{count and f'; {count}'}")
    return replace(made, word=word, reason=count)


def _published(claim: Claim, lines: Mapping[str, Line]) -> Any:
    """The published number or range; of `RATIOS` the smallest and the largest of two lines."""
    if claim.published != RATIOS:
        return claim.published
    mine, base = lines.get(str(claim.of)), lines.get(str(claim.to))
    found = [] if mine is None or base is None else [*mine.published_ratios(base).values()]
    return [min(found), max(found)] if found else None


def _positions(claim: Claim, mine: Line, base: Line | None) -> list[int]:
    """The bytes or PEs that a claim is about and that were measured, in order."""
    least, most = (0, math.inf) if claim.at is None else (claim.at.least, claim.at.most)
    both = mine.trials if base is None else {*mine.trials} & {*base.trials}
    found = sorted(at for at in both if least <= at <= most)
    if claim.take in (GROWTH, EFFICIENCY):
        return [found[0], found[-1]] if len(found) > 1 else []
    # the most PEs say most about a claim on parallel runs
    return found if claim.each or not _is_by_pes(mine) else found[-1:]


def _is_by_pes(line: Line) -> bool:
    """Whether a line has times of an app by PEs, rather than values of messages by bytes."""
    return line.unit == "ms"


def measured(claim: Claim, mine: Line, base: Line | None, at: Sequence[int]) -> dict[int, Interval]:
    """The values of a claim at each of some bytes or PEs, or their mean at the last."""
    if claim.take in (GROWTH, EFFICIENCY):
        first, last = at
        one, other = mine.trials[last], mine.trials[first]
        if claim.take == GROWTH:
            return {last: ratio_interval(one, other)}
        return {last: ratio_interval(other, one).times(first / last)}
    if claim.take == RATIO and base is not None and (claim.each or len(at) == 1):
        return {x: ratio_interval(mine.trials[x], base.trials[x]) for x in at}
    taken = [_taken(claim.take, mine, base, x) for x in at]
    if claim.each:
        return {x: mean_interval(values) for x, values in zip(at, taken, strict=True)}
    count = min(map(len, taken))
    return {at[-1]: mean_interval(np.mean([values[:count] for values in taken], axis=0))}


def _taken(take: str, mine: Line, base: Line | None, at: int) -> np.ndarray:
    """The value at a size, by trial."""
    values = mine.trials[at]
    if base is None:
        return values
    count = min(len(values), len(base.trials[at]))
    values, other = values[:count], base.trials[at][:count]
    if take == DIFFERENCE:
        return values - other
    return values / other if take == RATIO else values
