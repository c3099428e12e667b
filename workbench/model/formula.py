"""The formula of the performance model: seconds per step from counts and costs.

On each PE, with the quantities of `miniapps.loads` and the costs of `machine`:

    compute = sum over blocks of units x seconds per unit (slower where the memory is the limit)
    runtime = blocks x block_s + sum over places of messages x message_s + bytes x byte_s
    exposed = max(0, rounds x latency_s - compute x (1 - 1 / ODF))
    step    = max over PEs of compute + runtime + exposed

On an asynchronous device the first two are joined by a smooth maximum instead of a sum.

A PE with several blocks computes on others while messages of one travel: over-decomposition hides
latency. With load balancing, from the first load-balancing step on,

    compute = even + kept x (max over PEs - even),   even = max(mean over PEs, heaviest block)
    step   += blocks x balancing cost / period

Loads that change are taken at `SAMPLES` steps of the run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from miniapps import apps
from miniapps.decomposition import Layout
from miniapps.loads import Loads
from miniapps.parameters import require
from miniapps.workbench.model.machine import (
    BLOCK,
    BYTE,
    KEPT,
    LATENCY,
    LATENCY_HOSTS,
    MESSAGE,
    WHERE,
    Machine,
    balancing,
    driver,
    joined,
    kernel,
)
from miniapps.workbench.run.cases import Case

SAMPLES = 8  # of a run whose load changes


@dataclass(frozen=True)
class Situation:
    """A run to predict: a problem in a configuration, and how long it runs."""

    app: str
    problem: Any
    case: Case
    steps: int = 100
    warmup: int = 0
    lb_first: int | None = None
    pe_grid: tuple[int, ...] | None = None

    @property
    def layout(self) -> Layout:
        """The decomposition, as of `RunSpec`; raises InputError if there is none.

        A driver with one PE has all parts of the PE grid as its blocks.
        """
        if not self.case.can.one_pe or self.case.can.replays:
            return self.problem.cut(self.case.pes, self.case.odf, self.pe_grid)
        parts = math.prod(self.pe_grid) if self.pe_grid else self.case.parts
        return replace(self.problem.cut(parts, 1, self.pe_grid), one_home=True)


@dataclass(frozen=True)
class Counts:
    """The counts of one situation: sampled steps S, or 1 if all are alike; PEs P, costs K.

    ``compute`` (S, P, K), ``runtime`` (S, P, K), ``latency`` (S, P, K): per PE and cost, how often
    it is paid; ``blocks`` (S, blocks, K): the compute of each block, if load is balanced;
    ``before`` (SAMPLES,): whether the sampled step is before the first load-balancing step.
    """

    names: tuple[str, ...]
    odf: int
    compute: np.ndarray
    runtime: np.ndarray
    latency: np.ndarray
    blocks: np.ndarray
    before: np.ndarray
    balancer: str | None
    period: int
    asynchronous: bool = False

    def seconds(self, costs: np.ndarray) -> np.ndarray:
        """Seconds per step for ``costs`` (K, ...), in the order of `names`: (...)."""
        compute, runtime = self.compute @ costs, self.runtime @ costs
        hidden = compute * (1 - 1 / self.odf)
        exposed = np.maximum(0.0, self.latency @ costs - hidden)
        add = joined if self.asynchronous else np.add
        plain = (add(compute, runtime) + exposed).max(1)
        if self.balancer is None:
            return plain.mean(0)
        gained, paid = self.balance(costs)
        balanced = add(compute.max(1) - gained, runtime.max(1)) + exposed.max(1)
        balanced = balanced + paid / self.period
        before = self.before.reshape(len(self.before), *[1] * (plain.ndim - 1))
        return np.where(before, plain, balanced).mean(0)

    def balance(self, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Seconds that balancing takes off a step (S, ...), and those of a load-balancing step."""
        compute = self.compute @ costs
        most, mean = compute.max(1), compute.mean(1)
        even = np.minimum(most, np.maximum(mean, (self.blocks @ costs).max(1)))
        kept, own = (costs[self.names.index(name)] for name in self.lb_names)
        return (1 - np.minimum(kept, 1.0)) * (most - even), own * self.odf

    @property
    def lb_names(self) -> tuple[str, str]:
        """The names of the two costs of load balancing."""
        return balancing(KEPT), balancing(str(self.balancer))


def with_loads(app: str) -> ModuleType:
    """The module of an app whose work and messages the model can count. Raises InputError."""
    module = apps.load(app)
    require(hasattr(module, "loads"), "APP", app, "has no loads, which the model needs")
    return module


def counts(machine: Machine, asked: Situation) -> Counts:
    """Count what a situation pays. Raises InputError if the machine lacks a cost, or the app loads.

    Costs of zero count are not needed.
    """
    module = with_loads(asked.app)
    layout = asked.layout
    problem = asked.problem.prepared(layout, "cpu")
    steps = _sampled_steps(asked)
    table = _Table(machine, asked, layout)
    for loads in _distinct([module.loads(problem, layout, step) for step in steps]):
        table.add(loads)
    first = asked.lb_first or asked.case.lb_period
    return table.counts(np.array([step < first for step in steps]))


def _sampled_steps(asked: Situation) -> list[int]:
    """The middle steps of equal parts of a run."""
    return [asked.warmup + int((n + 0.5) * asked.steps / SAMPLES) for n in range(SAMPLES)]


def _distinct(found: list[Loads]) -> list[Loads]:
    """The loads of several steps, or only one if no step differs from the one before it."""
    pairs = itertools.pairwise(found)
    same = all(np.array_equal(a.units[kind], b.units[kind]) for a, b in pairs for kind in a.units)
    return found[:1] if same else found


class _Table:
    """Collects rows of counts; each cost that occurs gets a column."""

    def __init__(self, machine: Machine, asked: Situation, layout: Layout) -> None:
        self.machine, self.asked, self.layout = machine, asked, layout
        self.names: list[str] = []
        self.rows: list[dict[str, dict[str, np.ndarray]]] = []
        self.pes = 1 if layout.one_home else layout.pes
        pes = np.arange(layout.pes).reshape(layout.pe_grid) % self.pes
        for axis, blocks in enumerate(layout.sub_grid):
            pes = pes.repeat(blocks, axis)
        self.pe_of = pes  # of each block
        self.host_of = pes // machine.pes_per_host

    def add(self, loads: Loads) -> None:
        """Add the counts of one step."""
        asked, app = self.asked, self.asked.app
        sharing = min(self.pes, self.machine.pes_per_host)
        memory = self.summed(loads.memory)[self.pe_of]
        blocks = {
            kernel(app, kind): units
            * self.machine.slowdown(app, kind, memory, loads.sweeps, sharing)
            for kind, units in loads.units.items()
        }
        of = asked.case.driver
        runtime = {driver(of, BLOCK): self.summed(np.ones(self.layout.grid))}
        rounds = np.zeros((len(WHERE), self.pes))
        for flow in loads.flows:
            for number, (where, sent) in enumerate(self.places(flow.edge)):
                times = self.summed(sent * flow.per_step)
                long = self.summed(sent * flow.bytes * flow.per_step)
                for name, amount in ((MESSAGE[where], times), (BYTE[where], long)):
                    key = driver(of, name)
                    runtime[key] = runtime.get(key, 0.0) + amount
                rounds[number] = np.maximum(rounds[number], flow.per_step * (times > 0))
        latency = {
            driver(of, LATENCY): np.where(rounds[2] > 0, 0.0, rounds[1]),
            driver(of, LATENCY_HOSTS): rounds[2],
        }
        compute = {name: self.summed(units) for name, units in blocks.items()}
        of_blocks = blocks if asked.case.balancer else {}
        row = {"compute": compute, "runtime": runtime, "latency": latency, "blocks": of_blocks}
        for part in row.values():
            for name in [name for name, amount in part.items() if not np.any(amount)]:
                del part[name]
            self.names += [name for name in part if name not in self.names]
        self.rows.append(row)

    def summed(self, of_blocks: np.ndarray) -> np.ndarray:
        """Sums over the blocks of each PE: (P,)."""
        return np.bincount(self.pe_of.ravel(), np.asarray(of_blocks, float).ravel(), self.pes)

    def places(self, edge: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
        """Which blocks send over an edge to their own PE, to their own host, to another host."""
        axes = tuple(range(len(edge)))
        back = tuple(-step for step in edge)
        there, host = (np.roll(of, back, axes) for of in (self.pe_of, self.host_of))
        exists = np.ones(self.layout.grid, bool)
        for axis, step in enumerate(edge):
            if step and not self.layout.periodic[axis]:
                end = {-1: 0, 1: -1}[step]  # beyond these blocks there are none
                np.moveaxis(exists, axis, 0)[end] = False
        same = there == self.pe_of
        near = host == self.host_of
        kinds = (same, ~same & near, ~near)
        return [(where, exists & kind) for where, kind in zip(WHERE, kinds, strict=True)]

    def counts(self, before: np.ndarray) -> Counts:
        """All rows as arrays."""
        case = self.asked.case
        if case.balancer:
            own = (balancing(KEPT), balancing(case.balancer))
            self.names += [name for name in own if name not in self.names]
        for name in self.names:
            self.machine.cost(name)  # raises
        arrays = {
            part: np.stack([self._matrix(row[part]) for row in self.rows])
            for part in ("compute", "runtime", "latency", "blocks")
        }
        return Counts(
            tuple(self.names), self.pe_of.size // self.pes, **arrays, before=before,
            balancer=case.balancer, period=max(1, case.lb_period),
            asynchronous=self.machine.asynchronous,
        )  # fmt: skip

    def _matrix(self, part: dict[str, np.ndarray]) -> np.ndarray:
        rows = next((amount.size for amount in part.values()), self.pes)  # all have as many
        found = np.zeros((rows, len(self.names)))
        for name, amount in part.items():
            found[:, self.names.index(name)] = amount.ravel()
        return found


def values(machine: Machine, names: Sequence[str]) -> np.ndarray:
    """The machine's values of some costs: (K,)."""
    return np.array([machine.cost(name).value for name in names])


def predicted(machine: Machine, asked: Situation) -> float:
    """Seconds per step of a situation at the machine's values."""
    found = counts(machine, asked)
    return float(found.seconds(values(machine, found.names)))
