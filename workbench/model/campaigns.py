"""What the performance model takes from a campaign of a study: cells with their times per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from miniapps import apps
from miniapps.parameters import InputError, require
from miniapps.workbench.model.formula import Counts, Situation, counts
from miniapps.workbench.model.machine import Machine
from miniapps.workbench.study import analysis
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.campaign import Campaign


@dataclass(frozen=True)
class Cell:
    """A point of a campaign: its results, and the counts of the model."""

    result: Result
    counts: Counts

    @property
    def times(self) -> np.ndarray:
        """Seconds per step of each trial."""
        return self.result.times


def cells(machine: Machine, campaign: Campaign) -> list[Cell]:
    """The points with a core for each PE. Raises InputError if there is none."""
    app = campaign.head["study"]["app"]
    found = [
        Cell(result, counts(machine, situation(app, result)))
        for result in analysis.comparable(analysis.results(campaign))
        if result.records[0]["device"] == "cpu"
    ]
    require(bool(found), "campaign", app, "has no point with a core for each PE")
    return found


def situation(app: str, result: Result) -> Situation:
    """The run that a result's records describe."""
    record = result.records[0]
    problem, grid = problem_of(app, record["problem"]), tuple(record["pe_grid"])
    steps, first = record["steps"], record.get("lb_first")
    return Situation(app, problem, result.case, steps, record["warmup"], first, grid)


def problem_of(app: str, parameters: Mapping[str, Any]) -> Any:
    """A problem from its parameters in a record. Raises InputError."""
    kind = apps.load(app).Problem
    given = {}
    for field in fields(kind):
        if field.name in parameters:
            given[field.name] = _value(field, parameters[field.name])
    try:
        return kind(**given)
    except TypeError as error:
        raise InputError("campaign", app, f"its problem cannot be read: {error}") from None


def _value(field: Any, stored: Any) -> Any:
    """The value of a field, from what a record stores of it."""
    parse, repeated = field.metadata["parse"], field.metadata["repeated"]
    if repeated:
        return tuple(_parsed(parse, one) for one in stored)
    if isinstance(stored, list):
        return tuple(stored)
    is_text = isinstance(stored, str) and not isinstance(field.default, str)
    return _parsed(parse, stored) if is_text else stored


def _parsed(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise InputError("campaign", text, f"must be {error}") from None
