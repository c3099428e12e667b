"""The table of leave-one-out errors: how well the model predicts a campaign it has not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miniapps.workbench.model.fitting import LeftOut
from miniapps.workbench.show.captions import value_text
from miniapps.workbench.study.cells import columns_of, number, share, with_bounds
from miniapps.workbench.table import Table

LIMIT = 0.15  # of the mean error of a campaign


def mean_error(found: Sequence[LeftOut]) -> float:
    """The mean over cells of the magnitude of the error."""
    return float(np.mean([abs(one.error) for one in found]))


def errors_table(name: str, found: Sequence[LeftOut]) -> Table:
    """Each point of a campaign predicted from the others."""
    rows = tuple(_cells(one) for one in found)
    columns = columns_of("point", "#measured, ms", "#predicted, ms", "#error", "beyond 15 %")
    worst = max(found, key=lambda one: abs(one.error))
    notes = (
        f"Mean error {share(mean_error(found))}, largest {share(abs(worst.error))} "
        f"({worst.cell.result.case}). Each point is predicted by costs that fit the others; in "
        "brackets: the 99 % interval of the measured mean.",
    )
    return Table(f"{name}: each point predicted from the others", columns, rows, notes)


def _cells(one: LeftOut) -> tuple[str, ...]:
    result = one.cell.result
    label = f"{result.case}, {value_text(result.problem.get('size'))}".removesuffix(", ")
    measured = with_bounds(result.step, 1e3)
    return label, measured, number(one.predicted_s * 1e3), f"{one.error:+.1%}", reason(one)


def reason(one: LeftOut) -> str:
    """Why a point is off by more than the limit, as far as its own trials show; empty if not."""
    if abs(one.error) <= LIMIT:
        return ""
    step = one.cell.result.step
    if step.low <= one.predicted_s <= step.high:
        return "within the interval of the trials"
    near = step.low if one.predicted_s < step.low else step.high
    left = abs(one.predicted_s / near - 1)
    return f"{share(left)} beyond the interval of the trials"
