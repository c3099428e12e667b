"""A campaign corrects the costs of a machine, and shows how well the model predicts it.

The costs are those that fit the mean times of the campaign's cells best, without leaving the
machine's intervals for little: the sum to be least is, of logarithms,

    sum over cells ((predicted - measured) / noise)^2
    + sum over costs ((cost - machine's) / spread)^2

Intervals are percentiles of a bootstrap: trials are resampled, the machine's costs are drawn from
their intervals, and each draw is fitted again (randomise, then optimise; Bardsley et al., SIAM J.
Sci. Comput. 36 (2014) A1895). Each prediction is also off by as much as cells that were left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize

from miniapps.workbench.model.campaigns import Cell
from miniapps.workbench.model.formula import Counts, values
from miniapps.workbench.model.machine import Machine
from miniapps.workbench.study.statistics import LEVEL, Interval

NOISE = 0.03  # standard deviation of the logarithm of a cell's time that the model leaves
DRAWS = 200  # of a bootstrap
STEP = 1e-6  # of a difference, in standard deviations of a cost
FARTHEST = 5.0  # standard deviations of a cost from the machine's


class Timed(Protocol):
    """What costs are fitted to: counts, and the seconds per step of each trial (n,)."""

    @property
    def counts(self) -> Counts:
        """How often each cost is paid."""

    @property
    def times(self) -> np.ndarray:
        """Seconds per step of each trial."""


@dataclass(frozen=True)
class Fitted:
    """Costs that fit a campaign: by name the value, and one of each draw of the bootstrap (D,).

    ``left_out``: its cells predicted from the others; none if no campaign was fitted.
    """

    machine: Machine
    draws: Mapping[str, np.ndarray]
    left_out: Sequence[LeftOut] = ()

    def predict(self, counts: Counts) -> tuple[Interval, np.ndarray]:
        """Seconds per step with an interval, and those of each draw of the costs: (D,).

        One draw at a time: arrays of all draws x PEs would not fit into memory for 10^6 PEs.
        """
        value = float(counts.seconds(values(self.machine, counts.names)))
        costs = np.array([self.draws[name] for name in counts.names])
        drawn = np.array([counts.seconds(one) for one in costs.T])
        off = np.random.default_rng(0).standard_normal((DRAWS, drawn.size))
        several = drawn * np.exp(off * misfit_of(self.left_out))
        low, high = np.quantile(several, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(value, min(float(low), value), max(float(high), value)), drawn


def from_machine(machine: Machine) -> Fitted:
    """Predictions by a machine's own costs, drawn from their intervals."""
    names = [*machine.costs]
    logs = np.array([_drawn(machine, names, rng) for rng in _generators()])
    return Fitted(machine, dict(zip(names, np.exp(logs).T, strict=True)))


def fit(machine: Machine, cells: Sequence[Cell]) -> Fitted:
    """Costs that fit the cells, with a bootstrap and the predictions of cells that are left out."""
    best = corrected(machine, cells)
    return Fitted(best, drawn_costs(machine, cells, best), leave_one_out(machine, cells))


def drawn_costs(machine: Machine, cells: Sequence[Timed], best: Machine) -> dict[str, np.ndarray]:
    """By name, the costs of each draw of the bootstrap: (D,); ``best``: where to begin."""
    names, prior = paid(cells), list(machine.costs)
    draws = []
    for rng in _generators():
        drawn = _drawn(machine, prior, rng)
        centre = with_costs(machine, dict(zip(prior, np.exp(drawn).tolist(), strict=True)))
        times = [rng.choice(cell.times, cell.times.size).mean() for cell in cells]
        solved = _solve(centre, names, cells, np.array(times), best)
        draws.append({name: centre.costs[name].value for name in prior} | solved)
    return {name: np.array([draw[name] for draw in draws]) for name in prior}


def _generators() -> list[np.random.Generator]:
    return [np.random.default_rng([0, number]) for number in range(DRAWS)]


def _drawn(machine: Machine, names: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """Logarithms of costs, normally distributed as wide as the machine's intervals."""
    spreads = np.array([machine.spread(name) for name in names])
    return np.log(values(machine, names)) + spreads * rng.normal(size=len(names))


def corrected(machine: Machine, cells: Sequence[Timed]) -> Machine:
    """The machine with the costs that fit the mean times of the cells."""
    names = paid(cells)
    times = np.array([cell.times.mean() for cell in cells])
    return with_costs(machine, _solve(machine, names, cells, times, machine))


def with_costs(machine: Machine, costs: Mapping[str, float]) -> Machine:
    """The machine with other values of costs; their intervals move with them."""
    moved = {
        name: machine.costs[name].times(value / machine.costs[name].value)
        for name, value in costs.items()
    }
    return dataclasses.replace(machine, costs={**machine.costs, **moved})


def paid(cells: Sequence[Timed]) -> list[str]:
    """The costs that the cells pay."""
    return sorted({name for cell in cells for name in cell.counts.names})


def _solve(
    machine: Machine,
    names: Sequence[str],
    cells: Sequence[Timed],
    times: np.ndarray,
    start: Machine,
) -> dict[str, float]:
    """The costs of the least sum of squares."""
    centre = np.log(values(machine, names))
    spreads = np.array([machine.spread(name) for name in names])
    columns = [[names.index(name) for name in cell.counts.names] for cell in cells]
    counted = [cell.counts for cell in cells]
    noise = np.array([_noise(cell.times) for cell in cells])

    def residuals(unknown: np.ndarray) -> np.ndarray:
        """Of one set of unknowns (K,), or of several (K, m)."""
        shape = (-1, *[1] * (unknown.ndim - 1))
        costs = np.exp(centre.reshape(shape) + spreads.reshape(shape) * unknown)
        seconds = np.array(
            [one.seconds(costs[own]) for one, own in zip(counted, columns, strict=True)]
        )
        off = np.log(seconds / times.reshape(shape)) / noise.reshape(shape)
        return np.concatenate([off, unknown])

    def slopes(unknown: np.ndarray) -> np.ndarray:
        """Derivatives of the residuals: differences, all in one evaluation."""
        several = np.column_stack([unknown, unknown[:, None] + STEP * np.eye(unknown.size)])
        found = residuals(several)
        return (found[:, 1:] - found[:, :1]) / STEP

    first = (np.log(values(start, names)) - centre) / spreads
    first = first.clip(-0.9 * FARTHEST, 0.9 * FARTHEST)
    limits = (-FARTHEST, FARTHEST)
    found = optimize.least_squares(residuals, first, slopes, limits, xtol=1e-4, ftol=1e-6)
    return dict(zip(names, np.exp(centre + spreads * found.x).tolist(), strict=True))


def _noise(times: np.ndarray) -> float:
    """The standard deviation of the logarithm of a cell's mean time, of the model and of trials."""
    scatter = times.std(ddof=1) / times.mean() if times.size > 1 else 0.0
    return float(np.hypot(NOISE, scatter / np.sqrt(times.size)))


@dataclass(frozen=True)
class LeftOut:
    """A cell predicted from the others."""

    cell: Cell
    measured_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1


def misfit_of(left_out: Sequence[LeftOut]) -> float:
    """The standard deviation of the logarithm of predictions over measurements; 0 without any."""
    misses = [np.log1p(one.error) for one in left_out]
    return float(np.sqrt(np.mean(np.square(misses)))) if misses else 0.0


def leave_one_out(machine: Machine, cells: Sequence[Cell]) -> list[LeftOut]:
    """Each cell predicted by costs that fit all other cells.

    Cells are the points of a campaign: a driver with its ODF and balancing, PEs and problem.
    """
    found = []
    for number, cell in enumerate(cells):
        others = [*cells[:number], *cells[number + 1 :]]
        costs = corrected(machine, others) if others else machine
        seconds = float(cell.counts.seconds(values(costs, cell.counts.names)))
        found.append(LeftOut(cell, float(cell.times.mean()), seconds))
    return found
