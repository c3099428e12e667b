"""Tables of what was published and of what was measured, for the terminal and the report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from miniapps.workbench.reproduce import models
from miniapps.workbench.reproduce.carry_out import missing, untold
from miniapps.workbench.reproduce.papers import ABOVE, SAME, Claim, Figure
from miniapps.workbench.reproduce.predicates import FAILS, HOLDS, OPEN, Outcome
from miniapps.workbench.reproduce.results import Found
from miniapps.workbench.study.cells import columns_of, number, with_bounds
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.table import NONE, Table

RIGHT = "as corrected"
WORDS = (HOLDS, FAILS, OPEN)


def listed(figures: Sequence[Figure]) -> Iterator[Table]:
    """For each publication its figures and claims: what runs here, how long, what is missing."""
    columns = columns_of("figure", "shows", "minutes (with --quick)", "on this machine")
    titles = columns_of("figure", "claim", "published", "on this machine")
    for source, found in groupby(figures, lambda figure: figure.source):
        mine = list(found)
        rows = tuple(map(_figure_row, mine))
        yield Table(f"{source}: figures and tables", columns, rows)
        claims = [_claim_row(figure, claim) for figure in mine for claim in figure.claims]
        yield Table(f"{source}: claims", titles, tuple(claims))


def _figure_row(figure: Figure) -> tuple[str, ...]:
    reason = missing(figure)
    here = "runs here" if reason is None else f"does not run here: {reason}"
    quick, usual = figure.minutes
    minutes = f"{usual:g} ({quick:g})"
    return figure.name, f"{figure.shows}: {figure.title}", minutes, here


def _claim_row(figure: Figure, claim: Claim) -> tuple[str, ...]:
    reason = untold(figure, claim)
    here = "can be decided" if reason is None else f"undecided: {reason}"
    return figure.name, claim.what, published_cell(claim, claim.published), here


def summary_table(found: Sequence[Found]) -> Table:
    """For each figure the number of claims that hold, do not hold, and are undecided."""
    rows = []
    for one in found:
        words = [outcome.word for outcome in one.outcomes if outcome.model is None]
        counts = tuple(str(words.count(word)) for word in WORDS)
        rows.append((one.figure.name, one.figure.source, one.figure.shows, *counts))
    columns = columns_of("name", "publication", "shows", *(f"#{word}" for word in WORDS))
    return Table("All figures and tables", columns, tuple(rows))


def claims_table(found: Found) -> Table:
    """The claims of a figure: what was published, what was measured, and whether it holds."""
    rows = []
    told = len(found.figure.models) > 0
    for one in found.outcomes:
        program = (f"as published: {one.model}" if one.model else RIGHT,) if told else ()
        cells = (published_cell(one.claim, one.published), measured_cell(one), one.said)
        rows.append((one.claim.what, *program, *cells))
    titles = ("claim", *(("program",) if told else ()), "published", "measured", "result")
    notes = [f"as published: {model}: {models.summary(model)}" for model in found.figure.models]
    title = f"{found.figure.name}: {found.figure.title} ({found.figure.shows})"
    return Table(title, columns_of(*titles), tuple(rows), tuple(notes))


def published_cell(claim: Claim, published: Any) -> str:
    """A published number or range, with the rule by which it is compared."""
    if published is None:
        return NONE
    text = plain(published)
    if claim.rule == ABOVE:
        return f"above {text}"
    return f"{text} ± {claim.tolerance:g}" if claim.rule == SAME else text


def plain(published: Any) -> str:
    """A published number, range or text."""
    if isinstance(published, list):
        return " to ".join(map(plain, published))
    if isinstance(published, float):
        return number(published, 3)
    return published if isinstance(published, str) else json.dumps(published)


def measured_cell(one: Outcome) -> str:
    """What was measured of a claim, with its interval; of several values their span."""
    if one.values is None:
        return NONE
    values = [*one.values.values()]
    if len(values) == 1:
        return f"{with_bounds(values[0])} {one.unit}".strip()
    low, high = min(value.value for value in values), max(value.value for value in values)
    return f"{number(low, 3)} to {number(high, 3)} {one.unit}".strip()


def changes_table(found: Sequence[Found]) -> Table:
    """The claims that were told of wrong programs, too, and what changes."""
    rows = []
    for one in found:
        right = {outcome.claim.what: outcome for outcome in one.outcomes if outcome.model is None}
        for outcome in one.outcomes:
            if outcome.model is not None:
                corrected = right[outcome.claim.what]
                cells = (measured_cell(outcome), measured_cell(corrected))
                what = f"{one.figure.name}: {outcome.claim.what}"
                rows.append((what, outcome.model, *cells, change(outcome, corrected)))
    columns = columns_of("claim", "wrong program", "as published", RIGHT, "what changes")
    return Table("As published, and as corrected", columns, tuple(rows))


def change(published: Outcome, corrected: Outcome) -> str:
    """Whether a claim stands when the program is right, in words."""
    if published.values is None or corrected.values is None:
        return "not measured"
    pairs = zip(published.values.values(), corrected.values.values(), strict=False)
    differs = any(apart(*pair) for pair in pairs)
    numbers = "different numbers" if differs else "no significant difference"
    if published.word == corrected.word == OPEN:
        return f"{numbers}; {OPEN} for both"
    if published.word == corrected.word:
        return f"{numbers}; {corrected.word} for both"
    return f"{numbers}; as published: {published.word}; as corrected: {corrected.word}"


def apart(one: Interval, other: Interval) -> bool:
    """Whether two intervals have no value in common."""
    return one.high < other.low or one.low > other.high
