"""``miniapps comm --compare``: one benchmark under several runtimes, buffers or options.

A launch for each variant in each trial, in another order every time, so that a disturbance of the
machine does not always meet the same variant.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from miniapps.communication.catalogue import CATALOGUE
from miniapps.workbench.comm import results
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.comm.variants import Variant
from miniapps.workbench.plural import counted
from miniapps.workbench.study.cells import columns_of
from miniapps.workbench.study.statistics import Interval, ratio_interval
from miniapps.workbench.table import Table

Launch = Callable[[CommSpec], dict[str, Any] | int]


def measured(made: Sequence[Variant], launch: Launch) -> list[dict[str, Any]] | int:
    """The record of each variant, of all its trials; or the status of a launch that failed.

    Data are checked in the first trial.
    """
    trials = made[0].spec.settings.trials
    order, parts = random.Random(made[0].spec.settings.seed), [list[dict[str, Any]]() for _ in made]
    for trial in range(trials):
        for number in order.sample(range(len(made)), len(made)):
            spec = made[number].spec
            unchecked = spec.settings.no_check or trial > 0
            once = replace(spec.settings, trials=1, seed=order.randrange(1 << 31))
            record = launch(replace(spec, settings=replace(once, no_check=unchecked)))
            if isinstance(record, int):
                return record
            parts[number].append(record)
            if record["wrong"]:
                return [record]
    return [_joined(variant, part) for variant, part in zip(made, parts, strict=True)]


def _joined(variant: Variant, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of a variant's trials; the disturbance is the largest of any."""
    trials = [one | {"trial": n} for n, part in enumerate(parts) for one in part["measured"]]
    first = parts[0]
    disturbed = {
        key: max(part["disturbance"][key] for part in parts) for key in first["disturbance"]
    }
    joined = {"name": variant.name, "measured": trials, "trials": len(parts)}
    joined |= {"command": ["miniapps", *variant.spec.arguments()], "disturbance": disturbed}
    made = first | joined
    return made | {"results": results.rows(made)}


def ratios(records: Sequence[dict[str, Any]]) -> list[list[Interval]]:
    """For each record and size the ratio of its value to the first record's, with its interval."""
    base = records[0]
    return [
        [ratio_interval(_trials(record, size), _trials(base, size)) for size in record["sizes"]]
        for record in records
    ]


def _trials(record: dict[str, Any], size: int) -> list[float]:
    """The values of a size in all trials."""
    return [one["value"] for one in record["measured"] if one["size"] == size]


def tables(records: Sequence[dict[str, Any]], notes: Sequence[str]) -> list[Table]:
    """The values of all variants, a row for each size, and their ratios to the first variant."""
    unit = CATALOGUE[records[0]["benchmark"]].unit
    names, sizes = [record["name"] for record in records], records[0]["sizes"]
    trials = counted(records[0]["trials"], "trial")
    title = f"{records[0]['benchmark']}, {unit}: means of {trials}, a launch for each"
    values = [[f"{row['value']:.2f}" for row in record["results"]] for record in records]
    shown = [[_ratio(one) for one in found] for found in ratios(records)]
    first = f"ratio to {names[0]}; ~: its 99 % interval contains 1, or there is none"
    made = [(title, names, values, ()), (first, names[1:], shown[1:], notes)]
    return [
        Table(
            title,
            columns_of("#bytes", *(f"#{name}" for name in of)),
            tuple(zip(map(str, sizes), *cells, strict=True)),
            tuple(below),
        )
        for title, of, cells, below in made
    ]


def _ratio(found: Interval) -> str:
    """A ratio as text."""
    apart = found.low > 1 or found.high < 1
    return f"{'' if apart else '~'}{found.value:.2f}"
