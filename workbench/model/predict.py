"""Predictions of a study: scaling, the ODF that hides latency, and when balancing pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miniapps.parameters import shown
from miniapps.workbench.model.fitting import Fitted
from miniapps.workbench.model.formula import Counts, Situation, counts, values
from miniapps.workbench.plural import counted
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.study.cells import columns_of, number, share, with_bounds
from miniapps.workbench.study.plan import case_of, described
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.table import NONE, Table

PAYS, LOSES, UNSURE = "pays", "costs more than it gains", "within the interval"


@dataclass(frozen=True)
class Prediction:
    """A run of a planned study with its predicted time."""

    situation: Situation
    counts: Counts
    step: Interval  # seconds
    drawn: np.ndarray  # of each draw of the costs: (D,)
    costs: np.ndarray  # those of `counts`: (K,)

    @property
    def case(self) -> Case:
        """The configuration."""
        return self.situation.case

    @property
    def share(self) -> str:
        """The part of the step in which the PE that computes longest does so, if known."""
        if self.case.balancer:
            return NONE
        return share(self.compute.max(1).mean() / self.step.value)

    @property
    def compute(self) -> np.ndarray:
        """Seconds of compute per step of each PE where its blocks began: (samples, PEs)."""
        return self.counts.compute @ self.costs


def situation(spec: RunSpec) -> Situation:
    """The run of a planned study."""
    first = getattr(spec.own, "lb_first", None)
    case = case_of(described(spec, spec.steps))
    return Situation(spec.app, spec.problem, case, spec.steps, spec.warmup, first, spec.pe_grid)


def predict(fitted: Fitted, specs: Sequence[RunSpec]) -> list[Prediction]:
    """Predictions of all runs. Raises InputError if the machine lacks a cost."""
    return [prediction(fitted, situation(spec)) for spec in specs]


def prediction(fitted: Fitted, asked: Situation) -> Prediction:
    """The prediction of one run."""
    found = counts(fitted.machine, asked)
    costs = values(fitted.machine, found.names)
    return Prediction(asked, found, *fitted.predict(found), costs)


def tables(kind: str, found: Sequence[Prediction]) -> list[Table]:
    """The tables of a kind of study."""
    made = [_points(kind, found)]
    if kind == "odf":
        made.append(odf_table(found))
    if any(one.case.balancer for one in found):
        made.append(balancing_table(found))
    return made


def _points(kind: str, found: Sequence[Prediction]) -> Table:
    """All predictions, with the efficiency over the fewest PEs of the same configuration."""
    rows = []
    for one in found:
        alike = [o for o in found if o.case.configuration == one.case.configuration]
        base = min(alike, key=lambda other: other.case.pes)
        growth = 1.0 if kind == "weak" else one.case.pes / base.case.pes
        gain = base.step.value / one.step.value / growth
        scaled = share(gain) if one is not base and kind in ("strong", "weak") else NONE
        size, step = shown(one.situation.problem.shape), with_bounds(one.step, 1e3)
        rows.append((one.case.configuration, str(one.case.pes), size, step, one.share, scaled))
    columns = columns_of(
        "configuration", "#PEs", "problem", "#ms per step", "#compute", "#efficiency"
    )
    notes = ("In brackets: 99 % intervals. Compute: of the PE that computes longest.",)
    return Table("Predicted", columns, tuple(rows), notes)


def odf_table(found: Sequence[Prediction]) -> Table:
    """For each driver and number of PEs, the ODF of the shortest step, and what it hides.

    Draws of the costs vote: the share of those for which that ODF is the best.
    """
    rows = []
    keys = dict.fromkeys((one.case.driver, one.case.balancing, one.case.pes) for one in found)
    for driver, balancing, pes in keys:
        key = driver, balancing, pes
        mine = [o for o in found if (o.case.driver, o.case.balancing, o.case.pes) == key]
        best = min(mine, key=lambda one: one.step.value)
        votes = np.argmin([one.drawn for one in mine], axis=0)
        sure = float(np.mean(votes == mine.index(best)))
        base = min(mine, key=lambda one: one.case.odf)
        gain = number(base.step.value / best.step.value, 3)
        name = f"{driver} {balancing}".strip()
        rows.append((name, str(pes), str(best.case.odf), share(sure), gain))
    columns = columns_of("driver", "#PEs", "#best ODF", "#of the draws", "#gain over fewest")
    note = "Of the draws: for which share of draws of the costs that ODF is the best."
    return Table("The ODF that hides latency", columns, tuple(rows), (note,))


def balancing_table(found: Sequence[Prediction]) -> Table:
    """For each balanced run, the gain over the same without balancing, and whether it pays."""
    rows = []
    for one in found:
        base = _unbalanced(one, found)
        if base is None:
            continue
        ratio = base.drawn / one.drawn
        low, high = (float(bound) for bound in np.quantile(ratio, [0.005, 0.995]))
        value = base.step.value / one.step.value
        gain = Interval(value, min(low, value), max(high, value))
        result = PAYS if gain.low > 1 else LOSES if gain.high < 1 else UNSURE
        cells = number(imbalance(one), 3), with_bounds(gain), number(least_period(one), 2)
        rows.append((one.case.configuration, str(one.case.pes), *cells, result))
    columns = columns_of(
        "configuration", "#PEs", "#imbalance", "#gain", "#least period", "balancing"
    )
    notes = (
        "Imbalance: max/mean over PEs of compute, without balancing. Least period: steps that the "
        "gain of a step needs to repay one load-balancing step.",
    )
    return Table("When balancing pays", columns, tuple(rows), notes)


def _unbalanced(one: Prediction, found: Sequence[Prediction]) -> Prediction | None:
    """The same run without balancing, if it is among them."""
    plain = Case(one.case.driver, one.case.pes, one.case.odf)
    if not one.case.balancer:
        return None
    return next((other for other in found if other.case == plain), None)


def imbalance(one: Prediction) -> float:
    """Max/mean over PEs of compute without balancing, over the run."""
    return float(one.compute.max(1).sum() / one.compute.mean(1).sum())


def least_period(one: Prediction) -> float:
    """Steps after which a load-balancing step is repaid; infinite if it never is."""
    gained, paid = one.counts.balance(one.costs)
    return float(paid / gained.mean()) if gained.mean() > 0 else float("inf")


def lines(kind: str, found: Sequence[Prediction]) -> dict[str, list[tuple[int, Interval]]]:
    """By configuration, the predicted seconds over PEs, or over ODF in a study of it."""
    drawn: dict[str, list[tuple[int, Interval]]] = {}
    for one in found:
        case = one.case
        name, place = case.configuration, case.pes
        if kind == "odf":
            name, place = f"{case.driver} {case.balancing}".strip(), case.odf
            name = f"{name}, {counted(case.pes, 'PE')}"
        drawn.setdefault(name, []).append((place, one.step))
    return drawn
